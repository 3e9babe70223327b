"""Does this system allow machines at all? If not, why not, in one line."""

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
from .commands import attempt, last_words, run
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
"""Program -> Debian package that brings it."""


INOTIFY_INSTANCES = 1024
"""A machine's systemd and its services use ten of root's, and the kernel's 128 are for the whole system: the systemd of
the machine for which none is left ends without a word (measured)."""
INOTIFY_LIMIT = Path("/proc/sys/fs/inotify/max_user_instances")


def probe() -> str | None:
    """Why machines cannot run here, or None when they can.

    Installs the missing Debian packages first where it may (root with apt-get). Everything
    that it tries in the kernel is undone before it returns.
    """
    for check in (_is_linux_root, _has_tools, _has_cgroups, _has_namespaces, _has_overlay):
        try:
            check()
        except MachinesError as error:
            return str(error)
    return None


def require() -> None:
    """Raise UnsupportedError with the reason when machines cannot run here.

    Raises the kernel's limit of inotify instances where it is low and may be changed.
    """
    reason = probe()
    if reason is not None:
        raise UnsupportedError(reason)
    if int(INOTIFY_LIMIT.read_text()) < INOTIFY_INSTANCES:
        with contextlib.suppress(OSError):  # where it may not be changed, some machines still fit
            INOTIFY_LIMIT.write_text(str(INOTIFY_INSTANCES))


def _is_linux_root() -> None:
    if sys.platform != "linux":
        raise UnsupportedError(f"machines need Linux, this is {sys.platform}")
    if os.geteuid() != 0:
        raise UnsupportedError("machines need root for namespaces and mounts (run the tests with sudo)")


def _has_tools() -> None:
    """Install what is missing: one process at a time, because a second apt-get would only say that there is a first."""
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
        raise UnsupportedError(f"{names} not installed, and there is no apt-get to install it with")
    env = {"DEBIAN_FRONTEND": "noninteractive"}
    # The lists may be recent enough: an update needs the network, so it comes second.
    install = ["apt-get", "install", "-y", "-qq", "-o=DPkg::Lock::Timeout=300", "--no-install-recommends", *packages]
    done = attempt(install, timeout=600, env=env)
    if done.returncode:
        attempt(["apt-get", "update", "-qq"], timeout=600, env=env)
        done = attempt(install, timeout=600, env=env)
    if done.returncode:
        raise UnsupportedError(f"{names} not installed, and apt-get failed: {last_words(done)}")


def _has_cgroups() -> None:
    group = ControlGroup(f"activemq-fleet-probe-{uuid.uuid4().hex[:8]}", find_hierarchies())
    try:
        group.create()
        directory = group.directories[0]
        if not (directory / "cgroup.kill").exists():
            raise UnsupportedError("this kernel has no cgroup.kill (Linux 5.14): no power-off")
    except OSError as error:
        raise UnsupportedError(f"control groups cannot be made: {error}") from error
    finally:
        _quietly(group.remove)


def _has_namespaces() -> None:
    lan = Lan(f"probe-{uuid.uuid4().hex[:8]}")
    try:
        lan.create()
        lan.plug_in("a", "10.77.0.2", 1)
    except MachinesError as error:
        raise UnsupportedError(f"network namespaces with a bridge cannot be made: {error}") from error
    finally:
        _quietly(lan.remove)


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
            raise UnsupportedError(f"no overlay mounts below {directory}: {error}") from error


def _quietly(undo: Callable[[], None]) -> None:
    """What could not be made cannot be undone either; the first reason is the one to tell."""
    try:
        undo()
    except (MachinesError, OSError):
        return
