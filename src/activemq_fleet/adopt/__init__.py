"""Read existing activemq.xml files into an inventory that renders them again, and list the rest.

What no variable expresses goes into ``activemq_broker_attributes`` and ``activemq_xml_fragments``. Then every document
is rendered from the new inventory and compared with its original: each deviation is a ``Difference``, so that the list
is complete by construction. No password is written to the inventory.
"""

from __future__ import annotations

from activemq_fleet.adopt.adoption import Adoption, adopt, adopt_files
from activemq_fleet.adopt.agents import read_agents
from activemq_fleet.adopt.difference_report import describe_differences
from activemq_fleet.adopt.inventory_writer import MARK, is_unchanged
from activemq_fleet.adopt.sources import AdoptedDocument, UnreadHostsError, read_addresses, read_sources
from activemq_fleet.adopt.xml_diff import Difference

__all__ = [
    "MARK",
    "AdoptedDocument",
    "Adoption",
    "Difference",
    "UnreadHostsError",
    "adopt",
    "adopt_files",
    "describe_differences",
    "is_unchanged",
    "read_addresses",
    "read_agents",
    "read_sources",
]
