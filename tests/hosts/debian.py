"""Debian's own packages for a machine without a network: fetched once by apt, kept as a repository in the cache."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path

from tests.hosts.machines import UnsupportedError
from tests.hosts.machines.base import find_or_build
from tests.hosts.machines.commands import attempt, last_words, run
from tests.hosts.machines.rack import base_directory

SOURCE = "deb [trusted=yes] file:{directory} ./\n"

# In a mount namespace of its own: nothing that is mounted here outlives it.
_FETCH = """\
set -eu
mount -t overlay packages -o lowerdir="$1",upperdir="$2/upper",workdir="$2/work" "$2/root"
mount -t proc proc "$2/root/proc"
cp /etc/resolv.conf "$2/root/etc/resolv.conf"
shift_to=$2
shift 2
chroot "$shift_to/root" apt-get update
chroot "$shift_to/root" apt-get install --yes --no-install-recommends --download-only "$@"
cp "$shift_to"/root/var/cache/apt/archives/*.deb "$shift_to/packages"
"""


def repository_of(*packages: str) -> Path:
    """A directory with these packages, all that they need beyond the machines' base, and their index.

    Raises UnsupportedError when apt cannot fetch them.
    """
    base = find_or_build(base_directory())
    name = hashlib.sha256(" ".join((base.name, *packages)).encode()).hexdigest()[:12]
    made = base_directory() / f"packages-{name}"
    if not made.is_dir():
        partial = made.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        for part in ("upper", "work", "root", "packages"):
            (partial / part).mkdir(parents=True)
        command = ["unshare", "--mount", "sh", "-c", _FETCH, "sh", str(base), str(partial), *packages]
        done = attempt(command, timeout=600)
        if done.returncode:
            raise UnsupportedError(f"apt cannot fetch {', '.join(packages)}: {last_words(done)}")
        (partial / "packages" / "Packages").write_text(_index(sorted((partial / "packages").glob("*.deb"))))
        (partial / "packages").rename(made)
        shutil.rmtree(partial)
    return made


def _index(files: Sequence[Path]) -> str:
    """What apt reads of a repository: each package's own fields, and where its file is."""
    entries = []
    for file in files:
        content = file.read_bytes()
        entries.append(
            f"{run(['dpkg-deb', '--field', str(file)]).rstrip()}\n"
            f"Filename: ./{file.name}\nSize: {len(content)}\nSHA256: {hashlib.sha256(content).hexdigest()}\n"
        )
    return "\n".join(entries)
