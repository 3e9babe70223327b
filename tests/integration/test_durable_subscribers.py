"""A discarded index: no message of a durable subscriber is lost.

The releases differ in how they treat the records of subscriptions.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.integration.durable_subscriptions import DISCARD_FUNCTIONS, aged_subscription
from tests.situations import further, in_every_situation

_SINGLE: dict[str, Any] = {"ha": "none"}
_GUARDED: dict[str, Any] = {"fence": "guard"}
RELEASES = ("5.8.0", "5.13.0", "5.13.5", "5.18.3", "6.3.1")


@in_every_situation
@pytest.mark.parametrize(
    ("release", "kind", "discard"),
    [
        ("5.11.4", "guard", "needs-removed-file"),
        *further(
            ("5.5.1", "single", "needs-removed-file"),
            ("5.11.4", "single", "needs-removed-file"),
            ("5.5.1", "guard", "needs-removed-file"),
            *((release, kind, "needs-removed-file") for release in RELEASES for kind in ("single", "guard")),
            *((release, kind, "index-removed") for release in ("5.5.1", "5.11.4") for kind in ("single", "guard")),
        ),
    ],
)
def test_discarded_index_loses_no_message_of_durable_subscriber(
    tmp_path: Path, release: str, kind: str, discard: str
) -> None:
    with aged_subscription(tmp_path, release, **(_SINGLE if kind == "single" else _GUARDED)) as aged:
        aged.kill()
        DISCARD_FUNCTIONS[discard](aged.store)
        assert aged.start_and_drain() == aged.sent
