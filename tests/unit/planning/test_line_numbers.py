"""The line that is meant where a record has no host."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from activemq_fleet.errors import InputError
from activemq_fleet.planning.line_numbers import error_at_first_invalid_json_line
from activemq_fleet.planning.records import parse_inventory_host_record

RIGHT = '{"host": "a-mq01-a", "variables": {"activemq_users": [{"password": "not to be shown"}]}}'


def error_of(line: str) -> InputError:
    with pytest.raises(InputError) as caught:
        parse_inventory_host_record(line)
    return caught.value


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('{"host": "b", ', "line 3 is not JSON (Expecting property name enclosed in double quotes at column 15): "),
        ('["b"]', "line 3 is not a JSON object: write "),
        (
            '{"name": "b"}',
            "line 3 has no host name as text in the key or column 'host' (its keys or columns: name): name the key ",
        ),
        ("[" * 100_000, "line 3 has JSON that is nested too deeply"),
    ],
)
def test_file_and_line_are_named(tmp_path: Path, line: str, says: str) -> None:
    lines = tmp_path / "hosts.jsonl"
    lines.write_text(f"{RIGHT}\n\n{line}\n{line}\n")

    found = str(error_at_first_invalid_json_line(lines, error_of(line)))

    assert found.startswith(f"{lines}, {says}")
    assert found.endswith(". Nothing was written")
    assert "not to be shown" not in found


def test_files_of_a_directory_are_looked_through_as_spark_reads_them(tmp_path: Path) -> None:
    (tmp_path / "_SUCCESS").write_text("no JSON")
    (tmp_path / "part-0.jsonl").write_text(f"{RIGHT}\r\n")
    with gzip.open(tmp_path / "part-1.jsonl.gz", "wt") as file:
        file.write(f"{RIGHT}\nno JSON\n")
    (tmp_path / "part-2.jsonl.gz").write_bytes(b"not packed")

    found = error_at_first_invalid_json_line(tmp_path, error_of("no JSON"))

    assert str(found).startswith(f"{tmp_path / 'part-1.jsonl.gz'}, line 2 is not JSON")


def test_what_names_a_host_or_lies_elsewhere_stays_as_it_is(tmp_path: Path) -> None:
    about_host, nameless = (
        InputError("a-mq01-a: the variables of this host in the file of --hosts are not JSON"),
        error_of("x"),
    )

    assert error_at_first_invalid_json_line(tmp_path, about_host) is about_host
    assert error_at_first_invalid_json_line(None, nameless) is nameless
    assert error_at_first_invalid_json_line(tmp_path, nameless) is nameless  # the file changed meanwhile
