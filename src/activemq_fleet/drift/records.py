"""Files as they were planned and as they were collected -> what is known of each. No Spark here.

Planned: ``hosts/HOST/PATH``, as ``render`` writes. Found: ``HOST/configuration/PATH``, as ``collect``
lays it down, with ``.fleet-manifest.json`` and ``.fleet-found.json`` beside.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from activemq_fleet import masking
from activemq_fleet.errors import InputError

CONFIGURATION = "configuration/"
MANIFEST = ".fleet-manifest.json"
FOUND = ".fleet-found.json"


class Known(NamedTuple):
    """A piece of what is known of a file; pieces of one file are put together by host and path."""

    host: str
    path: str
    planned: str | None = None
    found: str | None = None
    manifest: str | None = None
    told: str | None = None
    why: str | None = None
    planned_text: str | None = None
    found_text: str | None = None
    installed: bool = False


def planned_file(host: str, path: str, content: str | None, sha256: str | None) -> Known:
    """A file of the plan. Without its content (``plan --without-content``) only its hash counts."""
    if content is None:
        return Known(host, path, planned=sha256)
    text = masking.mask(path, content)
    return Known(host, path, planned=_hash(text), planned_text=text)


def collected_file(host: str, path: str, content: bytes) -> Iterator[Known]:
    """What a collected file says: of itself, or of others when it is one of collect's records.

    Raises InputError naming the host for a record that cannot be read.
    """
    if path == MANIFEST:
        for name, digest in _record(host, path, content).items():
            yield Known(host, name, manifest=str(digest), installed=True)
    elif path == FOUND:
        for name, about in _record(host, path, content).items():
            # A key store, say, is not collected: its hash is. What is too large has not even that.
            why, told = about.get("why"), about.get("status")
            digest = about.get("sha256") if why else None
            yield Known(host, name, found=digest, told="unreadable" if why and not digest else told, why=why)
    else:
        text = masking.mask(path, content.decode(errors="backslashreplace"))
        yield Known(host, path, found=_hash(text), found_text=text)


def _record(host: str, path: str, content: bytes) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise InputError(f"{host}: {CONFIGURATION}{path} cannot be read: collect this host again")
    return found


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
