"""Every rendered activemq.xml against the schema of the release that will read it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from activemq_fleet.findings import Finding
from activemq_fleet.releases import Release
from activemq_fleet.render import ACTIVEMQ_XML
from activemq_fleet.schema import Schema
from activemq_fleet.settings import WaiverSettings
from activemq_fleet.topology import Broker, Fleet
from activemq_fleet.topology.build import waive

RULE = "V002"


def with_schema_findings(fleet: Fleet, documents: Mapping[str, bytes], schema_of: Callable[[Release], Schema]) -> Fleet:
    """The fleet, with a finding for each place where a document breaks its release's schema.

    ``documents`` are rendered activemq.xml by inventory name; ``schema_of`` is asked once a
    release. Line and column are 1-based, in that document. Raises what ``schema_of`` raises.
    """
    schemas: dict[str, Schema] = {}
    found: list[Finding] = []
    for broker in fleet.brokers:
        schema = schemas.get(broker.release.text)
        if schema is None:
            schema = schemas[broker.release.text] = schema_of(broker.release)
        document = documents[broker.host]
        if not schema.is_valid(document):
            found += _findings(broker, document, schema)
    if not found:
        return fleet
    waivers = [WaiverSettings.model_validate(waiver) for waiver in fleet.waivers]
    return replace(fleet, findings=(*fleet.findings, *waive(found, waivers)))


def _findings(broker: Broker, document: bytes, schema: Schema) -> list[Finding]:
    return [
        Finding(
            rule=RULE,
            severity="error",
            host=broker.host,
            file=ACTIVEMQ_XML,
            line=problem.line,
            column=problem.column,
            message=problem.message,
            fix="correct activemq_broker_attributes or activemq_xml_fragments",
            why=f"release {broker.release.text} checks the file when it starts, and does not start with this one",
        )
        for problem in schema.explain(document)
    ]
