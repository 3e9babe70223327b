"""The root file system of all machines, which is built once and cached."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .commands import attempt, last_line_of, run
from .errors import UnsupportedError

SUITE = "bookworm"

PACKAGES = (
    "acl",
    "ca-certificates",
    "dbus",
    "haproxy",
    "iproute2",
    "keepalived",
    "libpam-systemd",
    "nftables",
    "openjdk-17-jre-headless",
    "openssh-server",
    "procps",
    "python3",
    "python3-apt",
    "python3-venv",
    "rsync",
    "systemd",
    "systemd-sysv",
)

_MASKED = (
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "systemd-timesyncd.service",
)
"""Units that would run in the background of a test; masked."""

_DISABLED = ("haproxy.service", "keepalived.service")
"""Units that a test starts itself; disabled."""

_RECIPE = 2
"""Increment it when the steps below change, so that the base is built again."""


def base_name() -> str:
    """Return ``base-HASH``; the hash covers all inputs of the base."""
    recipe = repr((_RECIPE, SUITE, PACKAGES, _MASKED, _DISABLED, os.uname().machine))
    return f"base-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"


def find_or_build(cache: Path) -> Path:
    """Return the directory of the base below ``cache``; build the base if it does not exist (about a minute).

    The build is atomic, and one of several callers builds while the others wait. Raises UnsupportedError if the base
    cannot be built.
    """
    base = cache / base_name()
    if base.is_dir():
        return base
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UnsupportedError(f"the cache for the base of the machines cannot be created: {error}") from error
    with _locked(base.with_suffix(".lock")):
        if not base.is_dir():
            partial = base.with_suffix(".partial")
            _remove(partial)
            _bootstrap(partial)
            _customize(partial)
            partial.rename(base)
    return base


def _bootstrap(target: Path) -> None:
    # In a separate mount namespace: the mounts of debootstrap end with it.
    command = ["unshare", "--mount", "debootstrap", "--variant=minbase"]
    command += [f"--include={','.join(PACKAGES)}", SUITE, str(target)]
    completed = attempt(command, timeout=1800)
    if completed.returncode:
        raise UnsupportedError(f"debootstrap {SUITE} failed: {last_line_of(completed)}")


def _customize(target: Path) -> None:
    units = target / "etc/systemd/system"
    for name in _MASKED:
        (units / name).unlink(missing_ok=True)
        (units / name).symlink_to("/dev/null")
    for name in _DISABLED:
        (units / "multi-user.target.wants" / name).unlink(missing_ok=True)
    # A journal on disk can be read after a machine was powered off.
    (target / "var/log/journal").mkdir(exist_ok=True)
    # By default, sshd resolves the address of each client, but no resolver exists.
    (target / "etc/ssh/sshd_config.d/machines.conf").write_text("UseDNS no\nPasswordAuthentication no\n")
    (target / "etc/resolv.conf").write_text("")
    # pam_motd takes longer than the rest of a login.
    pam = target / "etc/pam.d/sshd"
    lines = pam.read_text().splitlines(keepends=True)
    pam.write_text("".join(line for line in lines if "pam_motd" not in line))
    run(["chroot", str(target), "apt-get", "clean"])
    shutil.rmtree(target / "var/lib/apt/lists")
    (target / "var/lib/apt/lists").mkdir()


def _remove(directory: Path) -> None:
    if directory.exists():
        run(["rm", "-rf", "--one-file-system", str(directory)], timeout=300)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
