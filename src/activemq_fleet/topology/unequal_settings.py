"""Find settings that differ between brokers that require the same value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from activemq_fleet.findings import Finding, error_finding
from activemq_fleet.settings.encrypted import may_equal
from activemq_fleet.topology.model.broker import Broker

EqualSetting = tuple[str, Callable[[Broker], Any], str]
"""The name of a variable, a function that returns its value of a broker, and why brokers require the same value."""


def unequal_setting_findings(
    brokers: Sequence[Broker], settings: Iterable[EqualSetting], where: str
) -> Iterator[Finding]:
    """Yield an error for each setting that differs between the brokers (T009); ``where`` names these brokers."""
    first = brokers[0]
    for variable, value_of, why in settings:
        expected = value_of(first)
        for other in brokers[1:]:
            if not may_equal(value_of(other), expected):
                yield error_finding(
                    "T009",
                    other.host,
                    f"{variable} differs from the value of {first.host} in {where}",
                    f"set {variable} to the same value for all brokers of {where}",
                    why=why,
                )
