"""The comparison of the release data with a source repository: a small one with a known release and new releases."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from activemq_fleet.releases import Release, supported_release_lines
from scripts import release_data
from scripts.release_data import Repository, data_facts, differences, enter_patch, main, source_facts

SERVICES = "broker/src/main/resources/META-INF/services/org/apache/activemq/transport"
QUEUE = "broker/src/main/java/org/apache/activemq/Queue.java"
SECURITY = (
    "".join(f"| {line}.x | :white_check_mark: | |\n" for line in reversed(supported_release_lines()))
    + "| 6.1.x | :x: |\n"
)
CLASS = '/** @org.apache.xbean.XBean element="queue" */\nclass Queue {\n%s}\n'


def tree_of(release: Release) -> dict[str, str]:
    """Return the files of a source tree that has the facts of a release."""
    files = {
        "pom.xml": f"<javaVersion>{release.java_minimum}</javaVersion>\n"
        f"<jetty-version>{release.jetty}.7</jetty-version>\n<spring-version>{release.spring}.1</spring-version>\n",
        "client/src/main/java/org/apache/activemq/command/CommandTypes.java": "int PROTOCOL_STORE_VERSION = "
        f"{release.store_openwire};\n",
        "kahadb/src/main/java/org/apache/activemq/store/kahadb/MessageDatabase.java": "int VERSION = "
        f"{release.kahadb_version};\n",
        "assembly/src/release/conf/log4j2.properties": "",
        "assembly/src/release/conf/jetty-spring.xml": "",
        "assembly/src/release/bin/setenv": "",
        "SECURITY.md": SECURITY,
        QUEUE: CLASS % "  public void setName(String name) {}\n",
    }
    files |= {f"{SERVICES}/{scheme}": "" for scheme in (*release.schemes, "failover")}
    return files | {f"{SERVICES}/discoveryagent/{scheme}": "" for scheme in release.discovery_schemes}


def commit(directory: Path, files: Mapping[str, str], tag: str) -> None:
    for path, content in files.items():
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content)
    settings = ("-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false")
    for arguments in (("add", "-A"), (*settings, "commit", "-q", "-m", tag), ("tag", f"activemq-{tag}")):
        subprocess.run(["git", "-C", str(directory), *arguments], check=True)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    directory = tmp_path / "source"
    directory.mkdir()
    subprocess.run(["git", "init", "-q", str(directory)], check=True)
    commit(directory, tree_of(Release.of("6.3.1")), "6.3.1")
    return directory


def test_activemq_source_of_known_release_agrees_with_release_data(
    source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert differences(source_facts(Repository(source), "6.3.1"), data_facts(Release.of("6.3.1"))) == []
    assert main([str(source)]) == 0
    assert "the data and the source agree" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"pom.xml": "<javaVersion>21</javaVersion>"}, "6.3.1: java_minimum: the source has 21, the data 17"),
        ({f"{SERVICES}/quic": ""}, "6.3.1: schemes: the source has"),
        ({"SECURITY.md": "| 6.3.x | :white_check_mark: |\n"}, "SECURITY.md lists 6.3, the data 5.19 6.2 6.3"),
    ],
)
def test_difference_of_source_and_release_data_is_reported_with_both_values(
    source: Path, changes: Mapping[str, str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    subprocess.run(["git", "-C", str(source), "tag", "-d", "activemq-6.3.1"], check=True, stdout=subprocess.DEVNULL)
    commit(source, changes, "6.3.1")
    assert main([str(source)]) == 1
    assert line in capsys.readouterr().out


def test_new_patch_release_is_entered_only_with_write_option(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(release_data.DATA / "releases.toml", tmp_path)
    monkeypatch.setattr(release_data, "DATA", tmp_path)
    commit(source, {"README": "a fix"}, "6.3.99")
    releases_toml_before = (tmp_path / "releases.toml").read_text()
    assert main([str(source)]) == 1
    assert (tmp_path / "releases.toml").read_text() == releases_toml_before
    assert main([str(source), "--write"]) == 0
    assert '"6.3" = { last_patch = 99,' in (tmp_path / "releases.toml").read_text()
    assert "6.3.99: entered as the newest release of 6.3" in capsys.readouterr().out


def test_new_attribute_and_element_prevent_entry_of_release(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    setters = "  public void setName(String name) {}\n  public void setColor(String color) {}\n"
    path = QUEUE.replace("Queue", "Stream")
    commit(source, {QUEUE: CLASS % setters, path: (CLASS % "").replace("queue", "stream")}, "6.3.99")
    assert main([str(source), "--write"]) == 1
    output = capsys.readouterr().out
    assert "attributes.toml: the element stream is new" in output
    assert "attributes.toml: check queue.color: 6.3.1 has no setter for it" in output
    assert "not entered because of the differences above" in output


def test_new_release_line_must_be_added_manually(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    commit(source, {"README": "a line"}, "6.9.0")
    assert main([str(source), "--write"]) == 1
    assert "6.9.0: releases.toml: the line 6.9 is new: add it to [lines]" in capsys.readouterr().out


def test_directory_without_git_repository_causes_single_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith("release_data: git tag in ")


def test_patch_release_of_unknown_line_is_refused() -> None:
    with pytest.raises(release_data.ReadError, match=r"no entry of the line 9\.9"):
        enter_patch("", "9.9", 1)
