"""The load of a drill over STOMP, and what ends it."""

from __future__ import annotations

import errno
import os
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from activemq_fleet.errors import LabError
from activemq_fleet.lab import stomp_load_generator
from activemq_fleet.lab.stomp_load_generator import StompLoadGenerator, StompLoadSpec


def test_full_disk_ends_stomp_consumer_with_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail_to_write(_: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    spec = StompLoadSpec(name="orders-mq01", addresses=(("127.0.0.1", 1),), destination="/queue/a", rate=1)
    connection = SimpleNamespace(subscribe=lambda _: None, receive=lambda _: None)
    monkeypatch.setattr(stomp_load_generator, "StompConnection", lambda *_, **__: nullcontext(connection))

    with StompLoadGenerator(spec, tmp_path) as generator:
        monkeypatch.setattr(generator._received_journal, "_file", SimpleNamespace(write=fail_to_write))
        with pytest.raises(
            LabError,
            match=r"orders-mq01/subscriber/agent/journal-000000001.jsonl cannot be written \(No space left on device\)",
        ):
            generator.start_load(timeout=1)
