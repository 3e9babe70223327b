"""Test of hostile listeners at the addresses of a pair on other hosts.

They receive no login of links, and over TLS they receive no login at all.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.integration.namespaces import in_namespaces

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces require root: run this test as root")


@pytest.mark.timeout(300)
def test_listener_on_another_host_receives_at_most_account_of_probes(tmp_path: Path) -> None:
    cases = in_namespaces("tests.integration.remote_listener", str(tmp_path), timeout=240)

    for name, case in cases.items():
        assert "CONNECTION" in case["sent"], f"{name}: the attack did not reach its target"
        assert "N3tworkS3cret" not in case["sent"], name
    for name in ("tls", "tls-old"):
        assert "Pr0beS3cret" not in cases[name]["sent"]
        assert "no login was sent" in cases[name]["last"][0]
    assert "Pr0beS3cret" in cases["plain"]["sent"]
    assert "activemq-probe" in cases["plain"]["sent"]
    assert "Pr0beS3cret" not in cases["plain-old"]["sent"]
