# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Opens files and directories below directories that other accounts own, safely.

All other code must use this module. The module is not split, because it is audited as a unit. Invariants:

- A path is walked one component at a time, each opened in the descriptor of its parent with ``O_NOFOLLOW``. If another
  process replaces a directory by a link during the walk, the result is an error, and never a file elsewhere.
- A link is followed only if it is trusted. Root follows links that root owns in directories that only root can write,
  such as an operator's ``/var/lib/activemq -> /data/activemq``. Any other account follows links of root and its own.
- Type, owner and number of hard links are read from the open descriptor. Opening never blocks: a FIFO, a device or a
  lease of another process is an error.
- New files and directories are created exclusively (``O_EXCL``), and names are created and removed relative to a
  descriptor. ``new_files`` creates files.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pwd
import stat
from collections.abc import Collection, Iterator
from types import TracebackType

from ..errors import NodeError
from . import new_files

MAX_LINKS = 16
"""Maximum number of trusted links in the path of one directory or file."""
MAX_DEPTH = 32
"""Maximum depth of a directory tree that is walked, which limits the stack and the number of descriptors."""

_DIRECTORY_FLAGS = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_TYPE_NAMES = (
    (stat.S_ISLNK, "a link"),
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISREG, "a file"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISCHR, "a device"),
)


class UntrustedPathError(NodeError):
    """An error for a file or directory that is unsafe to use, because another account could have replaced it.

    Its path contains an untrusted symbolic link, or leads to a file of a wrong type or owner. Its message contains the
    path, the reason and the remedy.
    """


