"""Write files and directory trees atomically."""

from __future__ import annotations

import ctypes
import errno
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path

from activemq_fleet.errors import InputError, OutputError
from activemq_fleet.node.files.new_files import Owner, create_and_open_file, replace_file, sync_directory

_RENAME_EXCHANGE = 2  # linux/fs.h
_AT_FDCWD = -100  # linux/fcntl.h


def replace_directory_files(
    directory: Path, files: Mapping[str, bytes], *, check_target: Callable[[Path], None]
) -> None:
    """Replace all files of a directory by the given files, atomically.

    ``files`` is the content by relative path. A new tree is written next to the directory and then swapped with it, so
    that no reader sees a part of it and an interruption leaves the earlier tree. ``check_target`` raises an error for a
    directory that may not be replaced. Raises OutputError when the tree cannot be written.
    """
    check_target(directory)
    target = directory.resolve()
    with os_errors_as_output_errors("create the directory", target):
        target.parent.mkdir(parents=True, exist_ok=True)
        staged = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        try:
            _write_files(staged, files)
            exchange_paths(staged, target)
        finally:
            shutil.rmtree(staged, ignore_errors=True)


def directory_entry_paths(directory: Path, *, recursive: bool = False) -> list[Path]:
    """Return the paths of the files, links and subdirectories directly in a directory, or with ``recursive`` below it.

    The paths begin with ``directory``. With ``recursive``, the entries of all subdirectories are included. The list is
    empty for a directory that does not exist.

    Raises InputError for a file, for a link to nothing, and for a directory that cannot be replaced.
    """
    if directory.is_symlink() and not directory.exists():
        raise InputError(
            f"the output path {directory} is a symbolic link to a path that does not exist: correct or remove the link"
        )
    if directory.exists() and not directory.is_dir():
        raise InputError(f"the output path {directory} exists, but is not a directory: choose another output path")
    check_directory_replaceable(directory)
    return list(directory.glob("**/*" if recursive else "*"))


def check_directory_replaceable(directory: Path) -> None:
    """Raise InputError if a command cannot replace an output directory by a new directory.

    Such directories are mount points, which the system cannot rename, and the working directory and the directories
    above it: the shell that started the command would remain in the removed directory.
    """
    target = directory.resolve()
    if target.is_mount():
        raise InputError(
            f"the output directory {directory} is a mount point, which cannot be replaced: choose a directory below "
            f"it, such as {directory / 'result'}"
        )
    if _is_in_working_directory_path(target):
        raise InputError(
            f"the output directory {directory} is the working directory or above it, and would be replaced by a new "
            "directory: choose another output directory, or run the command in another directory"
        )


def _is_in_working_directory_path(directory: Path) -> bool:
    """Return whether a directory is the working directory or above it."""
    try:
        return Path.cwd().is_relative_to(directory)
    except FileNotFoundError:  # The working directory was removed.
        return False


def write_file_atomically(path: Path, content: bytes, mode: int | None = None) -> None:
    """Write ``content`` to a file atomically.

    The file's mode follows the umask unless ``mode`` is given. Missing parent directories are created. A device, a pipe
    and a standard stream, such as ``/dev/stdout``, are not replaced: the content is written to them. Raises OutputError
    when the file cannot be written.
    """
    if _is_device_or_pipe(path):
        with os_errors_as_output_errors("write to", path), path.open("wb") as stream:
            stream.write(content)
        return
    target = path.resolve()
    with os_errors_as_output_errors("write the file", target):
        target.parent.mkdir(parents=True, exist_ok=True)
        replace_file(
            str(target),
            content,
            0o666 & ~_current_umask() if mode is None else mode,
            temporary=str(target.with_name(f".{target.name}.{secrets.token_hex(8)}")),
            durable=False,
        )


def _is_device_or_pipe(path: Path) -> bool:
    # A standard stream is a link, and can lead to a file that another program has open.
    if str(path.absolute()).startswith(("/dev/std", "/dev/fd/", "/proc/")):
        return True
    return path.exists() and not (path.is_file() or path.is_dir())


def replace_content_atomically(path: Path, content: bytes) -> None:
    """Replace the content of an existing file atomically.

    Mode, owner and extended attributes stay.

    Raises OutputError when it cannot be written; the file is unchanged then.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    with os_errors_as_output_errors("write the file", path):
        try:
            create_file_like(path, temporary, content)
            os.replace(temporary, path)
            sync_directory(str(path.parent))
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def create_file_like(existing: Path, new: Path, content: bytes) -> None:
    """Create the file ``new`` with ``content``, and with the mode, owner and extended attributes of ``existing``.

    The file is on the disk when the function returns.

    Raises FileExistsError if the path ``new`` exists; OSError.
    """
    status = existing.stat()
    descriptor = create_and_open_file(
        str(new), content, stat.S_IMODE(status.st_mode), Owner(status.st_uid, status.st_gid)
    )
    try:
        shutil.copystat(existing, new)
        os.utime(descriptor)
        os.fsync(descriptor)
    except BaseException:
        new.unlink()
        raise
    finally:
        os.close(descriptor)


def check_writable(path: Path) -> None:
    """Check that a file can be written to its directory, and raise OutputError if it cannot."""
    target = path.resolve()
    with os_errors_as_output_errors("write the file", target), tempfile.TemporaryFile(dir=target.parent):
        pass


@contextmanager
def os_errors_as_output_errors(action: str, target: Path) -> Iterator[None]:
    """Convert an OSError inside a ``with`` block to an OutputError.

    The error names the action and the target. Errors of writes name no file, and a temporary name means nothing to
    users. A parent that is no directory is named.
    """
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        parent_files = [path for path in target.parents if os.path.exists(path) and not os.path.isdir(path)]
        if parent_files:
            reason = f"{parent_files[0]} is not a directory"
        raise OutputError(error.errno or errno.EIO, reason, str(target), action) from error


def _write_files(root: Path, files: Mapping[str, bytes]) -> None:
    """Write files by relative path into an existing directory. Their modes and that of the directory follow the umask.

    Each subdirectory is created immediately before its first file.
    """
    root.chmod(0o777 & ~_current_umask())
    created_directories: set[str] = set()
    root_descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for path, content in files.items():
            for directory in _parent_directories(path):
                if directory not in created_directories:
                    os.mkdir(directory, dir_fd=root_descriptor)
                    created_directories.add(directory)
            os.close(create_and_open_file(path, content, mode=None, directory=root_descriptor))
    finally:
        os.close(root_descriptor)


def _parent_directories(path: str) -> Iterator[str]:
    """Return the directories above a relative path, the outermost first."""
    return accumulate(path.split("/")[:-1], "{}/{}".format)


def exchange_paths(staged: Path, target: Path) -> None:
    """Exchange a staged file or directory with the one at ``target``.

    Where ``target`` does not exist, the staged path is only moved.
    """
    try:
        os.rename(staged, target)  # for a missing or an empty directory
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        if not _exchange(staged, target):
            previous = Path(f"{staged}.old")
            os.rename(target, previous)
            try:
                os.rename(staged, target)
            except OSError:
                os.rename(previous, target)
                raise
            os.rename(previous, staged)


def _exchange(first_path: Path, second_path: Path) -> bool:
    """Exchange two paths atomically; return False where the system or file system cannot."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    return_code: int = renameat2(
        _AT_FDCWD, os.fsencode(first_path), _AT_FDCWD, os.fsencode(second_path), _RENAME_EXCHANGE
    )
    return return_code == 0


def _current_umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
