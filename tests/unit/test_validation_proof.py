"""Of documents that are alike one is validated in full, and a mistake is never hidden by that."""

from __future__ import annotations

from typing import Any

import pytest

from activemq_fleet import validation
from activemq_fleet.render.activemq_xml import activemq_xml
from activemq_fleet.schema import Schema, SchemaProblem
from activemq_fleet.topology import Fleet
from activemq_fleet.validation import Proof, checked
from tests.unit.fleets import fleet
from tests.xsds import small_xsd

PAIRS = [f"orders-mq{number:02}" for number in range(1, 21)]


class Counting(Schema):
    """Counts what it validates; takes every document that does not say ``maybe``."""

    def __init__(self) -> None:
        super().__init__(small_xsd())
        self.asked = 0

    def is_valid(self, document: bytes) -> bool:
        self.asked += 1
        return b"maybe" not in document

    def explain(self, document: bytes) -> tuple[SchemaProblem, ...]:
        return (SchemaProblem(1, 1, "beans/broker", "maybe is neither true nor false"),)


def look(made: Fleet, schema: Schema, proof: Proof | None) -> tuple[Any, ...]:
    documents = {broker.host: activemq_xml(broker) for broker in made.brokers}
    return checked(made, documents, lambda _: schema, proof=proof).findings


def test_documents_that_are_alike_are_validated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation, "_SAMPLED", 1 << 40)
    schema, proof = Counting(), Proof()
    look(fleet(*PAIRS, topology="none"), schema, proof)

    assert schema.asked == proof.validated <= 4


def test_some_are_validated_whatever_their_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation, "_SAMPLED", 4)
    schema, proof = Counting(), Proof()
    look(fleet(*PAIRS, topology="none"), schema, proof)

    assert 4 < proof.validated < 30


def test_findings_are_the_same_with_and_without() -> None:
    one = fleet(*PAIRS, topology="none")
    wrong = fleet(*PAIRS, topology="none", broker_attributes={"useJmx": "maybe"})
    proof = Proof()
    for made in (one, wrong, one):
        assert look(made, Counting(), proof) == look(made, Counting(), None)
    told = [finding.host for finding in look(wrong, Counting(), proof) if "neither true nor false" in finding.message]
    assert told == [broker.host for broker in wrong.brokers]
