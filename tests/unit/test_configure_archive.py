"""The configuration archive that is sent to a host, and the vendor files that the host adds."""

from __future__ import annotations

import ast
import collections.abc
import io
import os
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.node.config.configuration_archive import ConfigurationFile, pack_configuration, unpack_configuration
from activemq_fleet.node.config.vendor_files import shipped_configuration_files
from activemq_fleet.node.errors import NodeError
from activemq_fleet.node.install.configure import install_or_restore_configuration

ROOT = Path(__file__).resolve().parents[2]
HOST_CODE = sorted(
    path for path in [*(ROOT / "plugins/modules").glob("*.py"), *(ROOT / "plugins/module_utils").rglob("*.py")]
)
TREE = {"conf/a": ConfigurationFile(b"\x00\xff", 0o600, "@a@"), "bin/env": ConfigurationFile(b"", 0o755)}


def test_configuration_survives_packing_and_unpacking() -> None:
    assert unpack_configuration(pack_configuration(TREE)) == TREE


def test_order_of_files_does_not_change_configuration_archive() -> None:
    assert pack_configuration(TREE) == pack_configuration(dict(reversed(TREE.items())))


@pytest.mark.parametrize("path", ["/etc/passwd", "../up", "conf/../../up", "a//b", "", "./a", ".fleet-manifest.json"])
def test_configuration_archive_with_path_outside_tree_is_refused(path: str) -> None:
    with pytest.raises(NodeError, match="the configuration archive of this host contains"):
        pack_configuration({path: ConfigurationFile(b"", 0o644)})


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE])
def test_configuration_archive_with_other_members_than_files_is_refused(kind: bytes) -> None:
    buffer = io.BytesIO(pack_configuration(TREE))
    with tarfile.open(fileobj=buffer, mode="a") as archive:
        member = tarfile.TarInfo("conf/link")
        member.type, member.linkname = kind, "/etc/passwd"
        archive.addfile(member)
    with pytest.raises(NodeError, match=r"a different version of .* created the configuration archive"):
        unpack_configuration(buffer.getvalue())


@pytest.mark.parametrize("data", [b"", b"not a tar", pack_configuration(TREE)[:700]])
def test_truncated_configuration_archive_is_refused(data: bytes) -> None:
    with pytest.raises(NodeError, match="the configuration archive"):
        unpack_configuration(data)


def test_configuration_archive_with_wrong_checksum_installs_nothing(tmp_path: Path) -> None:
    archive = tmp_path / "a.tar"
    archive.write_bytes(pack_configuration(TREE))
    with pytest.raises(NodeError, match="its SHA-256 differs"):
        install_or_restore_configuration(
            {"archive": str(archive), "sha256": "0" * 64, "base": str(tmp_path / "base")}, check=False
        )
    assert not (tmp_path / "base").exists()


UNIT = {"systemd/x.service": ConfigurationFile(b"[Unit]\n", 0o644)}


def configure(root: Path, check: bool = False, **parameters: str) -> dict[str, Any]:
    unit, base = str(root / "units/x.service"), str(root / "base")
    result: dict[str, Any] = install_or_restore_configuration({"base": base, "unit": unit, **parameters}, check)
    return result


def archive_of(path: Path, tree: Mapping[str, ConfigurationFile]) -> str:
    path.write_bytes(pack_configuration(tree))
    return str(path)


def test_unit_of_configuration_is_copied_and_follows_restored_version(tmp_path: Path) -> None:
    unit = tmp_path / "units/x.service"
    unit.parent.mkdir()
    first = configure(tmp_path, archive=archive_of(tmp_path / "1.tar", UNIT))
    assert not unit.is_symlink()
    assert unit.read_text() == "[Unit]\n"
    assert unit.stat().st_mode & 0o7777 == 0o644
    newer = UNIT | {"systemd/x.service": ConfigurationFile(b"[Service]\n", 0o644)}
    assert configure(tmp_path, archive=archive_of(tmp_path / "2.tar", newer))["changed"]
    assert unit.read_text() == "[Service]\n"
    configure(tmp_path, version=first["version"])
    assert unit.read_text() == "[Unit]\n"
    configure(tmp_path, archive=archive_of(tmp_path / "3.tar", TREE))
    assert unit.read_text() == "[Unit]\n"


