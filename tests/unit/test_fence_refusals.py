"""Errors of the rules for stores that a guard cannot fence, before anything is installed."""

from __future__ import annotations

import pytest

from activemq_fleet.node.host_paths import ACTIVEMQ_XML
from activemq_fleet.render import render_broker
from activemq_fleet.schema import XmlDocument
from activemq_fleet.validation import fleet_with_check_findings
from tests.unit.fleets import fleet


def guard_errors(fence: str, xml: str) -> list[str]:
    fragments = [{"parent": "broker/persistenceAdapter", "xml": xml}] if xml else []
    planned_fleet = fleet("orders-mq01", ha="shared-file", fence=fence, xml_fragments=fragments)
    documents = {broker.host: XmlDocument(render_broker(broker)[ACTIVEMQ_XML]) for broker in planned_fleet.brokers}
    checked_fleet = fleet_with_check_findings(planned_fleet, documents, None)
    return [f"{finding.host}: {finding.message}" for finding in checked_fleet.findings if finding.rule == "T032"]


@pytest.mark.parametrize(
    ("xml", "reason"),
    [
        ('<kahaDB indexDirectory="/fast"/>', "sets indexDirectory of the element kahaDB"),
        ('<kahaDB directoryArchive="/old"/>', "sets directoryArchive of the element kahaDB"),
        ('<kahaDB directory="/elsewhere"/>', "sets the directory of the element kahaDB to /elsewhere"),
        ('<mKahaDB directory="/many"/>', "replaces the element kahaDB of activemq.xml with mKahaDB"),
    ],
)
def test_store_that_guard_cannot_fence_is_error_of_each_node(xml: str, reason: str) -> None:
    errors = guard_errors("guard", xml)
    error_text = (
        f"activemq_xml_fragments {reason}, but activemq_fence: guard protects only the kahaDB directory of the pair"
    )
    assert errors == [f"orders-mq01-{node}.example.com: {error_text}" for node in "ab"]


@pytest.mark.parametrize(("fence", "xml"), [("none", '<mKahaDB directory="/many"/>'), ("guard", "")])
def test_store_without_guard_or_with_default_kahadb_is_no_error(fence: str, xml: str) -> None:
    assert guard_errors(fence, xml) == []
