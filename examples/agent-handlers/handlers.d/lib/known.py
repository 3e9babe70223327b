"""What the handlers beside share: the event on standard input, and a small file that each changes whole.

A handler may run twice for one event (the agent was killed while it ran): all that is done here can be done again.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def payload() -> dict[str, Any]:
    """The payload of the event: a JSON object. Anything else ends the run, and is tried again in vain."""
    event = json.load(sys.stdin)
    text = event["payload"] if "payload" in event else base64.b64decode(event["payload_base64"])
    found = json.loads(text)
    if not isinstance(found, dict):
        raise SystemExit(f"{event['topic']}: the payload is no JSON object")
    return found


@contextmanager
def known(name: str) -> Iterator[dict[str, Any]]:
    """``KNOWN/NAME.json`` as a dict, written back whole when the block ends without an error.

    Events of different topics are handled at the same time, so the file is locked meanwhile.
    """
    directory = Path(os.environ.get("KNOWN") or Path(os.environ.get("STATE_DIRECTORY", "."), "known"))
    directory.mkdir(mode=0o755, parents=True, exist_ok=True)
    path = directory / f"{name}.json"
    with (directory / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        content: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        yield content
        fresh = path.with_suffix(".new")
        with fresh.open("w") as file:
            json.dump(content, file, indent=2, sort_keys=True)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
