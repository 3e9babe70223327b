"""``check`` of directories whose files belong to different releases."""

from __future__ import annotations

import io
import json
import os
import threading
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.cli import warnings_and_schemas as shared
from activemq_fleet.cli.main import main
from activemq_fleet.errors import SchemaUnavailableError
from activemq_fleet.given_files import read_beginning_of_file_or_pipe
from activemq_fleet.releases import Release
from activemq_fleet.schema import SchemaProblem
from tests.rule_examples import complete

AMQP = '<transportConnector name="amqp" uri="amqp://0.0.0.0:5672"/>'


class AcceptingSchema:
    def __init__(self, release: Release) -> None:
        self.release = release

    def find_problems(self, document: bytes) -> tuple[SchemaProblem, ...]:
        return ()


@pytest.fixture(autouse=True)
def provide_schemas_of_5_18_and_5_5(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = {"5.18", "5.5"}

    def load(release: Release, **_: object) -> AcceptingSchema:
        if release.line not in lines:
            raise SchemaUnavailableError(f"the schema of {release} is not available")
        return AcceptingSchema(release)

    monkeypatch.setattr(shared, "load_schema", load)


def write_broker_file(path: Path, snippet: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(complete(snippet, Release.of("5.18.3")))
    return path


def rules_of(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, set[str]]:
    """Return the rules that ``check`` reports for each file."""
    main(["check", *map(str, arguments), "--format", "json"])
    rules_by_file: dict[str, set[str]] = {}
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    for finding in report["findings"]:
        rules_by_file.setdefault(finding["file"], set()).add(finding["rule"])
    return rules_by_file


def test_release_of_file_is_read_from_neighboring_jars(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file_of_5_5, file_of_5_18 = (
        write_broker_file(tmp_path / "old/conf/activemq.xml", AMQP),
        write_broker_file(tmp_path / "new/conf/activemq.xml", AMQP),
    )
    for home, jar in (("old", "activemq-core-5.5.1.jar"), ("new", "activemq-broker-5.18.3.jar")):
        (tmp_path / home / "lib").mkdir()
        (tmp_path / home / "lib" / jar).touch()
    rules_by_file = rules_of(capsys, "--file", tmp_path)
    assert "V009" in rules_by_file[str(file_of_5_5)]
    assert "V009" not in rules_by_file[str(file_of_5_18)]


@pytest.mark.parametrize(
    ("position", "damage"), [(0, b"\0"), (6, b"\xff"), (46, b"\xff")], ids=["signature", "version", "name"]
)
def test_damaged_jar_of_unknown_transport_does_not_end_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], position: int, damage: bytes
) -> None:
    path = write_broker_file(tmp_path / "conf/activemq.xml", AMQP.replace("amqp:", "foreign:"))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as jar:
        jar.writestr("ä", "")
    content = buffer.getvalue()
    damaged_byte = content.index(b"PK\x01\x02") + position  # in the list of entries at the end of a jar
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/foreign.jar").write_bytes(content[:damaged_byte] + damage + content[damaged_byte + 1 :])

    assert str(path) in rules_of(capsys, tmp_path, "--release", "5.18.3")


def test_release_of_file_is_read_from_directory_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_broker_file(tmp_path / "apache-activemq-5.5.1/conf/activemq.xml", AMQP)
    assert "V009" in rules_of(capsys, tmp_path)[str(path)]


def test_option_release_from_maps_file_patterns_to_releases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file_of_5_5, file_of_5_18 = (
        write_broker_file(tmp_path / "old/activemq.xml", AMQP),
        write_broker_file(tmp_path / "new/activemq.xml", AMQP),
    )
    releases_file = tmp_path / "releases.txt"
    releases_file.write_text("# site by site\nold/*.xml 5.5.1\n")
    rules_by_file = rules_of(capsys, tmp_path, "--release-from", releases_file, "--release", "5.18.3")
    assert "V009" in rules_by_file[str(file_of_5_5)]
    assert "V009" not in rules_by_file[str(file_of_5_18)]


def test_error_names_invalid_line_of_release_from_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    releases_file = tmp_path / "releases.txt"
    releases_file.write_text("old/*.xml\n")
    assert main(["check", str(write_broker_file(tmp_path / "a.xml")), "--release-from", str(releases_file)]) == 2
    assert (
        "releases.txt, line 1: the line does not have two words: write a file name pattern" in capsys.readouterr().err
    )


def test_error_names_checked_file_of_unknown_release(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_broker_file(tmp_path / "a/activemq.xml")
    assert main(["check", "--file", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert "a/activemq.xml" in error
    assert "--release-from" in error


def test_jars_of_two_releases_do_not_set_release(tmp_path: Path) -> None:
    path = write_broker_file(tmp_path / "activemq.xml")
    for release in ("5.5.1", "5.18.3"):
        (tmp_path / f"activemq-all-{release}.jar").touch()
    assert main(["check", str(path)]) == 2


def write_rendered_file(path: Path, release: str) -> Path:
    """Write an activemq.xml with AMQP and the header of a rendered file."""
    header = (
        f"<!-- orders-mq01-a: node a (preferred master) of pair orders-mq01, release {release}\n"
        "     Made by activemq.fleet from the inventory: change it there, this file is replaced. -->\n<beans"
    )
    path.write_text(write_broker_file(path, AMQP).read_text().replace("<beans", header, 1))
    return path


def test_rendered_files_are_checked_for_release_of_their_header(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file_of_5_5, file_of_5_18 = (
        write_rendered_file(tmp_path / "old.xml", "5.5.1"),
        write_rendered_file(tmp_path / "new.xml", "5.18.3"),
    )

    assert "V009" in rules_of(capsys, file_of_5_5)[str(file_of_5_5)]
    assert "V009" not in rules_of(capsys, file_of_5_18)[str(file_of_5_18)]


def test_release_option_overrides_header_with_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_rendered_file(tmp_path / "activemq.xml", "5.5.1")

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
def test_release_from_file_or_jars_overrides_header_of_rendered_file_with_warning(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    source: str,
) -> None:
    path = write_rendered_file(tmp_path / "apache-activemq-5.18.3/conf/activemq.xml", "5.5.1")
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
    main(["check", str(write_rendered_file(tmp_path / "activemq.xml", "5.18.3")), "--release", "5.18.3"])

    assert "header" not in capsys.readouterr().err


def test_error_of_unknown_release_in_header_names_rendered_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_rendered_file(tmp_path / "activemq.xml", "9.9")

    assert main(["check", str(path)]) == 2

    error = capsys.readouterr().err
    assert f"{path}: the comment at the beginning of the file names an unknown release" in error
    assert "--release" in error


def test_directory_check_skips_hidden_directories_and_files_without_broker(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_broker_file(tmp_path / "a/activemq.xml")
    write_broker_file(tmp_path / ".git/activemq.xml")
    (tmp_path / "pom.xml").write_text("<project/>")
    (tmp_path / "activemq.xml.j2").write_text('<broker brokerName="{{ x }}"/>')
    main(["check", str(tmp_path), "--release", "5.18.3"])
    out = capsys.readouterr().out
    assert out.splitlines()[-1].startswith("2 files: 0 errors")
    assert "V022" in out


def test_directory_without_broker_is_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(tmp_path), "--release", "5.18.3"]) == 2
    assert "the directory has no activemq.xml, and no other file with a <broker>" in capsys.readouterr().err


def test_check_for_release_without_available_schema_is_error(tmp_path: Path) -> None:
    assert main(["check", str(write_broker_file(tmp_path / "activemq.xml")), "--release", "5.16.7"]) == 2


def test_group_errors_that_stop_broker_selects_only_those_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_broker_file(tmp_path / "activemq.xml", AMQP.replace("amqp", "tpc"))
    selection = ("--select", "errors-that-stop-a-broker")
    assert rules_of(capsys, path, "--release", "5.18.3", *selection) == {str(path): {"V009"}}
    # S001 does not stop a broker.
    assert main(["check", str(write_broker_file(tmp_path / "good.xml")), "--release", "5.18.2", *selection]) == 0


def test_directory_above_size_limit_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_broker_file(tmp_path / "activemq.xml")
    with path.open("ab") as file:
        file.truncate(300 << 20)  # a sparse file: it uses no disk space
    assert main(["check", str(tmp_path), "--release", "5.18.3"]) == 2
    assert "has more than 256 MiB of files with a <broker>" in capsys.readouterr().err


def test_unreadable_companion_is_single_finding_and_other_files_are_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file_with_companion, other_file = (
        write_broker_file(tmp_path / "a/activemq.xml", AMQP),
        write_broker_file(tmp_path / "b/activemq.xml", AMQP),
    )
    companion = file_with_companion.with_name("users.properties")
    companion.write_bytes(b"#" * ((16 << 20) + 1))
    baseline = tmp_path / "baseline"
    arguments = ["check", "--file", str(tmp_path), "--release", "5.5.1"]
    for baseline_options in ([], ["--write-baseline", str(baseline)], ["--baseline", str(baseline)]):
        assert main([*arguments, *baseline_options]) == 2
        assert capsys.readouterr().out.count("is larger than 16 MiB") == 1
    rules_by_file = rules_of(capsys, "--file", tmp_path, "--release", "5.5.1")
    assert rules_by_file[str(companion)] == {"T000"}
    assert "V009" in rules_by_file[str(file_with_companion)] & rules_by_file[str(other_file)]


def test_unreadable_file_is_single_finding_and_other_files_are_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    readable_file, unreadable_file = write_broker_file(tmp_path / "a.xml", AMQP), write_broker_file(tmp_path / "b.xml")
    with unreadable_file.open("ab") as file:
        file.truncate((16 << 20) + 1)
    assert main(["check", "--file", str(tmp_path), "--release", "5.5.1"]) == 2
    assert capsys.readouterr().out.count("is larger than 16 MiB") == 1
    rules_by_file = rules_of(capsys, "--file", tmp_path, "--release", "5.5.1")
    assert rules_by_file[str(unreadable_file)] == {"T000"}
    assert "V009" in rules_by_file[str(readable_file)]


def test_check_reads_properties_file_of_spring_configurer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configurer = (
        '<bean class="org.springframework.beans.factory.config.PropertyPlaceholderConfigurer">'
        '<property name="location" value="file:${activemq.conf}/sub/mine.properties"/></bean>'
    )
    path = write_broker_file(tmp_path / "activemq.xml", f'<broker brokerName="${{my.name}}"/>{configurer}')
    assert "V024" in rules_of(capsys, path, "--release", "5.18.3")[str(path)]
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/mine.properties").write_text("my.name=n\napp.password=x\n")
    assert "V024" not in rules_of(capsys, path, "--release", "5.18.3").get(str(path), set())


@pytest.mark.parametrize("content", [b"", b'<?xml version="1.0"?>\n<beans'])
def test_damaged_activemq_xml_below_directory_is_error(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_broker_file(tmp_path / "a/activemq.xml")
    damaged = tmp_path / "b/activemq.xml"
    damaged.parent.mkdir()
    damaged.write_bytes(content)

    rules_by_file = rules_of(capsys, tmp_path, "--release", "5.18.3", "--select", "V002,V040")

    assert rules_by_file.keys() == {str(damaged)}


def test_import_of_imported_file_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write_broker_file(tmp_path / "activemq.xml", '<import resource="sub/a.xml"/>')
    (tmp_path / "sub").mkdir()
    beans = '<beans xmlns="http://www.springframework.org/schema/beans">'
    (tmp_path / "sub/a.xml").write_text(f'{beans}<import resource="b.xml"/></beans>')
    (tmp_path / "sub/b.xml").write_text(f"{beans}</beans>")

    rules_by_file = rules_of(capsys, file, "--release", "5.18.3", "--select", "V020")

    assert rules_by_file == {str(tmp_path / "sub" / name): {"V020"} for name in ("a.xml", "b.xml")}


def test_check_of_fifo_without_writer_is_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fifo = tmp_path / "activemq.xml"
    os.mkfifo(fifo)

    assert main(["check", "--file", str(fifo), "--release", "5.18.3"]) == 2

    assert "the file is a FIFO (named pipe) to which no process writes" in capsys.readouterr().err


@pytest.mark.parametrize("delay", [0.0, 0.3])
def test_check_reads_pipe_until_writer_closes_it(delay: float) -> None:
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


def test_file_used_by_another_checked_file_requires_no_broker_element(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_broker_file(tmp_path / "activemq.xml", '<import resource="part.xml"/>')
    other_files = [tmp_path / name for name in ("part.xml", "users.properties")]
    other_files[0].write_text(f"{BEANS}</beans>")
    other_files[1].write_text("admin=x\n")
    select = ("--release", "5.18.3", "--select", "V040,V041")

    assert rules_of(capsys, file, *other_files, *select) == {}
    assert rules_of(capsys, other_files[0], *select) == {str(other_files[0]): {"V041"}}
    assert rules_of(capsys, other_files[1], *select) == {str(other_files[1]): {"V040"}}


def test_spring_context_of_clients_in_directory_requires_no_broker_element(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clients = tmp_path / "clients.xml"
    clients.write_text(f'{BEANS}<connectionFactory xmlns="http://activemq.apache.org/schema/core"/></beans>')
    select = ("--release", "5.18.3", "--select", "V041")

    assert rules_of(capsys, tmp_path, *select) == {}
    assert rules_of(capsys, clients, *select) == {str(clients): {"V041"}}


def test_artemis_file_below_directory_is_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_broker_file(tmp_path / "classic/activemq.xml")
    bootstrap = tmp_path / "artemis/etc/bootstrap.xml"
    bootstrap.parent.mkdir(parents=True)
    bootstrap.write_text('<broker xmlns="http://activemq.apache.org/schema"/>')

    rules_by_file = rules_of(capsys, tmp_path, "--release", "5.18.3", "--select", "V040,V041")

    assert rules_by_file == {str(bootstrap): {"V040"}}


def test_duplex_links_in_both_directions_below_directory_are_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for host, peer in (("north", "south"), ("south", "north")):
        uri = f"static:(tcp://{peer}.example.com:61616)"
        write_broker_file(
            tmp_path / host / "conf" / "activemq.xml", f'<networkConnector name="{host}" duplex="true" uri="{uri}"/>'
        )
    rules_by_file = rules_of(capsys, "--file", tmp_path, "--release", "5.18.3", "--select", "N010")
    assert rules_by_file == {str(tmp_path / "south" / "conf" / "activemq.xml"): {"N010"}}


def test_check_of_file_of_another_program_requires_no_release(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    artemis = tmp_path / "broker.xml"
    artemis.write_text('<configuration xmlns="urn:activemq"/>')

    assert rules_of(capsys, artemis) == {str(artemis): {"V040"}}


def test_unreadable_activemq_xml_below_directory_is_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_broker_file(tmp_path / "sound/activemq.xml")
    for name in ("fifo", "link"):
        (tmp_path / name).mkdir()
    os.mkfifo(tmp_path / "fifo/activemq.xml")
    (tmp_path / "link/activemq.xml").symlink_to(tmp_path / "absent")

    rules_by_file = rules_of(capsys, tmp_path, "--release", "5.18.3", "--select", "V002")

    assert rules_by_file == {str(tmp_path / name / "activemq.xml"): {"T000"} for name in ("fifo", "link")}
