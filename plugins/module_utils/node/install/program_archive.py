# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Packs modules as one program, a file that the host's Python runs: an archive (PEP 441), uncompressed.

It is made on the host, of the sources that Ansible brought there to make it: so there is one text
of each, and the program runs with the Python that Ansible itself runs with.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from types import ModuleType

# The same modules give the same bytes, whenever they were copied here.
_WHEN = (2000, 1, 1, 0, 0, 0)


def pack(main: ModuleType, parts: Sequence[ModuleType], python: str) -> bytes:
    """Return the content of an executable Python zip file that calls ``main.main()``.

    ``parts`` are all modules that it imports, ``main`` among them, but for the standard library's. ``python`` is the
    interpreter in the first line, run with ``-I``.
    """
    buffer = io.BytesIO()
    buffer.write(f"#!{python} -I\n".encode())
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as file:
        _add(file, "__main__.py", f"from {main.__name__} import main\n\nmain()\n")
        packages = {name for part in parts for name in _packages(part)}
        for name in sorted(packages):
            _add(file, f"{name.replace('.', '/')}/__init__.py", "")
        for part in parts:
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
        raise OSError(f"the source of {module.__name__} is not here, so no program can be made of it")
    return source
