"""Inventories of ``init``, which check accepts for names of every kind and which contain no secrets."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from activemq_fleet import check_fleet, load_fleet, render_fleet
from activemq_fleet.cli.main import main

NAMES = {
    "default": ["orders-mq01-a.example.com", "orders-mq01-b.example.com", "orders-mq02-a", "orders-mq02-b"],
    "parity": ["ffm1amq001", "ffm1amq002", "ffm1amq003", "ffm1amq004"],
    "words": ["orders-primary.example.com", "orders-secondary.example.com"],
    "single": ["broker1.example.com"],
    "localhost": ["localhost"],
    "addresses": ["10.0.0.1", "10.0.0.2", "10.0.0.3"],
    "explicit pairs": ["alpha.example.com,beta.example.com", "gamma,delta"],
    "pair of addresses": ["10.0.0.1,10.0.0.2"],
    "pair and single": ["orders-mq01-a", "orders-mq01-b", "archive.example.com"],
    "parity and address": ["broker1", "broker2", "db7.x.example.com", "10.0.0.1"],
    "parity and explicit pair": ["broker1", "broker2", "left,right"],
    "node without peer": ["orders-mq01-a", "orders-mq02-b"],
    "capitals": ["MQ-Alpha"],
    "same first label": ["mq.berlin.example.com", "mq.hamburg.example.com"],
    "pairs with same first labels": [
        "a.north.example.com,b.north.example.com",
        "a.south.example.com,b.south.example.com",
    ],
}
RULES_ABOUT_RELEASES = {"S002", "S020", "V024"}


def create_inventory(tmp_path: Path, *words: str, release: str = "6.3.1") -> Path:
    directory = tmp_path / "inventory"
    assert main(["init", *words, "--release", release, "-o", str(directory)]) == 0
    return directory


def assert_is_accepted(directory: Path, hosts: int, families: str = "CLMNPRSTV") -> None:
    fleet = load_fleet(directory)
    findings = check_fleet(fleet, schema_of=None)
    assert len(fleet.brokers) == hosts
    assert fleet.warnings == ()
    problems = [f for f in findings if f.severity != "info" and f.rule not in RULES_ABOUT_RELEASES]
    assert [f.to_line() for f in problems if f.rule[0] in families] == []


@pytest.mark.parametrize("names", NAMES.values(), ids=NAMES)
def test_check_accepts_inventory_of_init(names: list[str], tmp_path: Path) -> None:
    directory = create_inventory(tmp_path, *names)
    assert_is_accepted(directory, sum(name.count(",") + 1 for name in names))


@pytest.mark.parametrize("release", ["5.5.1", "5.10.2", "5.18.3"])
def test_check_accepts_inventory_of_init_for_every_release_line(release: str, tmp_path: Path) -> None:
    """The rules of the other families report defects of the release: locks and leaks that were fixed later."""
    assert_is_accepted(create_inventory(tmp_path, *NAMES["default"], release=release), 4, families="MNPRT")


@pytest.mark.parametrize(
    "names", [NAMES["default"], NAMES["single"], NAMES["localhost"]], ids=["pairs", "single", "localhost"]
)
def test_accounts_in_inventory_of_init_have_no_full_access(names: list[str], tmp_path: Path) -> None:
    rules = {finding.rule for finding in check_fleet(load_fleet(create_inventory(tmp_path, *names)), schema_of=None)}
    assert rules <= {*RULES_ABOUT_RELEASES, "S016"}


def test_check_accepts_inventory_of_init_with_tls_and_archive(tmp_path: Path) -> None:
    archive = tmp_path / "apache-activemq-6.3.1-bin.tar.gz"
    archive.write_bytes(b"x")
    directory = create_inventory(tmp_path, *NAMES["default"], "--tls", "--archive", str(archive))
    assert_is_accepted(directory, 4)
    settings = load_fleet(directory).brokers[0].settings
    assert settings.tls is not None
    assert settings.archive_sha512 == hashlib.sha512(b"x").hexdigest()


def test_init_derives_pairs_from_host_names_and_commas(tmp_path: Path) -> None:
    directory = create_inventory(tmp_path, "broker1", "broker2", "left,right", "10.0.0.1")
    pairs: dict[str, list[str]] = {}
    for broker in load_fleet(directory).brokers:
        pairs.setdefault(broker.pair, []).append(broker.host)
    assert sorted(pairs.values()) == [["10.0.0.1"], ["broker1", "broker2"], ["left", "right"]]


def test_init_of_readme_derives_pair_from_names(tmp_path: Path) -> None:
    """The command of the README yields a pair with the common part of the names as its name."""
    readme = (Path(__file__).resolve().parents[2] / "README.md").read_text("utf-8")
    command = re.search(r"`activemq-fleet init (?P<names>[^`]+) --release X`", readme)
    assert command is not None
    assert list(load_fleet(create_inventory(tmp_path, *command["names"].split())).pairs_by_name) == ["tickets"]


def test_commented_lines_of_init_set_archive_that_site_installs(tmp_path: Path) -> None:
    """The README names these edits: 2 comment marks and the line ``activemq_install``."""
    group_vars = (create_inventory(tmp_path, "a-mq01-a", "a-mq01-b") / "group_vars/all.yml").read_text()
    lines = [line.removeprefix("# ") if line.startswith("# activemq_") else line for line in group_vars.splitlines()]
    variables = yaml.safe_load("\n".join(line for line in lines if line != "activemq_install: none"))
    assert variables["activemq_archive"] == "/srv/software/apache-activemq-6.3.1-bin.tar.gz"
    assert variables["activemq_archive_sha512"] == "CHECKSUM"
    assert "activemq_install" not in variables


def test_init_sets_safe_values_of_variables_explicitly(tmp_path: Path) -> None:
    variables = yaml.safe_load((create_inventory(tmp_path, *NAMES["default"]) / "group_vars/all.yml").read_text())
    assert variables["activemq_fence"] == "guard"
    assert (variables["activemq_uid"], variables["activemq_gid"]) == (990, 990)
    assert variables["activemq_watchdog"] == "kill"
    assert variables["activemq_console_bind"] == "127.0.0.1"
    assert {"activemq_heap", "activemq_store_limit", "activemq_temp_limit"} <= variables.keys()


def test_broker_on_localhost_listens_on_loopback_only(tmp_path: Path) -> None:
    (broker,) = load_fleet(create_inventory(tmp_path, "localhost")).brokers
    assert broker.settings.bind == "127.0.0.1"
    assert broker.settings.ha == "none"


def test_no_file_of_init_contains_password(tmp_path: Path) -> None:
    directory = create_inventory(tmp_path, *NAMES["default"], "--tls")
    group_vars = (directory / "group_vars/all.yml").read_text()
    for value in re.findall(r"password: (.*)", group_vars):
        assert value.startswith('"{{ lookup(')
    assert not (directory / ".secrets").exists()
    assert (directory / ".gitignore").read_text() == ".secrets/\n"
    assert "ansible-vault encrypt_string" in group_vars
    assert "ansible.builtin.env" in group_vars


def test_files_of_init_are_valid_against_schemas_that_they_name(tmp_path: Path) -> None:
    directory = create_inventory(tmp_path, *NAMES["parity and address"], "--tls")
    for name in ("hosts.yml", "group_vars/all.yml"):
        path = directory / name
        (schema,) = re.findall(r"^# yaml-language-server: \$schema=(.*)$", path.read_text(), re.MULTILINE)
        validator = Draft202012Validator(json.loads((path.parent / schema).read_text()))
        assert [problem.message for problem in validator.iter_errors(yaml.safe_load(path.read_text()))] == []


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["a_b"], "host argument 'a_b': the host name 'a_b' contains an underscore"),
        (["a", "a"], "the arguments list the host a twice"),
        (["a,b,c"], "a,b,c: the argument names 3 hosts, but a pair has two nodes"),
        (["a,"], "the host name is empty"),
        (["a b"], "the host name 'a b' is not valid: between dots"),
        (["all,b"], "host argument 'all': every Ansible inventory has a group of this name"),
        (["ungrouped"], "host argument 'ungrouped': every Ansible inventory has a group of this name"),
        (["fd00::1"], "fd00::1: the host name is an IPv6 address, whose colons are not valid in a broker name"),
    ],
)
def test_init_with_invalid_host_is_error_and_writes_nothing(
    words: list[str], reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", *words, "--release", "6.3.1", "-o", str(tmp_path / "inventory")]) == 2
    assert reason in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_init_with_unknown_release_is_error_and_writes_nothing(tmp_path: Path) -> None:
    assert main(["init", "a", "--release", "7.0", "-o", str(tmp_path / "inventory")]) == 2
    assert list(tmp_path.iterdir()) == []


def test_error_of_init_about_release_above_known_lines_suggests_release(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", "a", "--release", "5.81.3", "-o", str(tmp_path / "inventory")]) == 2
    assert "ActiveMQ has no release line 5.81: did you mean 5.18.3?" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_newer_release_is_warning_of_init(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    create_inventory(tmp_path, "a", release="5.18.33")
    assert "warning: release 5.18.33 is newer than 5.18.7" in capsys.readouterr().err


def test_service_unit_uses_home_directory_of_inventory(tmp_path: Path) -> None:
    directory = create_inventory(tmp_path, "orders-mq01-a", release="5.18.3")
    group_vars = (directory / "group_vars/all.yml").read_text()
    home = yaml.load(group_vars, Loader=yaml.BaseLoader)["activemq_home"]  # noqa: S506 -- reads text only
    files = render_fleet(load_fleet(directory))
    unit = next(files[path].decode() for path in files if path.endswith("/activemq.service"))
    assert f"{home}/bin/activemq" in unit
    assert not set(re.findall(r"/opt/[a-z0-9.-]+", group_vars)) - {home}


@pytest.mark.parametrize(
    ("names", "lines"),
    [
        (["a.x", "b.x"], ["a.x: a single broker", "b.x: a single broker"]),
        (["mq1", "mq2", "mq3"], ["mq1-2: a pair of group mq, mq1 (preferred master) and mq2", "mq3: a single broker"]),
        (["b.x,a.x"], ["b-a: a pair of group brokers, b.x (preferred master) and a.x"]),
    ],
)
def test_init_prints_pairs_and_brokers_of_names(
    names: list[str], lines: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    create_inventory(tmp_path, *names)
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == len(lines) + 2
    for line, expected in zip(printed, lines, strict=False):
        assert line.startswith(expected)
    assert printed[-2].startswith("To change the pair or node of a host above, set its activemq_pair")


def test_init_does_not_change_directory_that_contains_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes").write_text("mine")
    assert main(["init", "a", "--release", "6.3.1", "-o", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert "is not empty (it contains notes), and init would replace it: set another directory with -o, or " in error
    assert "move or remove this path" in error
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]


@pytest.mark.parametrize(
    ("host", "release", "problem"),
    [("a", "4.1", "4.1"), ("not_a/host", "6.3.1", "not_a/host")],
)
def test_init_reports_occupied_directory_together_with_other_errors(
    host: str, release: str, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes").write_text("mine")
    assert main(["init", host, "--release", release, "-o", str(tmp_path)]) == 2
    directory_error, other_error = capsys.readouterr().err.splitlines()
    assert "is not empty (it contains notes)" in directory_error
    assert problem in other_error
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]


@pytest.mark.parametrize("release", ["5.18.3", "6.3.1"])
@pytest.mark.parametrize("names", [NAMES["default"], NAMES["single"]], ids=["pairs", "single"])
def test_console_account_of_init_is_comment_that_works_when_uncommented(
    names: list[str], release: str, tmp_path: Path
) -> None:
    directory = create_inventory(tmp_path, *names, release=release)
    path = directory / "group_vars/all.yml"
    group_vars = path.read_text()
    findings_before = {
        (finding.rule, finding.host, finding.message) for finding in check_fleet(load_fleet(directory), schema_of=None)
    }
    assert [user.name for user in load_fleet(directory).brokers[0].settings.users] == ["app"]
    assert b"admin" not in b"".join(console_account_lines(directory))

    group_vars = re.sub(r"(?m)^  # (- name: admin|  groups: \[admins\]|  password: )", r"  \1", group_vars)
    path.write_text(re.sub(r"(read|write|admin): apps", r"\1: [apps, admins]", group_vars))

    fleet = load_fleet(directory)
    assert [(user.name, user.groups) for user in fleet.brokers[0].settings.users][1:] == [("admin", ("admins",))]
    findings_after = {(finding.rule, finding.host, finding.message) for finding in check_fleet(fleet, schema_of=None)}
    assert findings_after <= findings_before  # The accounts shift the line numbers of activemq.xml.
    assert any(b"admin" in content for content in console_account_lines(directory))


def console_account_lines(directory: Path) -> list[bytes]:
    """Return the lines with accounts of the web console of all brokers, without comments."""
    files = render_fleet(load_fleet(directory))
    contents = [files[path] for path in files if path.endswith(("/jetty-realm.properties", "/conf/users.properties"))]
    assert contents
    return [line for content in contents for line in content.splitlines() if not line.startswith(b"#")]
