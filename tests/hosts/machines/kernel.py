"""Check whether this system supports machines, and report the missing prerequisite in one line."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import sys
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path

from .cgroups import ControlGroup, find_hierarchies
from .commands import attempt, last_line_of, run
from .errors import MachinesError, UnsupportedError
from .network import Lan

TOOLS = {
    "systemd-nspawn": "systemd-container",
    "debootstrap": "debootstrap",
    "ip": "iproute2",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "nsenter": "util-linux",
    "mount": "mount",
}
"""Program -> Debian package that contains it."""


INOTIFY_INSTANCES = 1024
"""The systemd of a machine and its services use ten instances of root, and the kernel allows 128 in total. Without an
available instance, systemd exits and logs nothing (measured)."""
INOTIFY_LIMIT = Path("/proc/sys/fs/inotify/max_user_instances")


def probe() -> str | None:
    """Return why this system does not support machines, or None if it does.

    The function first installs the missing Debian packages, as root with apt-get. It reverts all changes that it makes
    to test the kernel.
    """
    for check in (_is_linux_root, _has_tools, _has_cgroups, _has_namespaces, _has_overlay):
        try:
            check()
        except MachinesError as error:
            return str(error)
    return None


def require() -> None:
    """Raise UnsupportedError with the reason if this system does not support machines.

    The function increases the limit of inotify instances of the kernel if it is low and writable.
    """
    reason = probe()
    if reason is not None:
        raise UnsupportedError(reason)
    if int(INOTIFY_LIMIT.read_text()) < INOTIFY_INSTANCES:
        with contextlib.suppress(OSError):  # with a read-only limit, only some machines can run
            INOTIFY_LIMIT.write_text(str(INOTIFY_INSTANCES))


def _is_linux_root() -> None:
    if sys.platform != "linux":
        raise UnsupportedError(f"machines require Linux, and this system is {sys.platform}")
    if os.geteuid() != 0:
        raise UnsupportedError("machines need root for namespaces and mounts (run the tests with sudo)")


def _has_tools() -> None:
    """Install the missing tools: one process at a time, because a second apt-get fails while the first one runs."""
    if all(shutil.which(tool) for tool in TOOLS):
        return
    with Path(tempfile.gettempdir(), "activemq-fleet-tools.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        _install_tools()


def _install_tools() -> None:
    missing = sorted(tool for tool in TOOLS if shutil.which(tool) is None)
    if not missing:
        return
    packages = sorted({TOOLS[tool] for tool in missing})
    names = ", ".join(missing)
    if shutil.which("apt-get") is None:
        raise UnsupportedError(f"{names} not installed, and there is no apt-get: install them")
    env = {"DEBIAN_FRONTEND": "noninteractive"}
    # The package lists may be recent enough, and an update requires the network.
    install = ["apt-get", "install", "-y", "-qq", "-o=DPkg::Lock::Timeout=300", "--no-install-recommends", *packages]
    completed = attempt(install, timeout=600, env=env)
    if completed.returncode:
        attempt(["apt-get", "update", "-qq"], timeout=600, env=env)
        completed = attempt(install, timeout=600, env=env)
    if completed.returncode:
        raise UnsupportedError(f"{names} not installed, and apt-get failed to install them: {last_line_of(completed)}")


def _has_cgroups() -> None:
    group = ControlGroup(f"activemq-fleet-probe-{uuid.uuid4().hex[:8]}", find_hierarchies())
    try:
        group.create()
        directory = group.directories[0]
        if not (directory / "cgroup.kill").exists():
            raise UnsupportedError("this kernel has no cgroup.kill to power machines off: use Linux 5.14 or later")
    except OSError as error:
        raise UnsupportedError(f"control groups cannot be created: {error}") from error
    finally:
        _ignore_errors(group.remove)


def _has_namespaces() -> None:
    lan = Lan(f"probe-{uuid.uuid4().hex[:8]}")
    try:
        lan.create()
        lan.plug_in("a", "10.77.0.2", 1)
    except MachinesError as error:
        raise UnsupportedError(f"network namespaces with a bridge cannot be created: {error}") from error
    finally:
        _ignore_errors(lan.remove)


def _has_overlay() -> None:
    with tempfile.TemporaryDirectory(prefix="activemq-fleet-probe.") as directory:
        names = [Path(directory, name) for name in ("lower", "upper", "work", "tree")]
        for path in names:
            path.mkdir()
        lower, upper, work, tree = names
        options = f"lowerdir={lower},upperdir={upper},workdir={work}"
        try:
            run(["mount", "-t", "overlay", "overlay", "-o", options, str(tree)])
            run(["umount", str(tree)])
        except MachinesError as error:
            raise UnsupportedError(f"overlay file systems cannot be mounted below {directory}: {error}") from error


def _ignore_errors(undo: Callable[[], None]) -> None:
    """Call a function and ignore its error: the error that the caller raises is the reason of both."""
    try:
        undo()
    except (MachinesError, OSError):
        return
