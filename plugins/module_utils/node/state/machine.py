# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Reads facts of a machine that determine whether a broker can run on it, and fail over."""
# pylint: disable=ansible-bad-function # The package also runs without Ansible, which has no run_command there.

from __future__ import annotations

import fcntl
import grp
import os
import pwd
import re
import shutil
import socket
import struct
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..config.broker_configuration import deployed_pair_name
from ..config.versions import ConfigurationPaths
from ..errors import NodeError
from ..install.jars import pids_with_open_files_below
from ..install.release_tree import releases_in_home
from ..masking import mask_and_shorten
from ..printable import escape_unprintable
from ..process.proc import boot_id, find_broker_process, process_ids, uid_of_process
from ..process.taken_ports import running_brokers_to_replace, taken_ports
from ..text_lines import split_lines
from .broker_health import running_release
from .host_names import unresolvable_host_names
from .running_store import is_store_fenced, running_store_facts

ARGUMENTS: dict[str, dict[str, Any]] = {
    "java": {"type": "path", "default": "/usr/bin/java"},
    "directory": {"type": "path"},
    "home": {"type": "path", "required": True},
    "home_link": {"type": "path"},
    "base": {"type": "path", "required": True},
    "user": {"type": "str", "default": "activemq"},
    "uid": {"type": "int"},
    "gid": {"type": "int"},
    "listeners": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "name": {"type": "str"},
            "address": {"type": "str", "required": True},
            "port": {"type": "int", "required": True},
            "variable": {"type": "str"},
        },
    },
    "files": {"type": "list", "elements": "path", "default": []},
    "names": {"type": "list", "elements": "str", "default": []},
    "service": {
        "type": "dict",
        "options": {
            "instance": {"type": "str", "required": True},
            "unit": {"type": "path", "required": True},
            "enabled": {"type": "bool", "default": True},
            "guard": {"type": "bool", "default": False},
            "watchdog": {"type": "path"},
        },
    },
}
_GET_FLAGS = 0x8913  # SIOCGIFFLAGS, linux/sockios.h
_FLAG_UP = 0x1  # IFF_UP, linux/if.h
_OCTAL_ESCAPE = re.compile(r"\\([0-7]{3})")  # proc(5): space, tab, newline and backslash in a mount point
_MAX_OUTPUT_CHARACTERS = 200
_VERSION = re.compile(r'(?:version "|JRE \()(?:1\.)?(\d+)')
_CLOUDS = {
    "Amazon EC2": "Amazon EC2",
    "Google": "Google Cloud",
    "Google Compute Engine": "Google Cloud",
    "Alibaba Cloud": "Alibaba Cloud",
    "DigitalOcean": "DigitalOcean",
    "Hetzner": "Hetzner Cloud",
    "OracleCloud.com": "Oracle Cloud",
}
_MAX_PROCESSES = 3
_AZURE_ASSET_TAG = "7783-7084-3265-9085-8269-3286-77"  # the asset tag of every machine there


@dataclass(frozen=True)
class Mount:
    """A mount of a file system on this machine: mount point, file system type and options.

    It is a line of /proc/self/mounts.
    """

    point: str
    kind: str
    options: tuple[str, ...]


