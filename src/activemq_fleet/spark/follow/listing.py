"""What lies below DIR now, as ``inputs.list_inputs`` has it, while somebody renames it.

Spark lists first and opens later, and fails for a file that was renamed in between. A stream lists all the time.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from activemq_fleet.spark.input_directory import open_inside, refuse_outside_links
from activemq_fleet.spark.inputs import HOST_FILE, LARGEST_HOST_FILE, Host, InputFile, Inputs, inputs_of, kind_of
from activemq_fleet.spark.paths import uri_of

_NAME = re.compile(rf"activemq\.log.*|.*\.jsonl.*|{re.escape(HOST_FILE)}")


def listed(logs: str, inventory_hosts: Mapping[str, Host] | None) -> Inputs:
    """The files below ``logs`` that are still there when they are looked at, and their hosts."""
    refuse_outside_links(logs)
    root = Path(logs)
    files = tuple(sorted(_files(root), key=lambda file: (file.host, file.file)))
    told = {
        (file.host, file.file): content
        for file in files
        if file.kind in ("host", "operations") and (content := _content(file, root)) is not None
    }
    return inputs_of(uri_of(logs), files, told, inventory_hosts)


def _files(root: Path) -> Iterator[InputFile]:
    for directory, below, names in os.walk(root, followlinks=True):
        below[:] = [name for name in below if not _is_hidden(name)]
        for name in names:
            path = Path(directory, name)
            host, _, file = path.relative_to(root).as_posix().partition("/")
            size = _size(path) if file and _NAME.fullmatch(name) and not _is_hidden(name) else 0
            if size:
                yield InputFile(str(path), host, file, kind_of(file), size, file.endswith(".gz"))


def _is_hidden(name: str) -> bool:
    """Whether Spark's readers pass it over."""
    return name.startswith((".", "_"))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _content(file: InputFile, root: Path) -> bytes | None:
    if file.size > LARGEST_HOST_FILE:
        return None
    try:
        with open(open_inside(Path(file.path), root), "rb") as opened:
            return opened.read(LARGEST_HOST_FILE)
    except OSError:
        return None
