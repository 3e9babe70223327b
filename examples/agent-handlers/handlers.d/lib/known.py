"""Functions that the handlers share: read the event on standard input, and change a small file atomically.

A handler may run twice for an event, if the agent was killed while the handler was running. All functions are
idempotent.
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
    """Return the payload of the event, a JSON object. Exit with an error for any other payload."""
    event = json.load(sys.stdin)
    text = event["payload"] if "payload" in event else base64.b64decode(event["payload_base64"])
    content = json.loads(text)
    if not isinstance(content, dict):
        raise SystemExit(f"{event['topic']}: the payload is not a JSON object")
    return content


@contextmanager
def known(name: str) -> Iterator[dict[str, Any]]:
    """Yield the content of ``KNOWN/NAME.json``, and replace the file when the block ends without an error.

    A lock protects the file, because events of different topics are handled at the same time.
    """
    directory = Path(os.environ.get("KNOWN") or Path(os.environ.get("STATE_DIRECTORY", "."), "known"))
    directory.mkdir(mode=0o755, parents=True, exist_ok=True)
    path = directory / f"{name}.json"
    with (directory / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        content: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        yield content
        new_path = path.with_suffix(".new")
        with new_path.open("w") as file:
            json.dump(content, file, indent=2, sort_keys=True)
            file.flush()
            os.fsync(file.fileno())
        new_path.replace(path)
