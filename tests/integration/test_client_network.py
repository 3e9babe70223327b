"""Networks that lose packets, or cut clients off from the nodes of a pair: what is lost, twice or stuck.

nftables drops packets in a network namespace of the test, so it needs root. ``SITUATIONS=all`` does it for a minute.
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
    pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("nft"), reason="needs root and nft (package nftables)"),
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
def test_nothing_is_lost_by_a_bad_network_between_clients_and_a_pair(tmp_path: Path, fault: str, release: str) -> None:
    module = "tests.integration.client_network"
    found = in_namespaces(module, fault, str(SECONDS), release, str(tmp_path), timeout=590)
    print(found)
    account = found["account"]
    assert found["dropped"] > 0
    assert (account["lost"], account["stuck"], account["duplicate"]) == (0, 0, 0)
    assert account["accepted"] == account["handled"] > 0
    assert found["most_active"] <= 1
