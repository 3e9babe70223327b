"""The root file system that every machine starts from: built once, then kept in the cache."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .commands import attempt, last_words, run
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

_UNWANTED = (
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "systemd-timesyncd.service",
)
"""Units that would work in the background of a test; masked."""

_SLEEPING = ("haproxy.service", "keepalived.service")
"""Units that a test starts itself; disabled."""

_RECIPE = 2
"""Raise it when the steps below change: the base is then built anew."""


def base_name() -> str:
    """``base-HASH``; the hash covers everything that decides what is in it."""
    recipe = repr((_RECIPE, SUITE, PACKAGES, _UNWANTED, _SLEEPING, os.uname().machine))
    return f"base-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"


def find_or_build(cache: Path) -> Path:
    """The base's directory below ``cache``; built first when it is not there (about a minute).

    It appears whole or not at all, and of several callers one builds while the others wait.
    Raises UnsupportedError when it can neither be found nor built.
    """
    base = cache / base_name()
    if base.is_dir():
        return base
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UnsupportedError(f"no cache for the machines' base: {error}") from error
    with _locked(base.with_suffix(".lock")):
        if not base.is_dir():
            partial = base.with_suffix(".partial")
            _remove(partial)
            _bootstrap(partial)
            _customise(partial)
            partial.rename(base)
    return base


def _bootstrap(target: Path) -> None:
    # In a mount namespace of its own: what debootstrap mounts cannot outlive it.
    command = ["unshare", "--mount", "debootstrap", "--variant=minbase"]
    command += [f"--include={','.join(PACKAGES)}", SUITE, str(target)]
    done = attempt(command, timeout=1800)
    if done.returncode:
        raise UnsupportedError(f"debootstrap {SUITE} failed: {last_words(done)}")


def _customise(target: Path) -> None:
    units = target / "etc/systemd/system"
    for name in _UNWANTED:
        (units / name).unlink(missing_ok=True)
        (units / name).symlink_to("/dev/null")
    for name in _SLEEPING:
        (units / "multi-user.target.wants" / name).unlink(missing_ok=True)
    # A journal on disk can still be read after the machine was powered off.
    (target / "var/log/journal").mkdir(exist_ok=True)
    # sshd would resolve every peer's address, and there is no resolver.
    (target / "etc/ssh/sshd_config.d/machines.conf").write_text("UseDNS no\nPasswordAuthentication no\n")
    (target / "etc/resolv.conf").write_text("")
    # pam_motd and friends cost more than the login itself.
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
