"""Tell local paths from those of other file systems, and write both as URIs for Spark."""

from __future__ import annotations

import os
import re
from pathlib import Path

_FILE = re.compile(r"^file:(?://[^/]*)?")
_GLOB = re.compile(r"([\[\]{}*?\\])")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?://[^/]*)?")


def local_path(path: str) -> Path | None:
    """Return the absolute path on this machine's file system, or None for another that Hadoop reads (``s3a://…``).

    A path without a scheme is local, whatever a cluster's default file system is.
    """
    if path.startswith("file:"):
        # As Hadoop reads it: nothing is decoded, and # and ? are letters.
        return Path(os.path.abspath(_FILE.sub("", path)))
    if _SCHEME.match(path):
        return None
    return Path(os.path.abspath(path))


def uri_of(path: str | Path) -> str:
    """Return a path as a URI for Spark: ``file:///…`` for a local one, else as it is without a slash at its end."""
    found = local_path(str(path))
    return str(path).rstrip("/") if found is None else f"file://{found}"


def escaped_uri_of(path: str | Path) -> str:
    """Return a path as a URI for a reader of Spark, with brackets, braces, stars, ``?`` and backslashes escaped."""
    return _GLOB.sub(r"\\\1", uri_of(path))


def path_below(root: str, path: str) -> str:
    """Return a path as Hadoop lists it, relative to the directory ``root``; both may have a scheme and an authority."""
    return _SCHEME.sub("", path).removeprefix(f"{_SCHEME.sub('', root).rstrip('/')}/")
