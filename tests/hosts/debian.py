"""Debian packages for a machine without a network: apt downloads them once to a repository in the cache."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path

from tests.hosts.machines import UnsupportedError
from tests.hosts.machines.base import find_or_build
from tests.hosts.machines.commands import attempt, last_line_of, run
from tests.hosts.machines.rack import base_directory

SOURCE = "deb [trusted=yes] file:{directory} ./\n"

# In a separate mount namespace: the mounts end with it.
_FETCH = """\
set -eu
mount -t overlay packages -o lowerdir="$1",upperdir="$2/upper",workdir="$2/work" "$2/root"
mount -t proc proc "$2/root/proc"
cp /etc/resolv.conf "$2/root/etc/resolv.conf"
target=$2
shift 2
chroot "$target/root" apt-get update
chroot "$target/root" apt-get install --yes --no-install-recommends --download-only "$@"
cp "$target"/root/var/cache/apt/archives/*.deb "$target/packages"
"""


def repository_of(*packages: str) -> Path:
    """Return a directory with packages, their requirements that the base of the machines lacks, and their index.

    Raises UnsupportedError if apt cannot download them.
    """
    base = find_or_build(base_directory())
    name = hashlib.sha256(" ".join((base.name, *packages)).encode()).hexdigest()[:12]
    directory = base_directory() / f"packages-{name}"
    if not directory.is_dir():
        partial = directory.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        for layer in ("upper", "work", "root", "packages"):
            (partial / layer).mkdir(parents=True)
        command = ["unshare", "--mount", "sh", "-c", _FETCH, "sh", str(base), str(partial), *packages]
        completed = attempt(command, timeout=600)
        if completed.returncode:
            raise UnsupportedError(f"apt cannot download {', '.join(packages)}: {last_line_of(completed)}")
        (partial / "packages" / "Packages").write_text(_index(sorted((partial / "packages").glob("*.deb"))))
        (partial / "packages").rename(directory)
        shutil.rmtree(partial)
    return directory


def _index(files: Sequence[Path]) -> str:
    """Return the index of a repository for apt: the fields of each package, and the path of its file."""
    index_entries = []
    for file in files:
        package_bytes = file.read_bytes()
        checksum = hashlib.sha256(package_bytes).hexdigest()
        index_entries.append(
            f"{run(['dpkg-deb', '--field', str(file)]).rstrip()}\n"
            f"Filename: ./{file.name}\nSize: {len(package_bytes)}\nSHA256: {checksum}\n"
        )
    return "\n".join(index_entries)
