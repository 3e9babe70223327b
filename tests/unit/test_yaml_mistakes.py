"""Mistakes in YAML files of an inventory: the line, the reason, and keys with two values."""

from __future__ import annotations

from pathlib import Path

import pytest

from activemq_fleet import InputError
from activemq_fleet.cli.main import main
from activemq_fleet.inventory import read_inventory

OPEN_QUOTE = "the quote of a value is not closed: add the quote at the end of the value"
HOSTS = "all:\n  hosts:\n    a-mq01-a:\n"
ADD = "has no colon and space after it: add the colon and the space"
UNCLOSED = "is not closed, or a comma between two entries inside it is missing: add the closing bracket or the comma"


def error_of(directory: Path, text: str, name: str = "group_vars/all.yml") -> str:
    """Return the error of reading an inventory with this text in a file."""
    for path, content in {"hosts.yml": HOSTS, name: text}.items():
        (directory / path).parent.mkdir(exist_ok=True)
        (directory / path).write_text(content)
    with pytest.raises(InputError) as caught:
        read_inventory([str(directory / "hosts.yml")])
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("a: 1\nactivemq_heap 1g\nb: 2\n", 2, f"the key activemq_heap {ADD}"),
        ("a: 1\nactivemq_heap 1g\n", 2, f"the key activemq_heap {ADD}"),
        ("activemq_heap 1g\nb: 2\n", 1, f"the key activemq_heap {ADD}"),
        ("a: 1\nb:2\nc: 3\n", 2, f"the key b {ADD}"),
        ("a:\n  b:\n    c 1\n    d: 2\n", 3, f"the key c {ADD}"),
        ("a: 1\nb: {c: 1\nd: 2\n", 2, f"the bracket {{ {UNCLOSED} (the parser noticed it on line 3)"),
        ("a: 1\nb: {c: 1\n", 2, f"the bracket {{ {UNCLOSED} (the parser noticed it on line 3)"),
        ("a: 1\nb: [c,\n  d\ne: 2\n", 2, f"the bracket [ {UNCLOSED} (the parser noticed it on line 4)"),
        ("a: 1\nb: {c: 1, d: 2 e: 3}\n", 2, f"the bracket {{ {UNCLOSED}"),
        ('a: 1\nb: "none\nc: 1\n', 2, OPEN_QUOTE),
        ('a: 1\nb: "none\nc: "x"\n', 2, OPEN_QUOTE),
        ("a: 1\nb: 'none\nc: 2\nd: 'x y'\n", 2, OPEN_QUOTE),
        ('a:\n  - "none\n  - "x"\nb: 1\n', 2, OPEN_QUOTE),
        ('a: ["none, x]\nb: "c"\n', 1, OPEN_QUOTE),
        ('a: {b: "none, c: 1}\nd: "x: y"\n', 1, OPEN_QUOTE),
        (
            "a: 1\nb: none\n  c: 1\n",
            3,
            "the line is not indented like the keys before it: indent it like them",
        ),
        ("a: 1\nb: 1g: 2\n", 2, "a value contains a colon and a space: write the value in quotes"),
        ("a: 1\nb: x\x1dy\n", 2, "the value contains the control character U+001D: remove it"),
    ],
)
def test_yaml_mistake_in_variables_is_reported_at_its_line(tmp_path: Path, text: str, line: int, reason: str) -> None:
    assert error_of(tmp_path, text) == f"YAML parsing failed: {reason} ({tmp_path}/group_vars/all.yml:{line})"


def test_error_about_variables_file_without_mapping_names_file(tmp_path: Path) -> None:
    path = f"{tmp_path}/group_vars/all.yml"
    expected = f"{path}: the file contains no mapping of variables: write its lines as NAME: VALUE"
    assert error_of(tmp_path, "text\n") == expected


def test_yaml_mistake_in_inventory_file_is_reported_at_its_line(tmp_path: Path) -> None:
    error = error_of(tmp_path, "all:\n  hosts:\n    a-mq01-a:\n    a-mq01-b\n  vars:\n    x: 1\n", "hosts.yml")
    path = f"{tmp_path}/hosts.yml"
    assert error == f"{path} cannot be read as an inventory: YAML parsing failed: the key a-mq01-b {ADD} ({path}:4)"


def test_control_character_in_inventory_file_is_reported_at_its_line(tmp_path: Path) -> None:
    error = error_of(tmp_path, "all:\n  hosts:\n    a-mq01-a:\x07\n", "hosts.yml")
    assert error.endswith(f"the value contains the control character U+0007: remove it ({tmp_path}/hosts.yml:3)")


def test_yaml_error_does_not_show_value_of_line_without_colon(tmp_path: Path) -> None:
    assert "s3cret" not in error_of(tmp_path, "a: 1\nactivemq_network_password s3cret\nb: 2\n")


@pytest.mark.parametrize("text", ["a: 1\n\tb: 2\n", "a: {{ b }}\n"])
def test_yaml_error_keeps_exact_reason_of_ansible(tmp_path: Path, text: str) -> None:
    assert any(words in error_of(tmp_path, text) for words in ("write spaces in", "template block: write the value"))


@pytest.mark.parametrize("name", ["group_vars/all.yml", "host_vars/a-mq01-a.yml"])
def test_repeated_yaml_key_is_warning_with_file_and_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (tmp_path / "hosts.yml").write_text(HOSTS)
    (tmp_path / name).parent.mkdir()
    (tmp_path / name).write_text("activemq_release: 5.18.3\nactivemq_ha: none\nactivemq_heap: 1g\nactivemq_heap: 2g\n")
    main(["graph", "-i", str(tmp_path / "hosts.yml"), "-o", str(tmp_path / "fleet.svg")])
    problem = "the key activemq_heap exists twice, here and in line 3: Ansible uses only the later key"
    expected = f"{problem}. Remove one of the two keys"
    assert f"warning: T038 {tmp_path}/{name}:4: {expected} activemq_heap\n" in capsys.readouterr().err
