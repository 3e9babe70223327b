"""The releases of jars, directories and archives."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from activemq_fleet.node.errors import NodeError
from activemq_fleet.node.install import jars
from tests.unit.release_jars import create_release_directory, jar_content, write_archive


@pytest.mark.parametrize(
    ("name", "content", "release"),
    [
        ("activemq-broker-5.18.6.jar", jar_content(record="5.18.3", manifest="5.18.4"), "5.18.3"),
        ("activemq-broker-5.18.6.jar", jar_content(manifest="5.18.4"), "5.18.4"),
        ("activemq-broker-5.18.6.jar", jar_content(), "5.18.6"),
        ("activemq-core-5.5.1.jar", b"", "5.5.1"),
        ("activemq-core-5.5.1.jar", b"PK no archive at all", "5.5.1"),
        ("activemq-all-6.0.1.jar", jar_content("activemq-all", record="6.0.1"), "6.0.1"),
        ("activemq-broker.jar", jar_content(record="5.17.2"), "5.17.2"),
        ("activemq-broker.jar", b"", None),
        # these jars are not of the broker, so they do not determine its release
        ("activemq-client-5.18.6.jar", jar_content("activemq-client", record="5.18.6"), None),
        ("activemq-protobuf-1.1.jar", jar_content("activemq-protobuf", record="1.1"), None),
    ],
)
def test_release_of_jar_comes_from_record_then_manifest_then_name(
    name: str, content: bytes, release: str | None
) -> None:
    assert jars.release_of_jar(name, io.BytesIO(content)) == release


def test_release_of_jar_ignores_record_of_another_artifact() -> None:
    client_jar = jar_content("activemq-client", record="5.18.3", manifest="5.18.6")
    assert jars.release_of_jar("activemq-broker-5.18.6.jar", io.BytesIO(client_jar)) == "5.18.6"


def test_releases_of_lib_directory_are_those_of_all_its_jars(tmp_path: Path) -> None:
    lib = create_release_directory(tmp_path, "5.18.3", name="5.18.6") / "lib"
    assert jars.releases_in_directory(str(lib)) == ["5.18.3"]
    (lib / "activemq-broker-6.3.1.jar").write_bytes(jar_content(record="6.3.1"))
    (lib / "activemq-broker-9.9.9.jar").mkdir()
    assert jars.releases_in_directory(str(lib)) == ["5.18.3", "6.3.1"]
    assert jars.releases_in_directory(str(tmp_path / "none")) == []


def test_release_of_distribution_archive_is_that_of_jar_in_lib(tmp_path: Path) -> None:
    top_directory = "apache-activemq-5.18.6"
    members = {
        f"{top_directory}/activemq-all-5.18.6.jar": jar_content("activemq-all", record="5.18.6"),
        f"{top_directory}/lib/activemq-broker-5.18.6.jar": jar_content(record="5.18.3"),
        f"{top_directory}/lib/optional/activemq-broker-5.5.1.jar": jar_content(record="5.5.1"),
    }
    archive = write_archive(tmp_path / "x.tar.gz", members)
    assert jars.releases_in_archive(str(archive), is_distribution=True) == ["5.18.3"]
    assert jars.releases_in_archive(str(archive), is_distribution=False) == []


def test_release_of_jar_archive_is_that_of_jar_at_top_level(tmp_path: Path) -> None:
    members = {
        "./activemq-core-5.5.1.jar": jar_content("activemq-core", record="5.5.1"),
        "./x/activemq-core-5.6.0.jar": b"",
    }
    assert jars.releases_in_archive(str(write_archive(tmp_path / "x.tar", members)), is_distribution=False) == ["5.5.1"]


@pytest.mark.parametrize("content", [b"", b"no archive", write_archive])
def test_invalid_archive_causes_error_of_single_line(tmp_path: Path, content: object) -> None:
    path = tmp_path / "x.tar.gz"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        complete_archive = write_archive(path, {"lib/activemq-broker-5.18.3.jar": os.urandom(1 << 20)})
        path.write_bytes(complete_archive.read_bytes()[: 1 << 19])
    with pytest.raises(NodeError, match="cannot be read as a tar archive") as caught:
        jars.releases_in_archive(str(path), is_distribution=True)
    assert "\n" not in str(caught.value)


def test_processes_of_directory_are_those_with_open_files_below_it(tmp_path: Path) -> None:
    home = create_release_directory(tmp_path / "activemq-5.18.6", "5.18.3")
    (tmp_path / "link").symlink_to(home)
    jar_path = home / "lib/activemq-broker-5.18.3.jar"
    script = "import sys; file = open(sys.argv[1]); print(); sys.stdout.flush(); sys.stdin.read()"
    command = [sys.executable, "-c", script, str(jar_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin
        assert child.stdout
        child.stdout.readline()
        assert jars.pids_with_open_files_below(str(home)) == [child.pid]
        assert jars.pids_with_open_files_below(str(tmp_path / "link")) == [child.pid]
        assert jars.pids_with_open_files_below(str(tmp_path / "activemq-5.18")) == []
        jar_path.unlink()
        assert jars.pids_with_open_files_below(str(home)) == []
        child.stdin.close()


@pytest.mark.timeout(20)
def test_releases_of_lib_directory_ignore_pipe_and_link_loop(tmp_path: Path) -> None:
    lib = create_release_directory(tmp_path, "5.18.3") / "lib"
    os.mkfifo(lib / "activemq-broker-6.0.0.jar")
    (lib / "activemq-broker-6.1.0.jar").symlink_to("activemq-broker-6.1.0.jar")

    assert jars.releases_in_directory(str(lib)) == ["5.18.3"]


def test_release_of_damaged_jar_comes_from_its_name(tmp_path: Path) -> None:
    broken = tmp_path / "activemq-broker-5.18.3.jar"
    with zipfile.ZipFile(broken, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("META-INF/maven/org.apache.activemq/activemq-broker/pom.properties", "version=6.3.1\n" * 99)
    jar_bytes = bytearray(broken.read_bytes())
    jar_bytes[100:140] = b"\xff" * 40
    broken.write_bytes(jar_bytes)

    assert jars.release_of_jar_at(str(broken), broken.name) == "5.18.3"