class Directory:
    """An open directory, in which names are looked up by its descriptor.

    Symbolic links are not followed. It is a context manager. ``path`` is only for messages. ``foreign``: owner and
    group of the first directory in the path in which an account other than root and this process's own can rename
    files; None if there is no such directory.
    """

    def __init__(self, descriptor: int, path: str, foreign: tuple[int, int] | None) -> None:
        self.descriptor = descriptor
        self.path = path
        self.foreign = foreign

    def __enter__(self) -> Directory:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the descriptor of an open directory in which files are accessed by name."""
        os.close(self.descriptor)

    def entry_names(self) -> list[str]:
        """Return the sorted names of the files, links and subdirectories in an open directory."""
        return sorted(os.listdir(self.descriptor))

    @property
    def is_trusted_directory(self) -> bool:
        """Whether the open directory is trusted: only root and this process's account can change its entries.

        Other accounts may read them. Neither can another account exchange the directory itself.
        """
        return self.foreign is None and _is_trusted(self.directory_status())

    def directory_status(self) -> os.stat_result:
        """Return the ``os.fstat`` result of an open directory, with its mode and owner."""
        return os.fstat(self.descriptor)

    def entry_status(self, name: str) -> os.stat_result:
        """Return the stat result of a file, link or subdirectory in an open directory, by its name.

        A link is not followed. Raises FileNotFoundError.
        """
        return os.stat(_checked_name(name), dir_fd=self.descriptor, follow_symlinks=False)

    def exists(self, name: str) -> bool:
        """Return whether an open directory contains a file, link or subdirectory with the given name.

        A dangling link also counts.
        """
        try:
            self.entry_status(name)
        except FileNotFoundError:
            return False
        return True

    def is_directory(self, name: str) -> bool:
        """Return whether a name in an open directory is the name of a subdirectory.

        A link to a directory does not count.
        """
        return self.exists(name) and stat.S_ISDIR(self.entry_status(name).st_mode)

    def open_subdirectory(self, name: str) -> Directory:
        """Open a subdirectory by its name in an open directory, and return it.

        It is not opened through a link. Raises UntrustedPathError, OSError.
        """
        path = os.path.join(self.path, _checked_name(name))
        try:
            descriptor = os.open(name, os.O_RDONLY | _DIRECTORY_FLAGS, dir_fd=self.descriptor)
        except OSError as error:
            raise self._open_error(error, name, path, "directory") from None
        return Directory(descriptor, path, self.foreign or _untrusted_owner(os.fstat(descriptor)))

    def open_file(
        self, name: str, owners: Collection[int] | None = None, single_name: bool = False, write: bool = False
    ) -> int:
        """Open a regular file by its name in an open directory, and return its descriptor.

        Does not block on a FIFO or device. ``owners``: uids of which one must own the file. ``single_name``: a file
        with a second hard link raises UntrustedPathError. ``write`` opens it for reading and writing. Raises
        UntrustedPathError, OSError.
        """
        path = os.path.join(self.path, _checked_name(name))
        try:
            descriptor = os.open(name, (os.O_RDWR if write else os.O_RDONLY) | _FILE_FLAGS, dir_fd=self.descriptor)
        except OSError as error:
            raise self._open_error(error, name, path, "regular file") from None
        try:
            _check_file(os.fstat(descriptor), path, owners, single_name)
        except UntrustedPathError:
            os.close(descriptor)
            raise
        return descriptor

    def read_file(
        self, name: str, limit: int, owners: Collection[int] | None = None, single_name: bool = False
    ) -> bytes:
        """Return at most the first ``limit`` bytes of a regular file by its name in an open directory.

        ``owners`` and ``single_name`` are as in ``open_file``. Raises UntrustedPathError, OSError.
        """
        with os.fdopen(self.open_file(name, owners, single_name), "rb") as file:
            return file.read(limit)

    def create_and_open_file(self, name: str, content: bytes = b"", mode: int = 0o600) -> int:
        """Create a new file with the given content in an open directory, and return its descriptor.

        It is open for reading and writing; the caller closes it. Raises FileExistsError if the name exists, also as a
        dangling link; OSError.
        """
        return new_files.create_and_open_file(_checked_name(name), content, mode, directory=self.descriptor)

    def write_new_file(self, name: str, content: bytes, mode: int = 0o600) -> None:
        """Create a new file with the given content in an open directory, and sync the content to the disk.

        Raises FileExistsError, OSError.
        """
        new_files.write_new_file(_checked_name(name), content, mode, directory=self.descriptor)

    def replace_file(self, name: str, content: bytes, mode: int = 0o600) -> None:
        """Replace a file in an open directory atomically by a new one with the given content and mode.

        Raises OSError.
        """
        new_files.replace_file(_checked_name(name), content, mode, directory=self.descriptor)

    def create_and_open_directory(self, name: str, mode: int = 0o700, uid: int = -1, gid: int = -1) -> Directory:
        """Create a subdirectory in an open directory with a mode and owner, and return it opened.

        Raises FileExistsError, UntrustedPathError, OSError. The owner of the new directory must be this account: if
        another process replaced the directory, its mode is not changed.
        """
        os.mkdir(_checked_name(name), 0o700, dir_fd=self.descriptor)
        created = self.open_subdirectory(name)
        try:
            if created.directory_status().st_uid != os.geteuid():
                raise _replaced_error(created.path)
            os.fchmod(created.descriptor, mode & 0o7777)
            if (uid, gid) != (-1, -1):
                os.fchown(created.descriptor, uid, gid)
        except BaseException:
            created.close()
            raise
        return created

    def rename(self, name: str, target: str) -> None:
        """Rename a file or subdirectory within an open directory.

        Raises FileExistsError if the target exists; OSError. Only an account that may write to the directory can create
        the target between check and rename.
        """
        if self.exists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), os.path.join(self.path, target))
        os.rename(_checked_name(name), _checked_name(target), src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)
        self.sync()

    def remove_file_or_link(self, name: str) -> None:
        """Remove a file or symbolic link by its name in an open directory, if it exists.

        A FIFO or socket is removed, too. Raises OSError for a directory.
        """
        with contextlib.suppress(FileNotFoundError):
            os.unlink(_checked_name(name), dir_fd=self.descriptor)

    def remove_empty_directory(self, name: str) -> None:
        """Remove an empty subdirectory of an open directory, if it exists.

        Raises OSError.
        """
        with contextlib.suppress(FileNotFoundError):
            os.rmdir(_checked_name(name), dir_fd=self.descriptor)

    def remove_tree_or_file(self, name: str) -> None:
        """Remove a file, or a subdirectory with its content, by its name in an open directory.

        Links are removed and never followed. Raises UntrustedPathError for a tree deeper than MAX_DEPTH, OSError.
        """
        if self.is_directory(name):
            with self.open_subdirectory(name) as child:
                child.remove_content()
            self.remove_empty_directory(name)
        else:
            self.remove_file_or_link(name)

    def remove_content(self, depth: int = 0) -> None:
        """Remove all files, links and subdirectories in an open directory.

        Links are not followed. Raises UntrustedPathError, OSError.
        """
        _check_depth(self.path, depth)
        for name in self.entry_names():
            if self.is_directory(name):
                with self.open_subdirectory(name) as child:
                    child.remove_content(depth + 1)
                self.remove_empty_directory(name)
            else:
                self.remove_file_or_link(name)

    def walk_files_and_links(self, depth: int = 0) -> Iterator[tuple[Directory, str]]:
        """Walk the tree below an open directory, and yield each file and link with the directory that contains it.

        The pairs are (open directory, name) of everything that is not a directory. Each directory is open until the
        next pair. Links are never followed. Raises UntrustedPathError for a tree deeper than MAX_DEPTH, OSError.
        """
        _check_depth(self.path, depth)
        for name in self.entry_names():
            if self.is_directory(name):
                with self.open_subdirectory(name) as child:
                    yield from child.walk_files_and_links(depth + 1)
            else:
                yield self, name

    def sync(self) -> None:
        """Sync an open directory to the disk, so that created, renamed and removed entries survive a crash."""
        os.fsync(self.descriptor)

    def _open_error(self, error: OSError, name: str, path: str, expected: str) -> Exception:
        """Return an UntrustedPathError with the actual type of a file that is not ``expected``.

        For any other error return an OSError with the path.
        """
        if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.ENXIO, errno.EISDIR, errno.ENODEV):
            with contextlib.suppress(OSError):
                kind = _type_name(self.entry_status(name).st_mode)
                return UntrustedPathError(
                    f"{path} is {kind}, not a {expected}, so it was not opened. Remove it, or replace it with "
                    f"a {expected}"
                )
            return _replaced_error(path)
        if error.errno == errno.EWOULDBLOCK:
            return UntrustedPathError(
                f"another process holds a lease on {path}, so it was not opened. In /proc/locks, find the line with "
                "LEASE and the inode of this file (ls -i): the fifth column is the process ID. Stop this process, and "
                "run the command again"
            )
        return OSError(error.errno, error.strerror, path)


def open_directory(path: str, root: int | None = None) -> Directory:
    """Open a directory without following untrusted symbolic links, and return it as a ``Directory``.

    It is opened component by component. ``root``: the descriptor of a directory from which the path starts, in place of
    ``/``. Raises UntrustedPathError for a component that is an untrusted link or not a directory; OSError.
    """
    for _index in range(MAX_LINKS + 1):
        opened = _open_path_or_resolve_link(os.path.abspath(path), root)
        if isinstance(opened, Directory):
            return opened
        path = opened
    raise _too_many_links_error(path)


def open_file(
    path: str, owners: Collection[int] | None = None, single_name: bool = False, root: int | None = None
) -> int:
    """Open a regular file for reading by its path, and return its descriptor.

    Untrusted symbolic links are not followed. Its directory is opened as by ``open_directory``. The file must not be a
    link, not even a trusted one. Raises UntrustedPathError, OSError.
    """
    with open_directory(os.path.dirname(os.path.abspath(path)), root) as directory:
        return directory.open_file(os.path.basename(path), owners, single_name)


def reopen_file_of_process(descriptor_path: str, owners: Collection[int] | None = None) -> int:
    """Reopen for reading a file that a process has open (``/proc/PID/fd/NUMBER``), and return the new descriptor.

    The process controls its descriptor and may replace it at any time. So the kernel resolves ``descriptor_path`` only
    once, and without opening a device. A process can also have a descriptor of a file that its account must not read
    (``O_PATH``): ``owners`` are the uids of which one must own the file. Raises UntrustedPathError, OSError.
    """
    handle = os.open(descriptor_path, os.O_PATH | os.O_CLOEXEC)
    try:
        _check_file(os.fstat(handle), descriptor_path, owners, single_name=False)
        return os.open(f"/proc/self/fd/{handle}", os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    finally:
        os.close(handle)


def read_file(path: str, limit: int, owners: Collection[int] | None = None, single_name: bool = False) -> bytes:
    """Return at most the first ``limit`` bytes of the regular file at a path, without following untrusted links.

    ``owners`` and ``single_name`` are as in ``Directory.open_file``. Raises UntrustedPathError, OSError.
    """
    with os.fdopen(open_file(path, owners, single_name), "rb") as file:
        return file.read(limit)


def open_file_owned_by_directory_owner_or_root(
    directory: Directory, name: str, check_link_targets: bool = False
) -> int:
    """Open for reading a file that belongs to the owner of its directory or to root, and return its descriptor.

    In a directory that other accounts can write, the file must be neither a symbolic link nor have a second hard link.
    In a directory that only root and this process's account can write, any regular file is accepted, also through a
    link of one of the two. The target of a link in such a directory may be another link in such a directory, or any
    regular file in any directory. ``check_link_targets``: the first two sentences also apply to the target. Raises
    UntrustedPathError, OSError.
    """
    with contextlib.ExitStack() as opened_directories:
        for links in range(MAX_LINKS + 1):
            if not directory.is_trusted_directory:
                if links and not check_link_targets:
                    return directory.open_file(name)
                return directory.open_file(name, {0, directory.directory_status().st_uid}, single_name=True)
            status = directory.entry_status(name)
            if not stat.S_ISLNK(status.st_mode) or status.st_uid not in (0, os.geteuid()):
                return directory.open_file(name)
            target = os.readlink(_checked_name(name), dir_fd=directory.descriptor)
            path = os.path.abspath(os.path.join(directory.path, target))
            directory = opened_directories.enter_context(open_directory(os.path.dirname(path)))
            name = os.path.basename(path)
    raise _too_many_links_error(os.path.join(directory.path, name))


def owner_of_first_untrusted_directory(path: str) -> tuple[int, int] | None:
    """Return the owner (uid, gid) of the first untrusted directory in a path; None if all directories are trusted.

    A directory is untrusted if an account other than root and this process's own can rename files in it. For a
    directory of root that a group can write the result is (0, gid). The owner can replace everything below the
    directory, so running operations with its permissions gives it no further rights. Only root can have set this owner,
    because all directories above belong to root or to this process's account. For a missing path its existing part
    counts. Raises UntrustedPathError, OSError.
    """
    path = os.path.abspath(path)
    while True:
        try:
            with open_directory(path) as directory:
                return directory.foreign
        except FileNotFoundError:
            path = os.path.dirname(path)


def _open_path_or_resolve_link(path: str, root: int | None) -> Directory | str:
    """Follow a path by its directories; return the open directory, or the path to open instead after a trusted link."""
    parts = [part for part in path.split("/") if part]
    current = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC) if root is None else os.dup(root)
    foreign = _untrusted_owner(os.fstat(current))
    try:
        for position, name in enumerate(parts):
            prefix = "/" + "/".join(parts[:position])
            flags = os.O_RDONLY if position == len(parts) - 1 else os.O_PATH
            try:
                child = os.open(name, flags | _DIRECTORY_FLAGS, dir_fd=current)
            except OSError as error:
                is_trusted = foreign is None and _is_trusted(os.fstat(current))
                target = _trusted_link_target(current, name, prefix, is_trusted, error)
                return os.path.normpath("/".join((os.path.join(prefix, target), *parts[position + 1 :])))
            os.close(current)
            current = child
            foreign = foreign or _untrusted_owner(os.fstat(current))
        # The descriptor of "/" is open with O_PATH only.
        descriptor = os.open(".", os.O_RDONLY | _DIRECTORY_FLAGS, dir_fd=current) if not parts else os.dup(current)
        return Directory(descriptor, path, foreign)
    finally:
        os.close(current)


def _trusted_link_target(directory: int, name: str, prefix: str, is_private: bool, error: OSError) -> str:
    """Return the target of a trusted link in a path. Raises UntrustedPathError for an untrusted one, or ``error``."""
    path = os.path.join(prefix, name)
    if error.errno not in (errno.ELOOP, errno.ENOTDIR):
        raise OSError(error.errno, error.strerror, path) from None
    try:
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        raise _replaced_error(path) from None
    if not stat.S_ISLNK(status.st_mode):
        raise UntrustedPathError(
            f"{path} is {_type_name(status.st_mode)}, not a directory, so it was not opened. Remove it, or replace it "
            "with a directory"
        ) from None
    effective_uid = os.geteuid()
    if status.st_uid in (0, effective_uid) and (is_private or effective_uid != 0):
        return os.readlink(name, dir_fd=directory)
    if status.st_uid in (0, effective_uid):
        kind = "in a directory that other accounts can write"
    else:
        kind = f"that belongs to {account_name(status.st_uid)}"
    raise UntrustedPathError(
        f"{path} is a symbolic link {kind}, so it was not followed. Use the path of its target instead"
    )


def _too_many_links_error(path: str) -> UntrustedPathError:
    return UntrustedPathError(
        f"{path} leads through more than {MAX_LINKS} symbolic links, so it was not opened. Remove the loop of links"
    )


def _replaced_error(path: str) -> UntrustedPathError:
    return UntrustedPathError(
        f"{path} was not opened, because another process replaced it at the same time. Run the command again. If this "
        f"occurs again, find the process that replaces {path} (auditctl -w {path} -p wa), and stop this process"
    )


def _check_file(status: os.stat_result, path: str, owners: Collection[int] | None, single_name: bool) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise UntrustedPathError(
            f"{path} is {_type_name(status.st_mode)}, not a regular file, so it was not opened. Remove it, or replace "
            "it with a regular file"
        )
    if owners is not None and status.st_uid not in owners:
        expected = " or ".join(sorted(account_name(uid) for uid in owners))
        raise UntrustedPathError(
            f"{path} belongs to {account_name(status.st_uid)}, not to {expected}, so it was not opened. Change its "
            "owner with chown, or remove it"
        )
    if single_name and status.st_nlink > 1:
        raise UntrustedPathError(
            f"the file {path} was not opened, because it has a second hard link, through which another account "
            f"may change it. Replace the file with a copy: cp -p {path} {path}.new && mv {path}.new {path}"
        )


def _check_depth(path: str, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise UntrustedPathError(
            f"{path} is more than {MAX_DEPTH} directories deep, but brokers create no such directories. Remove the "
            "directory, and find out which program created it"
        )


def _checked_name(name: str) -> str:
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise UntrustedPathError(
            f"{name!r} is not a file name: use the name of a single file, without a slash or NUL character"
        )
    return name


def _is_trusted(status: os.stat_result) -> bool:
    """Return whether only root and this process's account can change the names in a directory."""
    return status.st_uid in (0, os.geteuid()) and not status.st_mode & 0o022


def _untrusted_owner(status: os.stat_result) -> tuple[int, int] | None:
    """Return owner and group of a directory in which another account can rename files of root or of this process.

    Returns None if there is no such account. In a directory such as /tmp, which belongs to root and has the sticky bit,
    accounts can create files, but cannot rename or remove those of other accounts.
    """
    is_shared = status.st_uid == 0 and bool(status.st_mode & stat.S_ISVTX)
    return None if is_shared or _is_trusted(status) else (status.st_uid, status.st_gid)


def _type_name(mode: int) -> str:
    return next((name for is_kind, name in _TYPE_NAMES if is_kind(mode)), "something else")


def account_name(uid: int) -> str:
    """Return the name of the account with a numeric user id; ``account UID`` if it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"account {uid}"
