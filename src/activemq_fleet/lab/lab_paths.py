"""Define the paths of a lab's files: one directory, private to its owner because it holds secrets."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import platformdirs

from activemq_fleet import atomic_files
from activemq_fleet.errors import InputError, LabError
from activemq_fleet.node.host_paths import OPERATIONS_FILE
from activemq_fleet.settings.variable_types import check_absolute_path

PRIVATE_FILE = 0o600
PRIVATE_DIRECTORY = 0o700


class LabPaths:
    """The paths of a lab's files and directories, all below ``directory``.

    ``state`` is the file with the lab's addresses, variables and software; ``inventory`` the layer for
    ``ansible-playbook -i INVENTORY -i LAYER``; ``host_vars`` the directory of the variables that the lab sets for each
    host, which win over the inventory's host_vars; ``names`` the file for the JVM option ``-Djdk.net.hosts.file``.
    ``hosts/HOST/INSTANCE`` has the shape of a managed host's base directory (versions, current, data). ``stores`` has
    the stores that the nodes of a pair share, ``clients`` files for clients, with loopback addresses, and ``runs`` a
    file for each broker that was started, which names its process.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.state = directory / "lab.json"
        self.overlay_inventory_path = directory / "inventory.yml"
        self.host_vars = directory / "host_vars"
        self.names = directory / "names"
        self.hosts = directory / "hosts"
        self.stores = directory / "stores"
        self.clients = directory / "clients"
        self.runs = directory / "run"

    @property
    def content_paths(self) -> list[Path]:
        """The paths of all files and directories that a lab reads and writes, except its lock files."""
        files = [self.state, self.overlay_inventory_path, self.names]
        return [*files, self.host_vars, self.hosts, self.stores, self.clients, self.runs]

    def activemq_base_directory(self, host: str) -> Path:
        """Return the base directory (``activemq_base``) of a host's broker in a lab."""
        return self.hosts / host

    def operations_file_path(self, host: str) -> Path:
        """Return the path of the file that records operations on a host's broker in a lab, such as stops.

        Its records are JSON lines.
        """
        return self.activemq_base_directory(host) / OPERATIONS_FILE

    def make_private_lab_directory(self) -> None:
        """Make the directory of a lab, private to its owner.

        Raises InputError if it cannot be made or made private.
        """
        try:
            self.directory.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
            self.directory.chmod(PRIVATE_DIRECTORY)
        except OSError as error:
            raise InputError(
                f"{self.directory}: the directory of the lab cannot be created or made private ({error.strerror}): "
                "choose another directory with --dir"
            ) from None

    @contextmanager
    def hold_lab_lock(self) -> Iterator[None]:
        """Hold a lab's exclusive lock while a ``with`` block runs.

        With the lock only one command at a time starts or stops brokers. Returns the context manager. Raises LabError
        at once when another command holds the lock.
        """
        with self._hold_lock(".lock", "another command uses"):
            yield

    @contextmanager
    def hold_drill_lock(self) -> Iterator[None]:
        """Hold a lock that prevents a second drill (test with faults) in the lab while a ``with`` block runs.

        With the lock only one drill at a time writes the files of the drill and injects faults. The commands that start
        and stop brokers are independent of this lock. Raises LabError at once when another drill holds the lock.
        """
        with self._hold_lock(".drill-lock", "another drill runs in"):
            yield

    @contextmanager
    def _hold_lock(self, name: str, holder: str) -> Iterator[None]:
        self.make_private_lab_directory()
        descriptor = os.open(self.directory / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise LabError(f"{holder} the lab {self.directory}: wait until that command finishes") from None
            yield
        finally:
            os.close(descriptor)


def lab_paths_for(sources: Sequence[str], directory: Path | str | None = None) -> LabPaths:
    """Return the paths of the files and directories of the lab that belongs to given inventory sources.

    The lab is in ``directory``, by default a directory derived from the sources. The default is in the user's state
    directory.

    Raises InputError for a directory name that cannot be given to brokers.
    """
    # The path is resolved, because it identifies the processes of the lab.
    chosen = (Path(directory).expanduser() if directory else _default_directory(sources)).resolve()
    try:
        check_absolute_path(str(chosen))
    except ValueError as error:
        raise InputError(
            f"the directory of the lab, {chosen}, cannot be used: {error}. Set --dir to a different directory"
        ) from None
    return LabPaths(chosen)


def absolute_sources(sources: Sequence[str]) -> list[str]:
    """Return inventory sources (paths of inventories) as absolute paths.

    A list of hosts (``a,b``) stays as it is.
    """
    return [source if "," in source else os.path.realpath(source) for source in sources]


def _default_directory(sources: Sequence[str]) -> Path:
    texts = absolute_sources(sources)
    first = texts[0] if texts else ""
    label = re.sub(r"[^A-Za-z0-9.-]+", "-", Path(first.rstrip("/")).name.split(",")[0]).strip("-.") or "fleet"
    digest = hashlib.sha256("\0".join(texts).encode(errors="surrogateescape")).hexdigest()[:8]
    return platformdirs.user_state_path("activemq-fleet") / "labs" / f"{label[:40]}-{digest}"


def write_lab_file(path: Path, content: bytes | str, mode: int = PRIVATE_FILE) -> None:
    """Write a file of a lab atomically, and create its directory.

    Raises LabError, which names the file, on failure.
    """
    try:
        path.parent.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
        atomic_files.write_file_atomically(path, content.encode() if isinstance(content, str) else content, mode)
    except OSError as error:
        raise LabError(
            f"the file {path} cannot be written ({error.strerror or error}): check the permissions and the free space "
            "of its directory"
        ) from None
