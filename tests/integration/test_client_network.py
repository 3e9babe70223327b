"""Networks that drop packets or disconnect clients from the nodes of a pair: no event is lost, duplicate or stuck.

nftables drops the packets in a network namespace of the test, so the test requires root. With ``SITUATIONS=all`` each
fault lasts a minute.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.integration.namespaces import in_namespaces
from tests.situations import EVERY_SITUATION, further, in_every_situation

SECONDS = 60 if EVERY_SITUATION else 20

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        os.geteuid() != 0 or not shutil.which("nft"),
        reason="the test requires root and nft: install the package nftables",
    ),
]


@in_every_situation
@pytest.mark.parametrize(
    ("fault", "release"),
    [
        ("loss", "6.3.1"),
        *further(("active", "6.3.1"), ("answers", "6.3.1"), ("both", "6.3.1"), ("flapping", "6.3.1")),
        *further(("loss", "5.18.3"), ("answers", "5.18.3"), ("loss", "5.11.4")),
    ],
)
def test_network_faults_between_clients_and_pair_lose_no_event(tmp_path: Path, fault: str, release: str) -> None:
    module = "tests.integration.client_network"
    report = in_namespaces(module, fault, str(SECONDS), release, str(tmp_path), timeout=590)
    print(report)
    account = report["account"]
    assert report["dropped"] > 0
    assert account["lost"] == 0
    assert account["stuck"] == 0
    assert account["duplicate"] == 0
    assert account["accepted"] == account["handled"] > 0
    assert report["most_active"] <= 1
