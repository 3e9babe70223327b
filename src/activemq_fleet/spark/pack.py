"""Pack the Python environment that executors need: this package and its dependencies.

The archive holds no interpreter, only a link to one: executors need the same Python at the same place,
or at ``python_prefix``. Spark's own jars stay out; executors have theirs.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import activemq_fleet
from activemq_fleet import InputError
from activemq_fleet.atomic_files import check_writable
from activemq_fleet.install_hint import install_hint

PACKAGE = "activemq-fleet"
_PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
ENDINGS = (".tar.gz", ".tgz")

# These files are large, and executors do not need them.
_EXCLUDED_PATTERNS = (
    "*/__pycache__/*",
    "*.pyc",
    "pyspark/jars/*",
    "pyspark/examples/*",
    "pyspark/data/*",
    "pyspark/licenses/*",
    "pyspark/python/lib/*",
    "pyspark/pandas/*",
    "*/tests/*",
    "pyarrow/include/*",
    "pyarrow/src/*",
)
_COMPRESSION = 1  # gzip level: the time to pack and unpack matters more than a tenth of the size


@dataclass(frozen=True, slots=True)
class PackedEnvironment:
    """A Python environment that is packed into an archive, for Spark's executors.

    It has its distributions, and its size in ``megabytes`` (10**6 bytes). ``python`` is the path of the interpreter
    that executors must have.
    """

    archive: Path
    distributions: tuple[str, ...]
    python: str
    megabytes: float


def pack_activemq_fleet_environment(output: Path, executor_python_prefix: str | None = None) -> PackedEnvironment:
    """Pack activemq-fleet and its dependencies, as installed here, into an archive for Spark's executors.

    The archive is the .tar.gz ``output``, which Spark unpacks on executors. Returns a description of its content.
    ``executor_python_prefix`` is where executors have their Python, such as ``/usr``; None where it is as on this
    machine. The file is replaced
    atomically. Raises InputError for another suffix, for a prefix that is not absolute, and for dependencies that are
    not installed, or whose files are not listed, and OutputError for a directory that cannot be written to.
    """
    import venv_pack

    if not output.name.endswith(ENDINGS):
        endings = " or ".join(ENDINGS)
        raise InputError(f"{output}: Spark unpacks only archives with the suffix {endings}: rename the file")
    if executor_python_prefix is not None and not os.path.isabs(executor_python_prefix):
        raise InputError(f"--python-prefix {executor_python_prefix} is not an absolute path: set one such as /usr")
    distributions = _required_distributions()
    check_writable(output)
    with tempfile.TemporaryDirectory(prefix=f".{output.name}.", dir=output.resolve().parent) as directory:
        skeleton = Path(directory) / "environment"
        base = (executor_python_prefix or sys.base_prefix).rstrip("/")
        python = _make_skeleton(skeleton, base)
        environment = venv_pack.Env(prefix=str(skeleton))
        site = f"lib/{_PYTHON}/site-packages"
        for name in distributions.values():
            environment.files += [
                venv_pack.core.File(str(source), f"{site}/{target}") for source, target in _files_of_distribution(name)
            ]
        archive = Path(directory) / output.name
        environment.pack(output=str(archive), compress_level=_COMPRESSION)
        archive.chmod(0o644)  # Other users of the cluster unpack the archive.
        os.replace(archive, output.resolve())
    return PackedEnvironment(output, tuple(sorted(distributions)), python, output.stat().st_size / 1e6)


def _make_skeleton(directory: Path, prefix: str) -> str:
    """Make a virtual environment without packages; return its interpreter's path, which is below ``prefix``."""
    base = getattr(sys, "_base_executable", sys.executable)
    command = [base, "-m", "venv", "--without-pip", "--symlinks", str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise InputError(
            f"the Python {base} cannot create a virtual environment ({done.stdout or done.stderr}): install its module "
            "venv (Debian: apt-get install python3-venv)"
        )
    python = f"{prefix}/bin/{_PYTHON}"
    # venv-pack's own python_prefix makes /usr/bin/python3.113.11 of a link to python3.11.
    for name in ("python", "python3", _PYTHON):
        link = directory / "bin" / name
        link.unlink(missing_ok=True)
        link.symlink_to(python if name == _PYTHON else _PYTHON)
    version = ".".join(map(str, sys.version_info[:3]))
    lines = [f"home = {prefix}/bin", "include-system-site-packages = false", f"version = {version}", ""]
    (directory / "pyvenv.cfg").write_text("\n".join(lines))
    return python


def _required_distributions() -> dict[str, Distribution]:
    """Return this package with its extra ``pipeline`` and all its dependencies, by normalized name."""
    distributions: dict[str, Distribution] = {}
    pending: list[tuple[str, frozenset[str]]] = [(PACKAGE, frozenset({"pipeline"}))]
    visited: set[tuple[str, frozenset[str]]] = set()
    while pending:
        name, extras = pending.pop()
        if (name, extras) in visited:
            continue
        visited.add((name, extras))
        try:
            installed = distribution(name)
        except PackageNotFoundError:
            raise InputError(
                f"the Python package {name} is not installed in this environment: {install_hint('pipeline')}"
            ) from None
        distributions[_normalize_name(name)] = installed
        pending += [required for text in installed.requires or () for required in _required_by(text, extras)]
    return distributions


def _required_by(text: str, extras: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield name and extras of a requirement if its marker holds for this Python and these extras."""
    from packaging.requirements import Requirement

    requirement = Requirement(text)
    marker = requirement.marker
    if marker is None or any(marker.evaluate({"extra": extra}) for extra in extras | {""}):
        yield _normalize_name(requirement.name), frozenset(requirement.extras)


def _normalize_name(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _files_of_distribution(installed: Distribution) -> list[tuple[Path, str]]:
    """Return every file of a distribution below site-packages: its path here, and its path in the archive.

    Raises InputError for a distribution whose files are not listed, such as one that apt installed.
    """
    files = [*_listed_files(installed)]
    if not files:
        raise InputError(
            f"the Python package {installed.metadata['Name']} was installed without a list of its files, for example "
            "by apt, so pack cannot copy it: create a virtual environment without --system-site-packages, and in it "
            f"{install_hint('pipeline')}"
        )
    return files


def _listed_files(installed: Distribution) -> Iterator[tuple[Path, str]]:
    for file in installed.files or ():
        target = file.as_posix()
        if target.startswith("../") or target.endswith(".pth") or _is_excluded(target):
            continue
        source = Path(str(installed.locate_file(file)))
        if source.is_file():
            yield source, target
    if installed.metadata["Name"] == PACKAGE and _is_editable(installed):
        yield from _files_of_checkout()


def _is_editable(installed: Distribution) -> bool:
    return not any(file.as_posix() == "activemq_fleet/__init__.py" for file in installed.files or ())


def _files_of_checkout() -> Iterator[tuple[Path, str]]:
    """Yield the files of this package in a checkout, links resolved: path here, and path in the archive."""
    root = Path(activemq_fleet.__file__).parent
    for directory, _, names in os.walk(root, followlinks=True):
        for name in names:
            source = Path(directory) / name
            target = f"activemq_fleet/{source.relative_to(root).as_posix()}"
            if not _is_excluded(target):
                yield source.resolve(), target


def _is_excluded(target: str) -> bool:
    return any(fnmatch(target, pattern) for pattern in _EXCLUDED_PATTERNS)
