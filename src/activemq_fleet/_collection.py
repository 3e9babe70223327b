"""Find the collection ``activemq.fleet`` that belongs to the running library."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from activemq_fleet._version import __version__

_PACKAGE = Path(__file__).resolve().parent
_DIRECTORY = Path("ansible_collections", "activemq", "fleet")
_RUNTIME_FILE = _DIRECTORY / "meta" / "runtime.yml"


def directories_with_this_collection() -> list[str]:
    """Return the directories in which Ansible finds this collection: a list with one directory, or an empty list.

    The directory is site-packages for an installed wheel and ``.ansible/collections`` for a checkout that
    ``make setup`` has prepared. The list is empty if neither exists: Ansible then uses its default search path.
    """
    candidates = (_PACKAGE.parent, _PACKAGE.parents[1] / ".ansible" / "collections")
    return [str(path) for path in candidates if (path / _RUNTIME_FILE).is_file()]


def collection_version_warnings(search_path: Iterable[str]) -> tuple[str, ...]:
    """Return a tuple with one warning if Ansible finds another version of the collection than of this library, or ().

    The collection is ``activemq.fleet``. A path without the collection causes no warning. ``search_path`` are Ansible's
    directories of collections; the first one that holds the collection counts. The library's own commands use the
    collection that belongs to it, but ``ansible-playbook`` uses the one on this path.
    """
    directory = next(
        (collection_directory for path in search_path if (collection_directory := Path(path) / _DIRECTORY).is_dir()),
        None,
    )
    version = None if directory is None else _version_of(directory)
    if version in (None, __version__):
        return ()
    return (
        f"the collection activemq.fleet has version {version} ({directory}), but the library activemq-fleet has "
        f"version {__version__} ({_PACKAGE}). ansible-playbook and ansible-inventory fail if their versions differ. "
        f"Install activemq-fleet {version}, or remove {directory}: activemq-fleet {__version__} contains the "
        "collection of the same version",
    )


def _version_of(collection: Path) -> str | None:
    """Return the version of an installed collection, or of a checkout; None if its files do not have one."""
    with suppress(OSError, ValueError, LookupError, TypeError):
        return str(json.loads((collection / "MANIFEST.json").read_bytes())["collection_info"]["version"])
    with suppress(OSError, ValueError):
        match = re.search(r"^version:\s*[\"']?([\w.+-]+)", (collection / "galaxy.yml").read_text(), re.MULTILINE)
        return match[1] if match else None
    return None
