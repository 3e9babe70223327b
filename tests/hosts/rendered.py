"""Compares what a run laid down for its hosts with golden files: bytes, modes and manifest.

``python -m tests.hosts.rendered FOUND GOLDEN``; ``FLEET_GOLDEN=update`` writes GOLDEN instead.

FOUND holds one directory a host. What a link such as ``current`` points to is compared under the
link's name; the versions themselves, whose names follow from the content, are not listed again. The
path of FOUND, which differs from run to run, is written as ``/found``. The collection's own notes are
left out, because they hold hashes of bytes with that path; but a manifest must tell the truth about the
files beside it, and no note may hold a secret (all those of the scenario begin with ``made-up``).
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


def collect(found: Path) -> dict[str, bytes]:
    """Path -> content of all that was laid down below ``found``, and a list of the files' modes."""
    place = str(found).encode()
    files: dict[str, bytes] = {}
    modes: list[str] = []
    for path in _walk(found):
        if path.name in NOTES:
            _check_note(path)
            continue
        name = path.relative_to(found).as_posix()
        modes.append(f"{stat.S_IMODE(path.stat().st_mode):04o} {name}\n")
        files[name] = path.read_bytes().replace(place, b"/found")
    if not files:
        raise SystemExit(f"{found}: nothing was laid down")
    files[MODES] = "".join(modes).encode()
    return files


def _walk(directory: Path) -> Iterator[Path]:
    """The files below, in order; through links, and without the directories that links point into."""
    for path in sorted(directory.iterdir()):
        if path.is_file():
            yield path
        elif path.name != "versions":
            yield from _walk(path)


def _check_note(note: Path) -> None:
    data = note.read_bytes()
    if SECRET in data:
        raise SystemExit(f"{note}: holds a secret")
    if note.name != MANIFEST:
        return
    said: dict[str, str] = json.loads(data)
    root = note.parent
    files = {path.relative_to(root).as_posix(): path for path in root.rglob("*") if path.is_file()}
    true = {
        name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items() if path.name not in NOTES
    }
    wrong = sorted(name for name in said.keys() | true.keys() if said.get(name) != true.get(name))
    if wrong:
        raise SystemExit(f"{note}: does not tell the truth about {', '.join(wrong)}")


def main(found: str, golden: str) -> int:
    directory = Path(golden)
    update = os.environ.get("FLEET_GOLDEN") == "update"
    try:
        Golden(directory.parent, update=update).tree(directory.name, collect(Path(found)))
    except pytest.fail.Exception as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
