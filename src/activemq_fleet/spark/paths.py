"""Which paths this machine's file system has, and how Spark is told of them."""

from __future__ import annotations

import os
import re
from pathlib import Path

_FILE = re.compile(r"^file:(?://[^/]*)?")
_GLOB = re.compile(r"([\[\]{}*?\\])")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def local_path(path: str) -> Path | None:
    """The path on this machine's file system, absolute; None for any other that Hadoop reads (``s3a://…``).

    A path without a scheme is local, also where a cluster's default file system is another.
    """
    if path.startswith("file:"):
        # As Hadoop reads it: nothing is decoded, and # and ? are letters.
        return Path(os.path.abspath(_FILE.sub("", path)))
    if _SCHEME.match(path):
        return None
    return Path(os.path.abspath(path))


def uri_of(path: str | Path) -> str:
    """The path as Spark's readers and writers take it, whatever the cluster's default file system is."""
    found = local_path(str(path))
    return str(path).rstrip("/") if found is None else f"file://{found}"


def pattern_of(path: str | Path) -> str:
    """The same for a reader, which takes a path for a pattern: its brackets and stars are themselves."""
    return _GLOB.sub(r"\\\1", uri_of(path))
