"""Facts about a host: mounts, Java, disk space, interfaces, cloud provider and accounts."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from activemq_fleet.node.state import machine

MOUNTS = """\
/dev/sda1 / ext4 rw,relatime 0 0
systemd-1 /srv autofs rw 0 0
server:/one /srv/activemq nfs4 rw,vers=4.2,local_lock=none 0 0
server:/two /srv/activemq nfs rw,vers=3,nolock 0 0
server:/three /srv/with\\040space xfs rw 0 0
"""


@pytest.mark.parametrize(
    ("path", "point", "kind"),
    [
        ("/srv/activemq/orders-mq01", "/srv/activemq", "nfs"),
        ("/srv/activemq", "/srv/activemq", "nfs"),
        ("/srv/activemq2", "/", "ext4"),
        ("/srv/with space/x", "/srv/with space", "xfs"),
        ("/var/lib", "/", "ext4"),
    ],
)
def test_mount_of_path_is_deepest_and_last_mounted(path: str, point: str, kind: str) -> None:
    mount = machine.mount_of(path, MOUNTS)
    assert mount is not None
    assert (mount.point, mount.kind) == (point, kind)


def test_mount_of_path_through_link_is_that_of_its_target(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/srv/activemq")
    mount = machine.mount_of(f"{tmp_path}/link/orders-mq01", MOUNTS)
    assert mount is not None
    assert (mount.point, mount.kind) == ("/srv/activemq", "nfs")


def test_mount_options_are_split_at_commas() -> None:
    mount = machine.mount_of("/srv/activemq", MOUNTS)
    assert mount is not None
    assert mount.options == ("rw", "vers=3", "nolock")


@pytest.mark.parametrize(
    ("output", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "25" 2025-09-16', 25),
        ("OpenJDK 64-Bit Server VM (17.0.15+6) for linux-amd64 JRE (17.0.15+6), built on May  1 2025", 17),
        ("OpenJDK 64-Bit Server VM (25.392-b08) for linux-amd64 JRE (1.8.0_392-b08), built on Oct 17 2023", 8),
        ("no such thing", None),
    ],
)
def test_feature_release_of_java_comes_from_its_output(tmp_path: Path, output: str, version: int | None) -> None:
    java = tmp_path / "java"
    java.write_text(f"#!/bin/sh\necho '{output}' >&2\n")
    java.chmod(0o755)
    assert machine.java_feature_release(str(java)) == version


def test_java_without_internal_version_is_queried_for_plain_version(tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\n[ $1 = -version ] && echo 'openjdk version \"21.0.2\"' >&2\n")
    java.chmod(0o755)
    assert machine.java_feature_release(str(java)) == 21


def test_missing_java_has_no_feature_release(tmp_path: Path) -> None:
    assert machine.java_feature_release(str(tmp_path / "java")) is None


def test_space_usable_by_store_includes_its_current_files(tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir()
    (store / "db-1.log").write_bytes(b"x" * 4_000_000)
    free = os.statvfs(tmp_path)
    usable = machine.store_size_plus_free_space(str(store))
    assert usable is not None
    # other processes write to the same disk
    assert abs(usable - free.f_bavail * free.f_frsize - 4_000_000) < 500_000_000
    assert sum(machine._allocated_sizes(str(store))) >= 4_000_000


def test_space_usable_by_missing_store_is_known(tmp_path: Path) -> None:
    assert machine.store_size_plus_free_space(str(tmp_path / "not" / "yet")) is not None


def test_start_script_settings_files_are_existing_files(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "setenv").touch()
    assert f"{tmp_path}/bin/setenv" in machine.start_script_settings_files(str(tmp_path), "missing-user")
    assert f"{tmp_path}/bin/env" not in machine.start_script_settings_files(str(tmp_path), "missing-user")


def test_active_interfaces_include_loopback() -> None:
    assert "lo" in machine.active_interfaces()


def write_firmware_names(root: Path, **names: str) -> str:
    """Write the files in which the firmware describes the host; return the root directory."""
    directory = root / "sys/class/dmi/id"
    directory.mkdir(parents=True)
    for name, firmware_name in names.items():
        (directory / name).write_text(f"{firmware_name}\n")
    return f"{root}/"


def test_cloud_provider_comes_from_firmware_vendor(tmp_path: Path) -> None:
    assert machine.cloud_provider(write_firmware_names(tmp_path, sys_vendor="Amazon EC2")) == "Amazon EC2"


def test_cloud_provider_is_unknown_in_container(tmp_path: Path) -> None:
    (tmp_path / ".dockerenv").touch()
    assert machine.cloud_provider(write_firmware_names(tmp_path, sys_vendor="Amazon EC2")) is None


def test_vendor_without_cloud_tag_is_no_cloud_provider(tmp_path: Path) -> None:
    root = write_firmware_names(tmp_path, sys_vendor="Microsoft Corporation", chassis_asset_tag="Asset-1234")
    assert machine.cloud_provider(root) is None


def test_azure_is_recognized_by_its_chassis_asset_tag(tmp_path: Path) -> None:
    tag = "7783-7084-3265-9085-8269-3286-77"
    root = write_firmware_names(tmp_path, sys_vendor="Microsoft Corporation", chassis_asset_tag=tag)
    assert machine.cloud_provider(root) == "Microsoft Azure"


def test_failure_of_java_names_its_reason(tmp_path: Path) -> None:
    java = tmp_path / "java"
    assert machine.reason_for_unknown_java_version(str(java)) == "No such file or directory"
    java.write_text("#!/bin/sh\necho 'libjli.so: cannot open shared object file' >&2; exit 127\n")
    assert machine.reason_for_unknown_java_version(str(java)) == "Permission denied"
    java.chmod(0o755)
    command = f"the command {java} -version"
    assert machine.reason_for_unknown_java_version(str(java)) == (
        f"{command} fails with exit code 127: libjli.so: cannot open shared object file"
    )
    java.write_text("#!/bin/sh\n")
    assert machine.reason_for_unknown_java_version(str(java)) == f"{command} prints nothing"
    java.write_text("#!/bin/sh\necho Usage: wrapper JAVA; echo 'Unknown option' >&2\n")
    assert machine.reason_for_unknown_java_version(str(java)) == f"{command} prints no version: Unknown option"


def test_shortened_failure_of_java_contains_no_secret(tmp_path: Path) -> None:
    java = tmp_path / "java"
    for length in range(150, 200):
        java.write_text(f"#!/bin/sh\necho '{'x' * length} jdbc:oracle:thin:amq/Canary99@db1' >&2; exit 1\n")
        java.chmod(0o755)
        reason = machine.reason_for_unknown_java_version(str(java))
        assert "x" * 150 in reason
        assert "Can" not in reason


def test_account_facts_name_ids_processes_and_other_holders() -> None:
    account = pwd.getpwuid(os.getuid())
    facts = machine.account_ids_and_processes(account.pw_name, 0, 0)
    assert (facts["account_exists"], facts["account_uid"]) == (True, account.pw_uid)
    missing = machine.account_ids_and_processes("no-such-account", account.pw_uid, account.pw_gid)
    assert (missing["account_exists"], missing["account_uid"], missing["account_gid"]) == (False, None, None)
    assert missing["uid_holder"] == account.pw_name
    assert missing["account_processes"] == []
    assert machine.account_ids_and_processes("no-such-account", None, None)["uid_holder"] is None


def test_only_data_directory_that_contains_file_has_owner(tmp_path: Path) -> None:
    assert machine.data_directory_owner(str(tmp_path)) == {"data_uid": None, "data_account": None}
    for name in ("lost+found", "kahadb"):
        (tmp_path / "data" / name).mkdir(parents=True)
    assert machine.data_directory_owner(str(tmp_path)) == {"data_uid": None, "data_account": None}
    (tmp_path / "data" / "kahadb" / "db-1.log").touch()
    account = pwd.getpwuid(os.getuid())
    assert machine.data_directory_owner(str(tmp_path)) == {"data_uid": account.pw_uid, "data_account": account.pw_name}