@pytest.mark.parametrize("installed", ["link", "edited", "mode", "missing"])
def test_unit_that_is_no_copy_is_replaced_without_restart_of_broker(tmp_path: Path, installed: str) -> None:
    archive, unit = archive_of(tmp_path / "1.tar", UNIT), tmp_path / "units/x.service"
    unit.parent.mkdir()
    configure(tmp_path, archive=archive)
    assert not configure(tmp_path, archive=archive)["changed"]
    if installed == "mode":
        unit.chmod(0o600)
    else:
        unit.unlink()
    if installed == "link":
        unit.symlink_to(tmp_path / "base/current/systemd/x.service")
    elif installed == "edited":
        unit.write_text("[Unit]\nDescription=edited\n")
    assert configure(tmp_path, archive=archive, check=True)["changed"]
    assert unit.is_symlink() == (installed == "link")
    result = configure(tmp_path, archive=archive)
    assert (result["changed"], result["restart_required"], result["changed_files"]) == (True, False, [])
    assert not unit.is_symlink()
    assert (unit.read_text(), unit.stat().st_mode & 0o7777) == ("[Unit]\n", 0o644)
    assert not configure(tmp_path, archive=archive)["changed"]


def test_error_of_configuration_install_names_user_that_host_lacks(tmp_path: Path) -> None:
    archive = tmp_path / "a.tar"
    archive.write_bytes(pack_configuration(TREE))
    with pytest.raises(NodeError, match="this host has no user missing-user"):
        install_or_restore_configuration(
            {"archive": str(archive), "base": str(tmp_path / "base"), "user": "missing-user"}, check=False
        )


def test_error_of_missing_configuration_archive_contains_path(tmp_path: Path) -> None:
    with pytest.raises(NodeError, match=r"/none\.tar: No such file or directory"):
        install_or_restore_configuration(
            {"archive": str(tmp_path / "none.tar"), "base": str(tmp_path / "base")}, check=False
        )


def write_vendor_files(home: Path, *names: str) -> None:
    for name in names:
        path = home / "conf" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("vendor\n")


def test_configuration_files_of_distribution_are_added_unless_fleet_has_them(tmp_path: Path) -> None:
    write_vendor_files(tmp_path / "home", "logging.properties", "login.config", "jetty/jetty-http.xml", "java.security")
    archive = tmp_path / "a.tar"
    archive.write_bytes(pack_configuration({"conf/login.config": ConfigurationFile(b"ours\n", 0o644)}))
    install_or_restore_configuration(
        {"archive": str(archive), "base": str(tmp_path / "base"), "home": str(tmp_path / "home")}, check=False
    )
    conf = tmp_path / "base" / "current" / "conf"
    assert (conf / "login.config").read_text() == "ours\n"
    assert (conf / "jetty" / "jetty-http.xml").read_text() == "vendor\n"
    assert (conf / "logging.properties").is_file()


def test_files_of_distribution_with_accounts_keys_or_examples_are_omitted(tmp_path: Path) -> None:
    shipped = (
        *("activemq.xml", "activemq-demo.xml", "camel.xml", "broker.ks", "broker.ts", "client.ks", "client.ts"),
        *("broker-localhost.cert", "credentials.properties", "credentials-enc.properties", "groups.properties"),
        *("jetty-realm.properties", "jmx.access", "jmx.password", "users.properties"),
    )
    write_vendor_files(tmp_path, *shipped, "logging.properties", os.fsdecode(b"caf\xe9.xml"))
    assert list(shipped_configuration_files(str(tmp_path))) == ["conf/logging.properties"]


def test_unknown_file_of_distribution_that_sets_password_is_omitted(tmp_path: Path) -> None:
    write_vendor_files(tmp_path, "harmless.properties")
    (tmp_path / "conf" / "new.properties").write_text("console.password = admin\n")
    (tmp_path / "conf" / "commented.properties").write_text("# console.password = admin\nother=${x.password}\n")
    assert list(shipped_configuration_files(str(tmp_path))) == ["conf/commented.properties", "conf/harmless.properties"]


def test_symlink_among_files_of_distribution_is_not_followed(tmp_path: Path) -> None:
    write_vendor_files(tmp_path, "logging.properties")
    (tmp_path / "conf" / "stolen.xml").symlink_to("/etc/passwd")
    assert list(shipped_configuration_files(str(tmp_path))) == ["conf/logging.properties"]


def test_release_without_conf_directory_adds_no_configuration_files(tmp_path: Path) -> None:
    assert shipped_configuration_files(str(tmp_path)) == {}


@pytest.mark.parametrize("path", HOST_CODE, ids=lambda path: path.name)
def test_code_for_managed_hosts_is_python_3_8_and_imports_no_library_module(path: Path) -> None:
    tree = ast.parse(path.read_text(), feature_version=(3, 8))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not [name for name in imported if name.split(".")[0] == "activemq_fleet"]
    assert "__future__" in imported
    assigned = [node.value for node in tree.body if isinstance(node, ast.Assign)]
    aliases = [node.value for node in assigned if isinstance(node, ast.Subscript)]
    unknown = {*dir(collections.abc), "dict", "frozenset", "list", "set", "tuple", "type"}
    assert not [node.id for node in aliases if isinstance(node, ast.Name) and node.id in unknown], (
        "Python 3.8 cannot evaluate these type aliases: write the aliases of typing instead"
    )
