"""Compare the files that a run rendered for its hosts with golden files: bytes, modes and manifest.

``python -m tests.hosts.rendered RENDERED GOLDEN``; ``FLEET_GOLDEN=update`` writes GOLDEN instead.

RENDERED contains one directory per host. The target of a link such as ``current`` is compared under the name of the
link. The versions, whose names depend on the content, are not compared again. The path of RENDERED, which differs from
run to run, is replaced by ``/found``. The notes of the collection are excluded, because they contain hashes of bytes
with that path. A manifest must match the files next to it, and no note may contain a secret (all secrets of the
scenario begin with ``made-up``).
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.golden_files import Golden

MANIFEST = ".fleet-manifest.json"
NOTES = (MANIFEST, ".fleet-install.json")
MODES = "modes.txt"
SECRET = b"made-up"


def collect(rendered: Path) -> dict[str, bytes]:
    """Return path -> content of all files below ``rendered``, and a list of their modes."""
    place = str(rendered).encode()
    files: dict[str, bytes] = {}
    modes: list[str] = []
    for path in _walk(rendered):
        if path.name in NOTES:
            _check_note(path)
            continue
        name = path.relative_to(rendered).as_posix()
        modes.append(f"{stat.S_IMODE(path.stat().st_mode):04o} {name}\n")
        files[name] = path.read_bytes().replace(place, b"/found")
    if not files:
        raise SystemExit(f"{rendered} contains no file: run converge first")
    files[MODES] = "".join(modes).encode()
    return files


def _walk(directory: Path) -> Iterator[Path]:
    """Yield the files below a directory, in order; follow links, and exclude the directories of their targets."""
    for path in sorted(directory.iterdir()):
        if path.is_file():
            yield path
        elif path.name != "versions":
            yield from _walk(path)


def _check_note(note: Path) -> None:
    note_bytes = note.read_bytes()
    if SECRET in note_bytes:
        raise SystemExit(f"{note} contains a secret: exclude it from the note")
    if note.name != MANIFEST:
        return
    recorded_hashes: dict[str, str] = json.loads(note_bytes)
    root = note.parent
    files = {path.relative_to(root).as_posix(): path for path in root.rglob("*") if path.is_file()}
    hashes = {
        name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items() if path.name not in NOTES
    }
    differing = sorted(
        name for name in recorded_hashes.keys() | hashes.keys() if recorded_hashes.get(name) != hashes.get(name)
    )
    if differing:
        raise SystemExit(f"{note} contains other hashes than those of {', '.join(differing)}")


def main(rendered: str, golden: str) -> int:
    directory = Path(golden)
    update = os.environ.get("FLEET_GOLDEN") == "update"
    try:
        Golden(directory.parent, update=update).tree(directory.name, collect(Path(rendered)))
    except pytest.fail.Exception as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
