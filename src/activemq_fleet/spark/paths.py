"""Distinguish local paths from paths of other file systems, and write both as URIs for Spark."""

from __future__ import annotations

import os
import re
from pathlib import Path

_FILE = re.compile(r"^file:(?://[^/]*)?")
_GLOB = re.compile(r"([\[\]{}*?\\])")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?://[^/]*)?")


def local_path(path: str) -> Path | None:
    """Return the absolute local path of a path; None if the path is not local.

    Hadoop reads paths of other file systems (``s3a://…``). A path without a scheme is local, whatever a cluster's
    default file system is.
    """
    if path.startswith("file:"):
        # As Hadoop reads it: nothing is decoded, and # and ? are letters.
        return Path(os.path.abspath(_FILE.sub("", path)))
    if _SCHEME.match(path):
        return None
    return Path(os.path.abspath(path))


def uri_of(path: str | Path) -> str:
    """Return the URI by which Spark reads a path: ``file:///…`` for a local path.

    Other paths are returned without a slash at their end.
    """
    absolute_path = local_path(str(path))
    return str(path).rstrip("/") if absolute_path is None else f"file://{absolute_path}"


def uri_with_escaped_wildcards(path: str | Path) -> str:
    """Return the URI of a path for Spark's readers, with wildcard characters escaped."""
    return _GLOB.sub(r"\\\1", uri_of(path))


def path_relative_to_root(root: str, path: str) -> str:
    """Return a path relative to the root directory that contains it; both may have a scheme and an authority.

    Hadoop listed the path below ``root``. A path that is not below it is returned without its scheme and authority.
    """
    return _SCHEME.sub("", path).removeprefix(f"{_SCHEME.sub('', root).rstrip('/')}/")
