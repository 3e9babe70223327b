"""The days until a certificate expires, in the table and the findings of the status."""

from __future__ import annotations

import pytest

from activemq_fleet.status import fleet_status
from activemq_fleet.status.text import BROKER_COLUMNS, broker_cells
from tests.support.broker_evidence import NOW, A, B, broker_evidence
from tests.unit.fleets import fleet

HOUR = 3600


@pytest.mark.parametrize(
    ("seconds", "cell", "message"),
    [
        (20 * 24 * HOUR, "20 d", "expires in 20 days, on "),
        (11 * HOUR, "0.5 d", "expires in 0.5 days, on "),
        (60, "0.1 d", "expires in 0.1 days, on "),
        (-60, "0 d", "expired on "),
        (-11 * HOUR, "-0.4 d", "expired on "),
    ],
)
def test_days_until_certificate_expires_have_tenths_below_one_day(seconds: float, cell: str, message: str) -> None:
    pair = fleet("orders-mq01")
    certificate = {"name": "connector mqtt", "error": "", "ends": NOW + seconds}
    evidence = {
        A: {"broker": broker_evidence(pair, A, certificates=[certificate])},
        B: {"broker": broker_evidence(pair, B, state="standby", usage={}, holds_lock=None)},
    }

    report = fleet_status(pair, evidence, now=NOW)

    (row,) = [broker_cells(row, NOW) for row in report.brokers if row.host == A]
    assert row[BROKER_COLUMNS.index("certificate")] == cell
    messages = [finding.message for finding in report.findings if finding.rule.startswith("certificate-")]
    assert [f"the certificate of connector mqtt {message}" in text for text in messages] == [True]
