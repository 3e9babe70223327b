"""``check`` of a directory of files, each with a release of its own."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.cli import fleet_checks as shared
from activemq_fleet.cli.main import main
from activemq_fleet.errors import SchemaUnavailableError
from activemq_fleet.given_files import read_beginning_of_file_or_pipe
from activemq_fleet.releases import Release
from activemq_fleet.schema import SchemaProblem
from tests.rule_examples import complete

AMQP = '<transportConnector name="amqp" uri="amqp://0.0.0.0:5672"/>'


class AnySchema:
    def __init__(self, release: Release) -> None:
        self.release = release

    def find_problems(self, document: bytes) -> tuple[SchemaProblem, ...]:
        return ()


@pytest.fixture(autouse=True)
def schemas_of_5_18_and_5_5_are_available(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = {"5.18", "5.5"}

    def load(release: Release, **_: object) -> AnySchema:
        if release.line not in lines:
            raise SchemaUnavailableError(f"the schema of {release} is not available")
        return AnySchema(release)

    monkeypatch.setattr(shared, "load_schema", load)


def put(path: Path, snippet: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(complete(snippet, Release.of("5.18.3")))
    return path


def rules_of(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, set[str]]:
    main(["check", *map(str, arguments), "--format", "json"])
    rules_by_file: dict[str, set[str]] = {}
    content: dict[str, Any] = json.loads(capsys.readouterr().out)
    for finding in content["findings"]:
        rules_by_file.setdefault(finding["file"], set()).add(finding["rule"])
    return rules_by_file


def test_each_file_is_read_by_the_release_of_the_jars_around_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = put(tmp_path / "old/conf/activemq.xml", AMQP), put(tmp_path / "new/conf/activemq.xml", AMQP)
    for home, jar in (("old", "activemq-core-5.5.1.jar"), ("new", "activemq-broker-5.18.3.jar")):
        (tmp_path / home / "lib").mkdir()
        (tmp_path / home / "lib" / jar).touch()
    rules_by_file = rules_of(capsys, "--file", tmp_path)
    assert "V009" in rules_by_file[str(old)]
    assert "V009" not in rules_by_file[str(new)]


def test_a_release_may_be_in_the_name_of_the_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = put(tmp_path / "apache-activemq-5.5.1/conf/activemq.xml", AMQP)
    assert "V009" in rules_of(capsys, tmp_path)[str(path)]


def test_a_file_of_rules_says_which_release_reads_which_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = put(tmp_path / "old/activemq.xml", AMQP), put(tmp_path / "new/activemq.xml", AMQP)
    table = tmp_path / "releases.txt"
    table.write_text("# site by site\nold/*.xml 5.5.1\n")
    rules_by_file = rules_of(capsys, tmp_path, "--release-from", table, "--release", "5.18.3")
    assert "V009" in rules_by_file[str(old)]
    assert "V009" not in rules_by_file[str(new)]


def test_a_line_that_is_no_rule_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "releases.txt"
    table.write_text("old/*.xml\n")
    assert main(["check", str(put(tmp_path / "a.xml")), "--release-from", str(table)]) == 2
    assert (
        "releases.txt, line 1: the line does not have two words: write a file name pattern" in capsys.readouterr().err
    )


def test_files_whose_release_nothing_tells_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(tmp_path / "a/activemq.xml")
    assert main(["check", "--file", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert "a/activemq.xml" in error
    assert "--release-from" in error


def test_two_releases_around_a_file_tell_nothing(tmp_path: Path) -> None:
    path = put(tmp_path / "activemq.xml")
    for release in ("5.5.1", "5.18.3"):
        (tmp_path / f"activemq-all-{release}.jar").touch()
    assert main(["check", str(path)]) == 2


def put_rendered(path: Path, release: str) -> Path:
    """Write an activemq.xml with AMQP and the header of a rendered file."""
    header = (
        f"<!-- orders-mq01-a: node a (preferred master) of pair orders-mq01, release {release}\n"
        "     Made by activemq.fleet from the inventory: change it there, this file is replaced. -->\n<beans"
    )
    path.write_text(put(path, AMQP).read_text().replace("<beans", header, 1))
    return path


def test_rendered_files_are_checked_for_the_release_of_their_header(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = put_rendered(tmp_path / "old.xml", "5.5.1"), put_rendered(tmp_path / "new.xml", "5.18.3")

    assert "V009" in rules_of(capsys, old)[str(old)]
    assert "V009" not in rules_of(capsys, new)[str(new)]


def test_release_option_overrides_header_with_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = put_rendered(tmp_path / "activemq.xml", "5.5.1")

    main(["check", str(path), "--release", "5.18.3"])

    printed = capsys.readouterr()
    assert "V009" not in printed.out
    assert f"{path}: check uses release 5.18.3 (--release), but the comment at the beginning of the file" in printed.err


@pytest.mark.parametrize(
    ("options", "source"),
    [
        (["--release-from", "releases.txt"], "--release-from"),
        ([], "the jars or the name of the installation directory"),
    ],
)
def test_other_sources_of_release_override_header_with_a_warning(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    source: str,
) -> None:
    path = put_rendered(tmp_path / "apache-activemq-5.18.3/conf/activemq.xml", "5.5.1")
    (tmp_path / "releases.txt").write_text("conf/*.xml 5.18.3\n")
    monkeypatch.chdir(tmp_path)

    main(["check", str(path), *options])

    assert (
        f"check uses release 5.18.3 ({source}), but the comment at the beginning of the file names"
        in capsys.readouterr().err
    )


def test_equal_release_in_header_and_option_gives_no_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["check", str(put_rendered(tmp_path / "activemq.xml", "5.18.3")), "--release", "5.18.3"])

    assert "header" not in capsys.readouterr().err


def test_unknown_release_in_header_names_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = put_rendered(tmp_path / "activemq.xml", "9.9")

    assert main(["check", str(path)]) == 2

    error = capsys.readouterr().err
    assert f"{path}: the comment at the beginning of the file names an unknown release" in error
    assert "--release" in error


def test_a_directory_gives_the_files_with_a_broker_and_no_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(tmp_path / "a/activemq.xml")
    put(tmp_path / ".git/activemq.xml")
    (tmp_path / "pom.xml").write_text("<project/>")
    (tmp_path / "activemq.xml.j2").write_text('<broker brokerName="{{ x }}"/>')
    main(["check", str(tmp_path), "--release", "5.18.3"])
    out = capsys.readouterr().out
    assert out.splitlines()[-1].startswith("2 files: 0 errors")
    assert "V022" in out


def test_a_directory_without_a_broker_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(tmp_path), "--release", "5.18.3"]) == 2
    assert "the directory has no activemq.xml, and no other file with a <broker>" in capsys.readouterr().err


def test_a_release_whose_line_has_no_schema_is_an_error(tmp_path: Path) -> None:
    assert main(["check", str(put(tmp_path / "activemq.xml")), "--release", "5.16.7"]) == 2


def test_the_errors_that_stop_a_broker_are_a_group_of_their_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = put(tmp_path / "activemq.xml", AMQP.replace("amqp", "tpc"))
    chosen = ("--select", "errors-that-stop-a-broker")
    assert rules_of(capsys, path, "--release", "5.18.3", *chosen) == {str(path): {"V009"}}
    assert main(["check", str(put(tmp_path / "good.xml")), "--release", "5.18.2", *chosen]) == 0  # S001 stops none


def test_a_directory_of_huge_files_is_not_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = put(tmp_path / "activemq.xml")
    with path.open("ab") as file:
        file.truncate(300 << 20)  # a hole: it takes no room
    assert main(["check", str(tmp_path), "--release", "5.18.3"]) == 2
    assert "has more than 256 MiB of files with a <broker>" in capsys.readouterr().err


def test_a_companion_that_cannot_be_read_is_one_finding_and_the_rest_is_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = put(tmp_path / "a/activemq.xml", AMQP), put(tmp_path / "b/activemq.xml", AMQP)
    companion = first.with_name("users.properties")
    companion.write_bytes(b"#" * ((16 << 20) + 1))
    baseline = tmp_path / "baseline"
    arguments = ["check", "--file", str(tmp_path), "--release", "5.5.1"]
    for extra in ([], ["--write-baseline", str(baseline)], ["--baseline", str(baseline)]):
        assert main([*arguments, *extra]) == 2
        assert capsys.readouterr().out.count("is larger than 16 MiB") == 1
    rules_by_file = rules_of(capsys, "--file", tmp_path, "--release", "5.5.1")
    assert rules_by_file[str(companion)] == {"T000"}
    assert "V009" in rules_by_file[str(first)] & rules_by_file[str(second)]


def test_a_file_that_cannot_be_read_is_one_finding_and_the_rest_is_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = put(tmp_path / "a.xml", AMQP), put(tmp_path / "b.xml")
    with second.open("ab") as file:
        file.truncate((16 << 20) + 1)
    assert main(["check", "--file", str(tmp_path), "--release", "5.5.1"]) == 2
    assert capsys.readouterr().out.count("is larger than 16 MiB") == 1
    rules_by_file = rules_of(capsys, "--file", tmp_path, "--release", "5.5.1")
    assert rules_by_file[str(second)] == {"T000"}
    assert "V009" in rules_by_file[str(first)]


def test_a_file_that_a_configurer_names_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configurer = (
        '<bean class="org.springframework.beans.factory.config.PropertyPlaceholderConfigurer">'
        '<property name="location" value="file:${activemq.conf}/sub/mine.properties"/></bean>'
    )
    path = put(tmp_path / "activemq.xml", f'<broker brokerName="${{my.name}}"/>{configurer}')
    assert "V024" in rules_of(capsys, path, "--release", "5.18.3")[str(path)]
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/mine.properties").write_text("my.name=n\napp.password=x\n")
    assert "V024" not in rules_of(capsys, path, "--release", "5.18.3").get(str(path), set())


@pytest.mark.parametrize("content", [b"", b'<?xml version="1.0"?>\n<beans'])
def test_a_damaged_activemq_xml_below_a_directory_is_an_error(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(tmp_path / "a/activemq.xml")
    damaged = tmp_path / "b/activemq.xml"
    damaged.parent.mkdir()
    damaged.write_bytes(content)

    rules_by_file = rules_of(capsys, tmp_path, "--release", "5.18.3", "--select", "V002,V040")

    assert rules_by_file.keys() == {str(damaged)}


def test_a_file_that_an_imported_file_imports_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = put(tmp_path / "activemq.xml", '<import resource="sub/a.xml"/>')
    (tmp_path / "sub").mkdir()
    beans = '<beans xmlns="http://www.springframework.org/schema/beans">'
    (tmp_path / "sub/a.xml").write_text(f'{beans}<import resource="b.xml"/></beans>')
    (tmp_path / "sub/b.xml").write_text(f"{beans}</beans>")

    rules_by_file = rules_of(capsys, file, "--release", "5.18.3", "--select", "V020")

    assert rules_by_file == {str(tmp_path / "sub" / name): {"V020"} for name in ("a.xml", "b.xml")}


def test_a_fifo_that_no_process_writes_into_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fifo = tmp_path / "activemq.xml"
    os.mkfifo(fifo)

    assert main(["check", "--file", str(fifo), "--release", "5.18.3"]) == 2

    assert "the file is a FIFO (named pipe) to which no process writes" in capsys.readouterr().err


@pytest.mark.parametrize("delay", [0.0, 0.3])
def test_a_pipe_from_another_process_is_read_to_its_end(delay: float) -> None:
    content = b"x" * 100_000
    read_end, write_end = os.pipe()

    def write() -> None:
        time.sleep(delay)
        with open(write_end, "wb") as pipe:
            pipe.write(content)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert read_beginning_of_file_or_pipe(Path(f"/dev/fd/{read_end}"), 1 << 20) == content
    finally:
        os.close(read_end)
        writer.join()


BEANS = '<beans xmlns="http://www.springframework.org/schema/beans">'


def test_file_that_another_checked_file_reads_needs_no_broker(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = put(tmp_path / "activemq.xml", '<import resource="part.xml"/>')
    others = [tmp_path / name for name in ("part.xml", "users.properties")]
    others[0].write_text(f"{BEANS}</beans>")
    others[1].write_text("admin=x\n")
    select = ("--release", "5.18.3", "--select", "V040,V041")

    assert rules_of(capsys, file, *others, *select) == {}
    assert rules_of(capsys, others[0], *select) == {str(others[0]): {"V041"}}
    assert rules_of(capsys, others[1], *select) == {str(others[1]): {"V040"}}


def test_context_of_clients_below_a_directory_needs_no_broker(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clients = tmp_path / "clients.xml"
    clients.write_text(f'{BEANS}<connectionFactory xmlns="http://activemq.apache.org/schema/core"/></beans>')
    select = ("--release", "5.18.3", "--select", "V041")

    assert rules_of(capsys, tmp_path, *select) == {}
    assert rules_of(capsys, clients, *select) == {str(clients): {"V041"}}


def test_artemis_below_a_directory_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(tmp_path / "classic/activemq.xml")
    bootstrap = tmp_path / "artemis/etc/bootstrap.xml"
    bootstrap.parent.mkdir(parents=True)
    bootstrap.write_text('<broker xmlns="http://activemq.apache.org/schema"/>')

    rules_by_file = rules_of(capsys, tmp_path, "--release", "5.18.3", "--select", "V040,V041")

    assert rules_by_file == {str(bootstrap): {"V040"}}


def test_duplex_both_ends_of_two_files_below_a_directory_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for host, peer in (("north", "south"), ("south", "north")):
        uri = f"static:(tcp://{peer}.example.com:61616)"
        put(tmp_path / host / "conf" / "activemq.xml", f'<networkConnector name="{host}" duplex="true" uri="{uri}"/>')
    rules_by_file = rules_of(capsys, "--file", tmp_path, "--release", "5.18.3", "--select", "N010")
    assert rules_by_file == {str(tmp_path / "south" / "conf" / "activemq.xml"): {"N010"}}


def test_file_of_another_kind_needs_no_release(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    artemis = tmp_path / "broker.xml"
    artemis.write_text('<configuration xmlns="urn:activemq"/>')

    assert rules_of(capsys, artemis) == {str(artemis): {"V040"}}


def test_an_activemq_xml_below_a_directory_that_cannot_be_read_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(tmp_path / "sound/activemq.xml")
    for name in ("fifo", "link"):
        (tmp_path / name).mkdir()
    os.mkfifo(tmp_path / "fifo/activemq.xml")
    (tmp_path / "link/activemq.xml").symlink_to(tmp_path / "absent")

    rules_by_file = rules_of(capsys, tmp_path, "--release", "5.18.3", "--select", "V002")

    assert rules_by_file == {str(tmp_path / name / "activemq.xml"): {"T000"} for name in ("fifo", "link")}