def gather_machine_facts(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Gather the facts about this machine that determine whether a broker can run on it.

    The module ``machine_info`` returns them. ``parameters`` are as in ``ARGUMENTS``. Raises OSError if /proc cannot be
    read.
    """
    directory, home_link = parameters["directory"], parameters["home_link"]
    with open("/proc/self/mounts", encoding="utf-8", errors="replace") as file:
        mount = mount_of(directory, file.read()) if directory else None
    process = find_broker_process(parameters["base"])
    java = java_feature_release(parameters["java"])
    home_processes = pids_with_open_files_below(parameters["home"])
    return {
        "is_root": os.geteuid() == 0,
        "java": java,
        "java_failure": None if java else reason_for_unknown_java_version(parameters["java"]),
        "store_filesystem": mount.kind if mount else None,
        "store_mount_options": list(mount.options) if mount else [],
        "store_capacity": store_size_plus_free_space(directory) if directory else None,
        "store_fenced": is_store_fenced(directory, parameters["user"]) if directory else False,
        "running_store": running_store_facts(parameters["base"], process, directory),
        "memory": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        # only options that a rule reads, because others may contain passwords
        "java_options": [word for word in process.command if "FileLock" in word] if process else [],
        "settings_files": start_script_settings_files(parameters["home"], parameters["user"]),
        "clock_synchronised": is_clock_synchronized(),
        "user": _account_name(process.pid) if process else None,
        "release": running_release(process) if process else None,
        "pid": process.pid if process else None,
        "taken_ports": taken_ports(
            [(listener["address"], listener["port"]) for listener in parameters["listeners"]],
            process,
            f"{os.path.basename(parameters['base'])}.service",
            parameters["base"],
        ),
        **account_ids_and_processes(parameters["user"], parameters["uid"], parameters["gid"]),
        **data_directory_owner(parameters["base"]),
        "base_exists": os.path.lexists(parameters["base"]),
        "missing_files": [path for path in parameters["files"] if not os.path.isfile(path)],
        "unresolved_names": unresolvable_host_names(parameters["names"]),
        "has_home_link_conflict": bool(home_link) and os.path.lexists(home_link) and not os.path.islink(home_link),
        "home_exists": os.path.lexists(parameters["home"]),
        "home_releases": releases_in_home(parameters["home"]),
        "home_processes": home_processes,
        "replaced_brokers": running_brokers_to_replace(parameters["base"], parameters["home"], home_processes),
        "interfaces": active_interfaces(),
        "cloud": cloud_provider(),
        "pair": _deployed_pair(parameters["base"]),
        # some containers see a separate id, but may still share a disk
        "boot": None if _is_container() else boot_id() or None,
    }


def account_ids_and_processes(user: str, wanted_uid: int | None, wanted_gid: int | None) -> dict[str, Any]:
    """Return a dict with the uid, gid and processes of an account, and the accounts that already have the wanted ids.

    ``user`` is the name of a broker's account and of its group. ``uid_holder`` and ``gid_holder`` are the names of
    another account and another group that already have the ids ``wanted_uid`` and ``wanted_gid``, or None.
    """
    account, group = _find_entry(pwd.getpwnam, user), _find_entry(grp.getgrnam, user)
    account_uid = account.pw_uid if account else None
    holders = (_find_entry(pwd.getpwuid, wanted_uid), _find_entry(grp.getgrgid, wanted_gid))
    uid_holder, gid_holder = (entry[0] if entry and entry[0] != user else None for entry in holders)
    processes = [pid for pid in process_ids() if uid_of_process(pid) == account_uid] if account_uid else []
    return {
        "account_exists": account is not None,
        "account_uid": account_uid,
        "account_gid": group.gr_gid if group else None,
        "account_processes": processes[:_MAX_PROCESSES],
        "uid_holder": uid_holder,
        "gid_holder": gid_holder,
    }


def data_directory_owner(base: str) -> dict[str, Any]:
    """Return a dict with the uid and the account name of the owner of a broker's data directory, BASE/data.

    Both are None if the directory contains no visible file, at any depth, as a new volume and a directory with mount
    points do. The name is None if no account has the uid.
    """
    data = os.path.join(base, "data")
    if not any(files for _directory, _directories, files in os.walk(data)):
        return {"data_uid": None, "data_account": None}
    uid = os.stat(data).st_uid
    account = _find_entry(pwd.getpwuid, uid)
    return {"data_uid": uid, "data_account": account.pw_name if account else None}


def _find_entry(find: Callable[[Any], Any], key: str | int | None) -> Any:
    """Return the entry of an account or a group, whose first field is its name; None without a key or an entry."""
    try:
        return None if key is None else find(key)
    except KeyError:
        return None


def _account_name(pid: int) -> str | None:
    try:
        return pwd.getpwuid(os.stat(f"/proc/{pid}").st_uid).pw_name
    except (OSError, KeyError):
        return None


def _deployed_pair(base: str) -> str | None:
    try:
        return deployed_pair_name(ConfigurationPaths(base))
    except NodeError:  # the installation of the files reports this
        return None


def java_feature_release(java: str) -> int | None:
    """Return the feature release of a java executable, such as 8 or 17; None if it does not run or prints none.

    ``-Xinternalversion`` of HotSpot takes a tenth of the time of ``-version``, which every Java supports.
    """
    for option in ("-Xinternalversion", "-version"):
        try:
            result = subprocess.run([java, option], capture_output=True, text=True, timeout=60, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return None
        if match := _VERSION.search(result.stderr + result.stdout):
            return int(match[1])
    return None


def reason_for_unknown_java_version(java: str) -> str:
    """Return a short text with the reason why a java executable does not report its version; never empty.

    Call it only for an executable whose version cannot be parsed. The text includes the command's output.
    """
    try:
        result = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except OSError as error:
        return error.strerror or str(error)
    except subprocess.TimeoutExpired:
        return f"the command {java} -version does not finish within 60 s"
    text = escape_unprintable(
        mask_and_shorten(" ".join((result.stderr or result.stdout).split()), _MAX_OUTPUT_CHARACTERS)
    )
    if result.returncode:
        return f"the command {java} -version fails with exit code {result.returncode}{': ' + text if text else ''}"
    return f"the command {java} -version prints {'no version: ' + text if text else 'nothing'}"


def mount_of(path: str, mounts_text: str) -> Mount | None:
    """Return the mount on which a path is located, by the text of /proc/self/mounts; None if none contains the path.

    The path need not exist. Symbolic links are followed, because the store is on the file system of their target.
    """
    absolute_path = os.path.realpath(path)
    mount = None
    for line in split_lines(mounts_text):
        _device, point, kind, options, *_numbers = line.split(" ")
        point = _OCTAL_ESCAPE.sub(lambda match: chr(int(match[1], 8)), point)
        contains_path = absolute_path == point or absolute_path.startswith(point.rstrip("/") + "/")
        # the later line hides the earlier one on the same point
        if kind != "autofs" and contains_path and (mount is None or len(point) >= len(mount.point)):
            mount = Mount(point, kind, tuple(options.split(",")))
    return mount


def store_size_plus_free_space(directory: str) -> int | None:
    """Return the number of bytes that a broker's store can use: its present size and the free space of its disk.

    Returns None if unknown.
    """
    path = os.path.abspath(directory)
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    try:
        return shutil.disk_usage(path).free + sum(_allocated_sizes(directory))
    except OSError:
        return None


def _allocated_sizes(directory: str) -> list[int]:
    sizes = []
    for root, _unused, names in os.walk(directory):
        for name in names:
            try:
                sizes.append(os.lstat(os.path.join(root, name)).st_blocks * 512)
            except OSError:
                continue  # the file was deleted in the meantime
    return sizes


def start_script_settings_files(home: str, user: str) -> list[str]:
    """Return the existing settings files that ActiveMQ's start script reads, such as ``env`` and ``.activemqrc``.

    The files are those that the script of at least one release reads.
    """
    try:
        user_settings = os.path.join(pwd.getpwnam(user).pw_dir, ".activemqrc")
    except KeyError:
        user_settings = ""
    paths = ("/etc/default/activemq", user_settings, f"{home}/bin/env", f"{home}/bin/setenv")
    return [path for path in paths if path and os.path.isfile(path)]


def is_clock_synchronized() -> bool | None:
    """Return whether the clock of this machine is synchronized, as systemd reports; None without systemd."""
    program = shutil.which("timedatectl")
    if program is None:
        return None
    command = [program, "show", "--property", "NTPSynchronized", "--value"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return {"yes": True, "no": False}.get(result.stdout.strip())


def active_interfaces() -> list[str]:
    """Return the sorted names of the active network interfaces of this machine.

    The loopback interface is included.
    """
    interfaces = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        for _unused, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(handle, _GET_FLAGS, struct.pack("16sH14x", name.encode(), 0))
            except OSError:
                continue  # the interface was removed
            if struct.unpack("16sH14x", answer)[1] & _FLAG_UP:
                interfaces.append(name)
    return sorted(interfaces)


def _is_container(root: str = "/") -> bool:
    """Return whether this system is a container.

    Much of what is visible there belongs to the host.
    """
    return os.path.exists(f"{root}run/systemd/container") or os.path.exists(f"{root}.dockerenv")


def cloud_provider(root: str = "/") -> str | None:
    """Return the name of the cloud provider of this machine, by its firmware; None outside a cloud and in containers.

    ``root`` is the directory that contains ``sys``, ending with a slash.
    """
    if _is_container(root):
        return None
    for name in ("sys_vendor", "product_name", "chassis_asset_tag"):
        try:
            with open(f"{root}sys/class/dmi/id/{name}") as file:
                text = file.read().strip()
        except OSError:
            continue
        if name == "chassis_asset_tag" and text == _AZURE_ASSET_TAG:
            return "Microsoft Azure"
        if text in _CLOUDS:
            return _CLOUDS[text]
    return None
