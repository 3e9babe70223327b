# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Packs the watchdog as one file that the host's Python runs: an archive of modules (PEP 441), uncompressed.

It is made on the host, of the sources that Ansible brought there to make it: so there is one text
of each, and the program runs with the Python that Ansible itself runs with.
"""

from __future__ import annotations

import io
import zipfile
from types import ModuleType

from .. import printable, protocols, root_cause
from ..host import (
    broker_configuration,
    broker_log,
    held_by_process,
    judge,
    probe,
    process,
    timeouts,
    untrusted_paths,
    versions,
)
from ..install import configuration_archive, disk, pending_restart
from . import hang_detection, watchdog

PARTS: tuple[ModuleType, ...] = (
    broker_configuration,
    broker_log,
    disk,
    hang_detection,
    configuration_archive,
    pending_restart,
    printable,
    root_cause,
    judge,
    probe,
    process,
    protocols,
    held_by_process,
    timeouts,
    untrusted_paths,
    versions,
    watchdog,
)
"""The watchdog's module, and all modules that it imports; a test runs the watchdog without any other."""
# The same modules give the same bytes, whenever they were copied here.
_WHEN = (2000, 1, 1, 0, 0, 0)


def program(python: str) -> bytes:
    """Return the content of the watchdog's program file.

    ``python`` is the interpreter in its first line, run with ``-I``.
    """
    buffer = io.BytesIO()
    buffer.write(f"#!{python} -I\n".encode())
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as file:
        _add(file, "__main__.py", f"from {watchdog.__name__} import main\n\nmain()\n")
        packages = {name for part in PARTS for name in _packages(part)}
        for name in sorted(packages):
            _add(file, f"{name.replace('.', '/')}/__init__.py", "")
        for part in PARTS:
            _add(file, part.__name__.replace(".", "/") + ".py", _source(part))
    return buffer.getvalue()


def _packages(module: ModuleType) -> list[str]:
    """Return the packages around a module, the outermost first."""
    parts = module.__name__.split(".")
    return [".".join(parts[:depth]) for depth in range(1, len(parts))]


def _add(file: zipfile.ZipFile, path: str, text: str | bytes) -> None:
    file.writestr(zipfile.ZipInfo(path, _WHEN), text)


def _source(module: ModuleType) -> str | bytes:
    """Return a module's source: text, or bytes where Ansible's own loader has it."""
    loader = module.__spec__.loader if module.__spec__ else None
    source: str | bytes | None = loader.get_source(module.__name__) if loader else None  # type: ignore[attr-defined]
    if source is None:
        raise OSError(f"the source of {module.__name__} is not here, so the watchdog cannot be made")
    return source
