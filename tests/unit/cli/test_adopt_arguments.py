"""adopt: the hosts of its arguments, the files and options that it refuses, and the commands in its errors."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.cli.main import main
from activemq_fleet.inventory import load_fleet
from tests.unit.adopt_files import document, write_files
from tests.unit.adopt_runs import HANDWRITTEN, run_adopt

pytestmark = pytest.mark.usefixtures("schemas_unavailable")


def test_adopted_file_belongs_to_host_of_its_argument(handwritten_file: Path, tmp_path: Path) -> None:
    assert run_adopt(f"o-mq1-a={handwritten_file}", "--release", "5.18.3", "-o", tmp_path / "i") == 0


@pytest.mark.parametrize("path", ["o-mq1-a.example.com/etc/activemq.xml", "o-mq1-a/broker.xml", "x/o-mq1-a.xml"])
def test_adopted_file_belongs_to_host_in_its_path(path: str, tmp_path: Path) -> None:
    file = tmp_path / "files" / path
    file.parent.mkdir(parents=True)
    file.write_bytes(HANDWRITTEN)

    assert run_adopt(file, "--release", "5.18.3", "-o", tmp_path / "i") == 0
    assert [broker.pair for broker in load_fleet([str(tmp_path / "i")]).brokers] == ["o-mq1"]


def test_adopt_address_option_resolves_target_of_bridge(tmp_path: Path, capsys: Any) -> None:
    uri = "masterslave:(tcp://10.0.0.1:61616,tcp://10.0.0.2:61616)"
    bridge = f'<networkConnectors><networkConnector name="up" uri="{uri}"/></networkConnectors>'
    port = '<transportConnectors><transportConnector name="o" uri="tcp://0.0.0.0:61616"/></transportConnectors>'
    store = '<persistenceAdapter><kahaDB directory="/mnt/{}"/></persistenceAdapter>'
    files = {f"o-mq1-{node}": document(bridge + store.format(1) + port, brokerName="one") for node in "ab"}
    files |= {f"o-mq2-{node}": document(store.format(2) + port, brokerName="two") for node in "ab"}
    write_files(tmp_path / "files", files)
    addresses = ["--address", "o-mq2-a=10.0.0.1", "--address", "o-mq2-b=10.0.0.2"]

    assert run_adopt(tmp_path / "files", "--release", "5.18.3", "-o", tmp_path / "i", *addresses) == 0
    fleet = load_fleet([str(tmp_path / "i")])
    assert [(link.name, link.target) for link in fleet.broker("o-mq1-a").links] == [("up", "o-mq2")]
    assert "adopt keeps the XML of this bridge" not in capsys.readouterr().out


def test_line_break_in_adopted_file_name_does_not_leave_yaml_comment(tmp_path: Path) -> None:
    file = tmp_path / "o-mq1-a" / "x\n    evil:.xml"
    file.parent.mkdir()
    file.write_bytes(HANDWRITTEN)

    assert run_adopt(file, "--release", "5.18.3", "-o", tmp_path / "i") == 0
    assert [broker.host for broker in load_fleet([str(tmp_path / "i")]).brokers] == ["o-mq1-a"]


def test_adopt_release_option_applies_to_one_host_or_all_hosts(handwritten_file: Path, tmp_path: Path) -> None:
    files = [f"o-mq{number}-a={handwritten_file}" for number in (1, 2)]
    run_adopt(*files, "--release", "o-mq2-a=6.3.1", "--release", "5.18.3", "-o", tmp_path / "i")

    fleet = load_fleet([str(tmp_path / "i")])
    assert [broker.release.text for broker in fleet.brokers] == ["5.18.3", "6.3.1"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"<a>", "broker.xml:1:4: the file is not XML"),
        (b"", "the file is an empty file"),
        (HANDWRITTEN.decode().encode("utf-32"), "broker.xml:1:1: Java cannot read the file: it is written in UTF-32"),
        (b'<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>', "the file has a DOCTYPE"),
        (
            b"<beans/>",
            "<beans> has no namespace: set its attribute xmlns to http://www.springframework.org/schema/beans",
        ),
        (b'<beans xmlns="http://www.springframework.org/schema/beans"/>', "has no <broker>"),
        (
            HANDWRITTEN.replace(b"</beans>", b'<broker xmlns="http://activemq.apache.org/schema/core"/></beans>'),
            "2 <broker>",
        ),
        (HANDWRITTEN.replace(b'"hand"', '"\ue000"'.encode()), "U+E000"),
    ],
)
def test_adopt_refuses_file_that_is_no_activemq_xml(
    content: bytes, expected: str, handwritten_file: Path, tmp_path: Path, capsys: Any
) -> None:
    handwritten_file.write_bytes(content)

    assert run_adopt(f"o-mq1-a={handwritten_file}", "--release", "5.18.3", "-o", tmp_path / "i") == 2
    error = capsys.readouterr().err
    assert expected in error
    assert error.count("activemq-fleet: error: ") == 1
    assert all(line.startswith(("If the brokers are", "  activemq-fleet adopt")) for line in error.splitlines()[1:])
    assert not (tmp_path / "i").exists()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["{hand}", "--release", "5.18.3"], "because no part of its path matches the naming pattern"),
        (["o-mq1-a={hand}"], "--release o-mq1-a=RELEASE for this one"),
        (["o-mq1-a={hand}", "--release", "9.9.9"], "is not known"),
        (
            ["o-mq1-a={hand}", "--release", "o-mq2-a=5.5.1"],
            "o-mq2-a, but no file of this host was given",
        ),
        (["shop={hand}", "--release", "5.18.3"], "the host name shop does not match"),
        (["o-mq1-a={hand}", "o-mq1-a={other}", "--release", "5.18.3"], "was also given for host o-mq1-a"),
        (["web1={hand}", "web1={other}", "--release", "5.18.3"], "was also given for host web1"),
        (["o-mq1-a={hand}", "o-mq1-a.x={hand}", "--release", "5.18.3"], "are both node a of pair o-mq1"),
        (["o-mq1-a={hand}", "O-mq1-a={hand}", "--release", "5.18.3"], "would have the same inventory group"),
        (["o-mq1-a={empty}", "--release", "5.18.3"], "the directory contains no activemq.xml"),
        (["o-mq1-a=nosuch", "--release", "5.18.3"], "nosuch: there is no such file"),
        (["o-mq1-a=/dev/null", "--release", "5.18.3"], "is neither a file nor a directory"),
        (
            ["o-mq1-a={hand}", "--release", "5.18.3", "--address", "o-mq2-a=x"],
            "none of the given activemq.xml files belongs to the host 'o-mq2-a': use one of the hosts o-mq1-a",
        ),
        (
            ["o-mq1-a={hand}", "--release", "5.18.3", "--address", "10.0.0.1"],
            "the value of --address has no host: write HOST=ADDRESS, such as o-mq1-a=192.0.2.10",
        ),
        (["o-mq1-a={hand}", "--release", "5.18.3", "--address", "o-mq1-a=a_b"], "contains an underscore"),
        (["o mq={hand}", "--release", "5.18.3"], "is not a host name"),
        (["", "--release", "5.18.3"], "contains no path: write a file"),
        (["o-mq1-a=", "--release", "5.18.3"], "contains no path: write a file"),
        (["o-mq1-a={hand}", "--release", "5.18.3", "--naming-pattern", "("], "is not a valid regular expression"),
        ([], "Missing argument"),
    ],
)
def test_adopt_refuses_invalid_arguments(
    arguments: list[str], expected: str, handwritten_file: Path, tmp_path: Path, capsys: Any
) -> None:
    (tmp_path / "empty").mkdir()
    other_file = tmp_path / "other.xml"
    other_file.write_bytes(HANDWRITTEN)
    words = [word.format(hand=handwritten_file, other=other_file, empty=tmp_path / "empty") for word in arguments]

    assert run_adopt(*words, "-o", tmp_path / "i") == 2
    error = capsys.readouterr().err
    assert expected in error
    assert error.count("activemq-fleet: error: ") == 1
    assert all(line.startswith(("If the brokers are", "  activemq-fleet adopt")) for line in error.splitlines()[1:])
    assert not (tmp_path / "i").exists()


def test_adopt_refuses_foreign_output_directory_before_it_reads_files(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "hosts.yml").write_text("all: {}\n")

    assert run_adopt("nosuch", "-o", tmp_path / "foreign") == 2
    assert "contains hosts.yml" in capsys.readouterr().err


@pytest.mark.parametrize("node", [(), ("--node", "a")])
@pytest.mark.parametrize("hosts", [("broker1",), ("activemq-prod",), ("10.0.0.1",), ("alpha", "beta"), ("q1", "q2")])
def test_command_line_in_error_of_adopt_adopts_files(
    hosts: tuple[str, ...], node: tuple[str, ...], handwritten_file: Path, tmp_path: Path, capsys: Any
) -> None:
    files = []
    for host in hosts:
        files.append(tmp_path / f"{host}.xml")
        files[-1].write_bytes(HANDWRITTEN)
    arguments = [f"{host}={file}" for host, file in zip(hosts, files, strict=True)]
    assert run_adopt(*arguments, *node, "--release", "5.18.3", "-o", tmp_path / "inventory") == 2
    error = capsys.readouterr().err

    words = shlex.split(error.rpartition("\n  activemq-fleet ")[2])
    assert main(words) == 0

    fleet = load_fleet([str(tmp_path / "inventory")])
    assert [broker.host for broker in fleet.brokers] == list(hosts)


def test_adopt_error_for_paths_without_host_has_command_with_probable_hosts(tmp_path: Path, capsys: Any) -> None:
    for host in ("north", "south"):
        (tmp_path / "collected" / host / "conf").mkdir(parents=True)
        (tmp_path / "collected" / host / "conf/activemq.xml").write_bytes(HANDWRITTEN)
    assert run_adopt(tmp_path / "collected", "--release", "5.18.3", "-o", tmp_path / "inventory") == 2

    words = shlex.split(capsys.readouterr().err.rpartition("\n  activemq-fleet ")[2])
    assert main(words) == 0
    fleet = load_fleet([str(tmp_path / "inventory")])
    assert [broker.host for broker in fleet.brokers] == ["north", "south"]


def test_command_line_in_error_of_adopt_repeats_each_option(
    handwritten_file: Path, tmp_path: Path, capsys: Any
) -> None:
    values = tmp_path / "some values"
    values.write_text("NAME=value\n")
    options = ["--release", "broker1=5.18.3", "--address", "broker1=10.0.0.1", "--shared-store", "p"]
    options += ["--properties", str(values), "--format", "json"]
    assert (
        run_adopt(f"broker1={handwritten_file}", *options, "--no-color", "--node", "z", "-o", tmp_path / "an inventory")
        == 2
    )

    words = shlex.split(capsys.readouterr().err.rpartition("\n  activemq-fleet ")[2])
    assert words[:2] == ["adopt", f"broker1={handwritten_file}"]
    suggested_options = list(zip(words[2::2], words[3::2], strict=True))
    for option, value in zip(options[::2], options[1::2], strict=True):
        assert (option, value) in suggested_options
    assert ("-o", str(tmp_path / "an inventory")) in suggested_options
    assert [value for option, value in suggested_options if option == "--node"] == ["a"]


def test_command_line_in_error_of_adopt_has_placeholder_for_release(
    handwritten_file: Path, tmp_path: Path, capsys: Any
) -> None:
    assert run_adopt(f"broker1={handwritten_file}", "-o", tmp_path / "i") == 2

    assert capsys.readouterr().err.rstrip().endswith(f"--release RELEASE -o {tmp_path / 'i'}")
