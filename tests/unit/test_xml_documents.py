"""The rendered activemq.xml of a broker, which a check parses once and whose tree it releases."""

from __future__ import annotations

from typing import Any

import pytest
from lxml import etree

from activemq_fleet.render import render_activemq_xml_document
from activemq_fleet.schema import UnreadableXmlError, XmlDocument, _documents
from activemq_fleet.validation import fleet_with_check_findings
from tests.unit.fleets import fleet

LINK = {
    "parent": "broker/networkConnectors",
    "xml": "<networkConnector name='x' uri='static:(tcp://x.example.com:1)' networkTTL='2'/>",
}


@pytest.mark.parametrize("fragments", [[], [LINK]])
def test_check_parses_each_document_once(fragments: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[bytes] = []
    parse_all_xml_elements = _documents.parse_all_xml_elements

    def record_and_parse(content: bytes) -> list[etree._Element]:
        parsed.append(content)
        return parse_all_xml_elements(content)

    monkeypatch.setattr(_documents, "parse_all_xml_elements", record_and_parse)
    built_fleet = fleet("o-mq1", "o-mq2", xml_fragments=fragments)
    documents = {broker.host: render_activemq_xml_document(broker) for broker in built_fleet.brokers}
    fleet_with_check_findings(built_fleet, documents, None)

    activemq_xml = {document.content for document in documents.values()}
    assert sorted(content for content in parsed if content in activemq_xml) == sorted(activemq_xml)


def test_check_releases_trees_of_documents() -> None:
    built_fleet = fleet("o-mq1")
    documents = {broker.host: render_activemq_xml_document(broker) for broker in built_fleet.brokers}
    fleet_with_check_findings(built_fleet, documents, None)

    assert not any("tree" in vars(document) for document in documents.values())


def test_unreadable_document_raises_on_each_use() -> None:
    document = XmlDocument(b"<broker")
    for _ in range(2):
        with pytest.raises(UnreadableXmlError):
            _ = document.root
