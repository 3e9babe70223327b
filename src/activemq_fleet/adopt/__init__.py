"""Convert existing activemq.xml files to an inventory that renders them again, and list all deviations.

Configuration that no variable expresses becomes ``activemq_broker_attributes`` and ``activemq_xml_fragments``. Then
every document is rendered from the new inventory and compared with its original: each deviation is an
``XmlDifference``, so that the list is complete by construction. No password is written to the inventory.
"""

from __future__ import annotations

from activemq_fleet.adopt.adoption import AdoptedInventory, adopt_documents, adopt_files
from activemq_fleet.adopt.agents import find_agent_configurations
from activemq_fleet.adopt.difference_report import difference_report_lines
from activemq_fleet.adopt.inventory_writer import MARK, is_inventory_unedited
from activemq_fleet.adopt.sources import (
    AdoptedDocument,
    UnparsedHostNamesError,
    parse_addresses_by_host,
    read_adopted_documents,
)
from activemq_fleet.adopt.xml_diff import XmlDifference

__all__ = [
    "MARK",
    "AdoptedDocument",
    "AdoptedInventory",
    "UnparsedHostNamesError",
    "XmlDifference",
    "adopt_documents",
    "adopt_files",
    "difference_report_lines",
    "find_agent_configurations",
    "is_inventory_unedited",
    "parse_addresses_by_host",
    "read_adopted_documents",
]
