"""What travels to a host, and what of the vendor's is added there."""

from __future__ import annotations

import ast
import collections.abc
import io
import tarfile
from pathlib import Path

import pytest

from activemq_fleet.node.config.configuration_archive import ConfigurationFile, pack_configuration, unpack_configuration
from activemq_fleet.node.config.vendor_files import shipped_configuration_files
from activemq_fleet.node.errors import NodeError
from activemq_fleet.node.install.configure import install_or_restore_configuration

ROOT = Path(__file__).resolve().parents[2]
ON_HOST = sorted(
    path for path in [*(ROOT / "plugins/modules").glob("*.py"), *(ROOT / "plugins/module_utils").rglob("*.py")]
)
TREE = {"conf/a": ConfigurationFile(b"\x00\xff", 0o600, "@a@"), "bin/env": ConfigurationFile(b"", 0o755)}


def test_an_archive_brings_back_what_was_packed() -> None:
    assert unpack_configuration(pack_configuration(TREE)) == TREE


def test_the_same_files_give_the_same_archive() -> None:
    assert pack_configuration(TREE) == pack_configuration(dict(reversed(TREE.items())))


@pytest.mark.parametrize("path", ["/etc/passwd", "../up", "conf/../../up", "a//b", "", "./a", ".fleet-manifest.json"])
def test_a_path_that_leaves_the_tree_is_refused(path: str) -> None:
    with pytest.raises(NodeError, match="the configuration archive of this host contains"):
        pack_configuration({path: ConfigurationFile(b"", 0o644)})


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE])
def test_an_archive_with_anything_but_files_is_refused(kind: bytes) -> None:
    buffer = io.BytesIO(pack_configuration(TREE))
    with tarfile.open(fileobj=buffer, mode="a") as archive:
        member = tarfile.TarInfo("conf/link")
        member.type, member.linkname = kind, "/etc/passwd"
        archive.addfile(member)
    with pytest.raises(NodeError, match=r"a different version of .* created the configuration archive"):
        unpack_configuration(buffer.getvalue())


@pytest.mark.parametrize("data", [b"", b"not a tar", pack_configuration(TREE)[:700]])
def test_an_archive_that_is_cut_short_is_refused(data: bytes) -> None:
    with pytest.raises(NodeError, match="the configuration archive"):
        unpack_configuration(data)


def test_an_archive_that_changed_on_its_way_installs_nothing(tmp_path: Path) -> None:
    archive = tmp_path / "a.tar"
    archive.write_bytes(pack_configuration(TREE))
    with pytest.raises(NodeError, match="its SHA-256 differs"):
        install_or_restore_configuration(
            {"archive": str(archive), "sha256": "0" * 64, "base": str(tmp_path / "base")}, check=False
        )
    assert not (tmp_path / "base").exists()


def test_a_user_that_the_host_does_not_have_is_named(tmp_path: Path) -> None:
    archive = tmp_path / "a.tar"
    archive.write_bytes(pack_configuration(TREE))
    with pytest.raises(NodeError, match="this host has no user missing-user"):
        install_or_restore_configuration(
            {"archive": str(archive), "base": str(tmp_path / "base"), "user": "missing-user"}, check=False
        )


def test_what_the_system_refuses_is_one_line_with_the_path(tmp_path: Path) -> None:
    with pytest.raises(NodeError, match=r"/none\.tar: No such file or directory"):
        install_or_restore_configuration(
            {"archive": str(tmp_path / "none.tar"), "base": str(tmp_path / "base")}, check=False
        )


def vendor(home: Path, *names: str) -> None:
    for name in names:
        path = home / "conf" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("vendor\n")


def test_vendor_files_are_added_and_the_fleet_s_own_win(tmp_path: Path) -> None:
    vendor(tmp_path / "home", "logging.properties", "login.config", "jetty/jetty-http.xml", "java.security")
    archive = tmp_path / "a.tar"
    archive.write_bytes(pack_configuration({"conf/login.config": ConfigurationFile(b"ours\n", 0o644)}))
    install_or_restore_configuration(
        {"archive": str(archive), "base": str(tmp_path / "base"), "home": str(tmp_path / "home")}, check=False
    )
    conf = tmp_path / "base" / "current" / "conf"
    assert (conf / "login.config").read_text() == "ours\n"
    assert (conf / "jetty" / "jetty-http.xml").read_text() == "vendor\n"
    assert (conf / "logging.properties").is_file()


def test_no_vendor_file_with_an_account_a_key_or_an_example_is_taken(tmp_path: Path) -> None:
    shipped = (
        *("activemq.xml", "activemq-demo.xml", "camel.xml", "broker.ks", "broker.ts", "client.ks", "client.ts"),
        *("broker-localhost.cert", "credentials.properties", "credentials-enc.properties", "groups.properties"),
        *("jetty-realm.properties", "jmx.access", "jmx.password", "users.properties"),
    )
    vendor(tmp_path, *shipped, "logging.properties")
    assert list(shipped_configuration_files(str(tmp_path))) == ["conf/logging.properties"]


def test_a_vendor_file_of_a_new_name_that_sets_a_password_is_not_taken(tmp_path: Path) -> None:
    vendor(tmp_path, "harmless.properties")
    (tmp_path / "conf" / "new.properties").write_text("console.password = admin\n")
    (tmp_path / "conf" / "commented.properties").write_text("# console.password = admin\nother=${x.password}\n")
    assert list(shipped_configuration_files(str(tmp_path))) == ["conf/commented.properties", "conf/harmless.properties"]


def test_a_link_among_the_vendor_s_files_is_not_followed(tmp_path: Path) -> None:
    vendor(tmp_path, "logging.properties")
    (tmp_path / "conf" / "stolen.xml").symlink_to("/etc/passwd")
    assert list(shipped_configuration_files(str(tmp_path))) == ["conf/logging.properties"]


def test_a_release_of_jars_without_conf_adds_nothing(tmp_path: Path) -> None:
    assert shipped_configuration_files(str(tmp_path)) == {}


@pytest.mark.parametrize("path", ON_HOST, ids=lambda path: path.name)
def test_code_that_runs_on_hosts_is_python_3_8_and_imports_nothing_of_the_library(path: Path) -> None:
    tree = ast.parse(path.read_text(), feature_version=(3, 8))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not [name for name in imported if name.split(".")[0] == "activemq_fleet"]
    assert "__future__" in imported
    assigned = [node.value for node in tree.body if isinstance(node, ast.Assign)]
    aliases = [node.value for node in assigned if isinstance(node, ast.Subscript)]
    unknown = {*dir(collections.abc), "dict", "frozenset", "list", "set", "tuple", "type"}
    assert not [node.id for node in aliases if isinstance(node, ast.Name) and node.id in unknown], (
        "3.8 cannot import these: an alias of types is one of typing's"
    )
