"""Hostile listeners at the addresses of a pair on other hosts get no login of links, over TLS none at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.integration.namespaces import in_namespaces

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root for network namespaces")


@pytest.mark.timeout(300)
def test_listener_on_another_host_gets_the_account_of_probes_at_most(tmp_path: Path) -> None:
    seen = in_namespaces("tests.integration.remote_listener", str(tmp_path), timeout=240)

    for name, case in seen.items():
        assert "CONNECTION" in case["sent"], f"{name}: the attack did not reach its target"
        assert "N3tworkS3cret" not in case["sent"], name
    for name in ("tls", "tls-old"):
        assert "Pr0beS3cret" not in seen[name]["sent"]
        assert "no login was sent" in seen[name]["last"][0]
    assert "Pr0beS3cret" in seen["plain"]["sent"]
    assert "activemq-probe" in seen["plain"]["sent"]
    assert "Pr0beS3cret" not in seen["plain-old"]["sent"]
