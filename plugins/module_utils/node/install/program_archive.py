# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Packs a module and all its imports as one uncompressed program file that the host's Python runs (PEP 441).

The program is built on the host from the module sources that Ansible copied there, so no source exists twice. It runs
with the Python interpreter that Ansible uses on the host, by the name that ``guard_and_watchdog_interpreter`` chooses.
Ansible copies the imports of the main module, and the program contains the same files: its modules import one another
relatively.
"""

from __future__ import annotations

import ast
import io
import os
import stat
import sys
import zipfile
from importlib.util import find_spec
from types import ModuleType

PROGRAM_MODE = 0o755
"""The mode of an installed program, which the account of the broker runs."""
SYSTEM_PYTHON = "/usr/bin/python3"
_ROOT = __name__.rpartition(".install.")[0]
"""The name of the package ``node`` in this process: part of a collection, of the library, or of a program."""
# A fixed time: the same modules give the same bytes.
_FIXED_TIME = (2000, 1, 1, 0, 0, 0)


def guard_and_watchdog_interpreter(executable: str = sys.executable, system_python: str = SYSTEM_PYTHON) -> str:
    """Return the path of the interpreter for the first line of programs that stay installed on this host.

    ``executable`` is the interpreter of this process. The result is ``system_python`` if that is the same interpreter.
    An upgrade of the distribution removes a name such as python3.11, which Ansible prefers, and keeps python3.
    """
    return system_python if os.path.realpath(system_python) == os.path.realpath(executable) else executable


def pack_program(main: ModuleType, python: str) -> bytes:
    """Pack a program into an executable Python zip file, and return the file's content.

    The file calls ``main.main()``. It contains the modules of the package ``node`` that ``main`` imports directly or
    indirectly. ``python`` is the interpreter in the first line, run with ``-I``. Raises OSError for a module whose
    source is missing.
    """
    sources = _import_closure(main.__name__)
    packages = {package for name in sources for package in _packages_around(name)}
    buffer = io.BytesIO()
    buffer.write(f"#!{python} -I\n".encode())
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as file:
        _add_member(file, "__main__.py", f"from {_name_in_program(main.__name__)} import main\n\nmain()\n")
        for name, source in sorted(sources.items()):
            path = _name_in_program(name).replace(".", "/")
            _add_member(file, f"{path}/__init__.py" if name in packages else f"{path}.py", source)
    return buffer.getvalue()


def is_program_installed(path: str, content: bytes) -> bool:
    """Return whether a program file exists with the given content and the mode ``PROGRAM_MODE``.

    Raises OSError.
    """
    try:
        with open(path, "rb") as file:
            return stat.S_IMODE(os.fstat(file.fileno()).st_mode) == PROGRAM_MODE and file.read() == content
    except FileNotFoundError:
        return False


def _import_closure(main: str) -> dict[str, str]:
    """Return the sources of a module, of its imports from ``node``, and of their parent packages, by name."""
    sources: dict[str, str] = {}
    pending = [main]
    while pending:
        name = pending.pop()
        if name not in sources:
            sources[name], is_package = _read_source(name)
            package = name if is_package else name.rpartition(".")[0]
            pending += _packages_around(name) + _imported_modules(sources[name], package)
    return sources


def _imported_modules(source: str, package: str) -> list[str]:
    """Return the modules that a source in a package imports relatively."""
    names = []
    for statement in ast.walk(ast.parse(source)):
        if isinstance(statement, ast.ImportFrom) and statement.level:
            parent = package.split(".")[: 1 - statement.level or None]
            origin = ".".join([*parent, *([statement.module] if statement.module else [])])
            submodules = [f"{origin}.{alias.name}" for alias in statement.names]
            names += [origin, *filter(_is_module, submodules)]
    return names


def _is_module(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # the parent is not a package
        return False


def _packages_around(name: str) -> list[str]:
    """Return the parent packages of a module of ``node``, starting with ``node``."""
    names = [_ROOT]
    for part in name[len(_ROOT) + 1 :].split(".")[:-1]:
        names.append(f"{names[-1]}.{part}")
    return names if name != _ROOT else []


def _name_in_program(name: str) -> str:
    """Return the name of a module in a program, where ``node`` is the top-level package."""
    return f"node{name[len(_ROOT) :]}"


def _read_source(name: str) -> tuple[str, bool]:
    """Return a module's source, and whether it is a package."""
    spec = find_spec(name)
    source: str | bytes | None = spec.loader.get_source(name) if spec and spec.loader else None  # type: ignore[attr-defined]
    if spec is None or source is None:
        raise OSError(
            f"the collection activemq.fleet is incomplete, because the source of {name} is missing: install the "
            "collection again (ansible-galaxy collection install needs --force to replace it)"
        )
    # Ansible's own loader has bytes.
    return source.decode() if isinstance(source, bytes) else source, spec.submodule_search_locations is not None


def _add_member(file: zipfile.ZipFile, path: str, text: str) -> None:
    file.writestr(zipfile.ZipInfo(path, _FIXED_TIME), text)
