"""Findings and errors name the file and line of the inventory that define the value."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from activemq_fleet.cli.main import main
from activemq_fleet.inventory import read_inventory
from activemq_fleet.inventory_positions import Position

HOSTS = """\
all:
  children:
    orders:
      hosts:
        orders-mq01-a.example.com:
        orders-mq01-b.example.com:
          activemq_store_directory: /srv/other
"""
VARIABLES = """\
---
activemq_release: 6.3.1

activemq_console: false
activemq_users:
  - {name: app, password: made-up}
"""
_PRINT_LINES_OF_HOSTS = """
import sys
from activemq_fleet.inventory import read_inventory
positions = read_inventory(sys.argv[1:], with_positions=True).positions
print(*(position[""].line for position in positions.values()))
"""
A, B = "orders-mq01-a.example.com", "orders-mq01-b.example.com"


@pytest.fixture
def inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an inventory whose pair has two store directories, below the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "inventory" / "group_vars").mkdir(parents=True)
    (tmp_path / "inventory" / "host_vars").mkdir()
    (tmp_path / "inventory" / "hosts.yml").write_text(HOSTS)
    (tmp_path / "inventory" / "group_vars" / "all.yml").write_text(VARIABLES)
    return tmp_path / "inventory"


def positions(inventory: Path, *extra_vars: str) -> dict[str, dict[str, Position]]:
    return read_inventory([str(inventory)], extra_vars=extra_vars, with_positions=True).positions


@pytest.mark.parametrize(
    ("variable", "line"), [("activemq_release", 2), ("activemq_console", 4), ("activemq_users", 5)]
)
def test_position_of_text_boolean_or_list_in_group_vars_is_its_line(inventory: Path, variable: str, line: int) -> None:
    assert positions(inventory)[A][variable] == Position(str(inventory / "group_vars" / "all.yml"), line)


def test_position_of_variable_is_in_host_vars_before_group_vars(inventory: Path) -> None:
    (inventory / "host_vars" / f"{A}.yml").write_text("\n\nactemq_x: 1\nactivemq_release: 5.18.3\n")

    assert positions(inventory)[A]["activemq_release"] == Position(str(inventory / "host_vars" / f"{A}.yml"), 4)
    assert positions(inventory)[B]["activemq_release"].line == 2


@pytest.mark.parametrize("directory", ["group_vars/all.yml", "host_vars/orders-mq01-a.example.com.yml"])
@pytest.mark.parametrize(
    ("first", "last"),
    [
        ("activemq_heap: 1G", "activemq_heap: lots"),
        ("activemq_watchdog_limit: 3", "'activemq_watchdog_limit' : 4"),
        ("activemq_jolokia: true", "activemq_jolokia: false"),
        ("activemq_jolokia: true", "activemq_jolokia:"),
        ("activemq_acl: []", "activemq_acl:\n  # all\n\n  - {destination: '>'}"),
        ("activemq_kahadb: {a: 1}", "activemq_kahadb:\n  directory: /mnt"),
        ("activemq_heap: 1G", "activemq_heap:\n  lots"),
        ("activemq_heap: |\n  1G", "activemq_heap: |-\n  lots"),
    ],
)
@pytest.mark.parametrize("between", ["", "other:\n  activemq_jolokia: true\n\n# text\n"])
def test_variable_that_is_defined_twice_has_line_of_last_definition(
    inventory: Path, directory: str, first: str, last: str, between: str
) -> None:
    lines_before = f"{first}\n{between}"
    (inventory / directory).write_text(f"{lines_before}{last}\nmore: 1\n")
    name = first.partition(":")[0]

    position = positions(inventory)[A][name]

    assert (position.file, position.line) == (str(inventory / directory), lines_before.count("\n") + 1)


@pytest.mark.parametrize("value", ["1G", "true", "[1]"])
def test_variable_of_ini_file_has_line_of_last_definition(inventory: Path, value: str) -> None:
    path = inventory / "hosts.ini"
    path.write_text(f"[brokers]\n{A}\n[brokers:vars]\nactivemq_x=1\nactivemq_x={value}\n")

    position = read_inventory([str(path)], with_positions=True).positions[A]["activemq_x"]

    assert position.line == 5


def test_definition_of_host_in_same_file_outranks_that_of_its_group(inventory: Path) -> None:
    (inventory / "hosts.yml").write_text(
        f"all:\n  vars:\n    activemq_heap: 1G\n    activemq_acl: []\n  hosts:\n    {A}:\n"
        f"      activemq_heap: 2G\n      activemq_acl:\n        - a\n    {B}:\n"
    )

    positions_by_host = positions(inventory)

    assert [positions_by_host[A][name].line for name in ("activemq_heap", "activemq_acl")] == [7, 8]
    assert [positions_by_host[B][name].line for name in ("activemq_heap", "activemq_acl")] == [3, 4]


def test_error_about_variable_names_line_of_last_definition(
    inventory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = inventory / "group_vars" / "all.yml"
    path.write_text(f"{VARIABLES}activemq_heap: 1G\nother: 1\nactivemq_heap: lots\n")

    assert main(["check", "-i", "inventory"]) == 2

    printed = " ".join("".join(capsys.readouterr()).split())
    assert f"the value 'lots' must be a size such as 512m or 4g ({path}:9)" in printed


def test_variable_of_command_line_has_no_position(inventory: Path) -> None:
    assert "activemq_heap" not in positions(inventory, "activemq_heap=1g")[A]


@pytest.mark.parametrize(
    ("extra", "variable"),
    [("activemq_release=5.18.3", "activemq_release"), ('{"activemq_console": true}', "activemq_console")],
)
def test_extra_variable_has_no_position_of_outranked_definition(extra: str, variable: str, inventory: Path) -> None:
    assert variable in positions(inventory)[A]
    assert variable not in positions(inventory, extra)[A]


def test_extra_variable_of_file_has_position_in_it(inventory: Path) -> None:
    extra = inventory.parent / "extra.yml"
    extra.write_text("---\nactivemq_console: true\nactivemq_heap: 1g\n")
    extra_positions = positions(inventory, f"@{extra}")[A]
    assert extra_positions["activemq_console"] == Position(str(extra), 2)
    assert extra_positions["activemq_heap"] == Position(str(extra), 3)


@pytest.mark.parametrize(
    ("report_format", "pattern"), [("github", "file={}"), ("sarif", '"uri": "{}"'), ("codeclimate", '"path": "{}"')]
)
def test_path_of_annotation_in_repository_is_relative_to_its_root(
    report_format: str,
    pattern: str,
    inventory: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (inventory.parent / ".git").mkdir()
    monkeypatch.chdir(inventory)

    main(["check", "-i", ".", "--format", report_format])

    assert pattern.format("inventory/hosts.yml") in capsys.readouterr().out


def test_position_of_host_is_line_of_its_name(inventory: Path) -> None:
    assert positions(inventory)[B][""] == Position(str(inventory / "hosts.yml"), 6)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "ranges.ini",
            "# brokers\n[brokers:vars]\nactivemq_release=5.18.3\n[brokers]\norders-mq[01:02]-[a:b].test x=1\n",
        ),
        ("ranges.yml", "---\nbrokers:\n  hosts:\n    # brokers\n    orders-mq[1:3:2]-a:\n"),
    ],
)
def test_position_of_host_in_range_is_line_of_range(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    positions = read_inventory([str(tmp_path / name)], with_positions=True).positions
    assert len(positions) > 1
    assert {position[""].line for position in positions.values()} == {5}


def _limit_memory_and_processor_time() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
    resource.setrlimit(resource.RLIMIT_CPU, (60, 60))


@pytest.mark.parametrize(
    "comment",
    [
        "# ids[0:999999999]",
        "# ids[1:9999][1:9999]",
        "# ids[0:99999999999999999999]",
        "# ids[1:2:0]",
        "# ids[5:1]",
        f"# {'x' * 100_000}",
    ],
    ids=lambda comment: comment[:30],
)
def test_position_of_host_is_its_line_despite_comment_like_large_range(tmp_path: Path, comment: str) -> None:
    """The ranges of comments are not expanded if they are large; a long word is searched in linear time."""
    (tmp_path / "hosts.ini").write_text(f"{comment}\n[brokers]\norders-mq[01:02]-a\n")
    process = subprocess.run(
        [sys.executable, "-c", _PRINT_LINES_OF_HOSTS, str(tmp_path / "hosts.ini")],
        capture_output=True,
        text=True,
        preexec_fn=_limit_memory_and_processor_time,
    )
    assert process.stdout == "3 3\n", process.stderr


def test_positions_of_variables_are_not_read_unless_requested(inventory: Path) -> None:
    assert read_inventory([str(inventory)]).positions == {}


def test_text_of_topology_finding_names_file_and_line(inventory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "-i", "inventory", "--select", "T009"]) == 1

    assert "error T009 inventory/hosts.yml:7: activemq_store_directory differs" in capsys.readouterr().out


def test_json_of_topology_finding_has_file_and_line(inventory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["check", "-i", "inventory", "--select", "T009", "--format", "json"])
    (finding,) = json.loads(capsys.readouterr().out)["findings"]

    assert (finding["file"], finding["line"]) == ("inventory/hosts.yml", 7)


def test_annotation_about_rendered_file_is_at_line_of_variable(
    inventory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["check", "-i", "inventory", "--select", "S015", "--format", "github"])
    line = next(line for line in capsys.readouterr().out.splitlines() if A in line)

    assert line.startswith("::notice file=inventory/group_vars/all.yml,line=5,")
    assert "::conf/activemq.xml:" in line


@pytest.mark.parametrize("command", [["check"], ["render", "-o", "out"], ["graph", "-o", "fleet.svg"]])
def test_error_about_variable_names_file_and_line(
    inventory: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = inventory / "group_vars" / "all.yml"
    path.write_text(f"{VARIABLES}activemq_heap: [1]\n")

    assert main([command[0], "-i", "inventory", *command[1:]]) == 2

    assert f"activemq_heap must be text, not a list: write a single value ({path}:7)" in capsys.readouterr().err


def test_misspelled_prefix_is_warning_with_file_and_line(inventory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = inventory / "group_vars" / "all.yml"
    path.write_text(f"{VARIABLES}active_mq_fence: guard\n")

    assert main(["check", "-i", "inventory", "--select", "T036"]) == 0

    warnings_printed = " ".join(capsys.readouterr().out.split())
    assert "warning T036 inventory/group_vars/all.yml:7: the variable active_mq_fence has no effect" in warnings_printed
    assert "to activemq_fence. If active_mq_fence has another purpose" in warnings_printed


@pytest.mark.parametrize("misspelled", ["actvemq_release", "active_mq_release", "activemqrelease"])
def test_error_about_missing_variable_names_misspelled_variable(
    inventory: Path, misspelled: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = inventory / "group_vars" / "all.yml"
    path.write_text(VARIABLES.replace("activemq_release", misspelled))

    assert main(["check", "-i", "inventory"]) == 2

    err = capsys.readouterr().err
    assert "activemq_release is not set" in err
    assert f"{misspelled} of host {A} is ignored: did you mean activemq_release? ({path}:2)" in err


def test_error_names_host_with_misspelled_variable(inventory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (inventory / "group_vars" / "all.yml").write_text(VARIABLES.replace("activemq_release: 6.3.1\n", ""))
    path = inventory / "host_vars" / f"{B}.yml"
    path.parent.mkdir(exist_ok=True)
    path.write_text("actvemq_release: 6.3.1\n")

    assert main(["check", "-i", "inventory"]) == 2

    err = capsys.readouterr().err
    assert f"actvemq_release of host {B} is ignored: did you mean activemq_release? ({path}:1)" in err


def test_unknown_variable_of_command_line_has_no_position_of_suggested_variable(
    inventory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "-i", "inventory", "-e", "activemq_relaese=6.3.1"]) == 2

    err = capsys.readouterr().err
    assert "activemq_relaese is not a variable of activemq.fleet: did you mean activemq_release?" in err
    assert "all.yml" not in err


def test_unknown_release_names_file_and_line(inventory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = inventory / "group_vars" / "all.yml"
    path.write_text(VARIABLES.replace("6.3.1", "7.9.1"))

    assert main(["check", "-i", "inventory"]) == 2

    assert f"({path}:2)" in capsys.readouterr().err


FRAGMENT = 'activemq_xml_fragments: [{parent: broker, xml: "<a><b></a>"}]'


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("activemq_waivers: [{rule: X999, reason: none}]", "activemq_waivers has a waiver of X999"),
        (FRAGMENT, "in activemq_xml_fragments[0], the value of xml is not well-formed XML"),
    ],
)
def test_error_of_check_about_both_hosts_is_one_line_with_position(
    inventory: Path, line: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = inventory / "group_vars" / "all.yml"
    path.write_text(f"{VARIABLES}{line}\n")

    assert main(["check", "-i", "inventory"]) == 2

    (error,) = capsys.readouterr().err.splitlines()
    assert f"error: {A}, {B}: {problem}" in error
    assert error.endswith(f" ({path}:7)")
    assert "<string>" not in error


@pytest.mark.parametrize("command", [["render", "-i", "inventory", "-o", "out"], ["explain", "-i", "inventory", A]])
def test_malformed_fragment_has_position_in_error_of_command(
    inventory: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = inventory / "group_vars" / "all.yml"
    path.write_text(f"{VARIABLES}{FRAGMENT}\n")
    (inventory / "hosts.yml").write_text(HOSTS.replace("activemq_store_directory: /srv/other", "{}"))

    assert main(command) == 2

    assert f" ({path}:7)" in capsys.readouterr().err


@pytest.mark.parametrize("pattern", ["(abc", "^(?P<group>none)$", "^x$"])
@pytest.mark.parametrize("command", [["check"], ["graph", "-o", "fleet.svg"]])
def test_error_about_naming_pattern_names_file_and_line(
    inventory: Path, pattern: str, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = inventory / "group_vars" / "all.yml"
    path.write_text(f'{VARIABLES}activemq_naming_pattern: "{pattern}"\n')

    assert main([command[0], "-i", "inventory", *command[1:]]) == 2

    assert capsys.readouterr().err.rstrip().endswith(f" ({path}:7)")
