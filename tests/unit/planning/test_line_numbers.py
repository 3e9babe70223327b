"""The file and line that an error names if a record has no host."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from activemq_fleet.errors import InputError
from activemq_fleet.planning.host_records import parse_inventory_host_record
from activemq_fleet.planning.line_numbers import error_at_first_invalid_json_line

VALID_RECORD = '{"host": "a-mq01-a", "variables": {"activemq_users": [{"password": "not to be shown"}]}}'


def error_of(line: str) -> InputError:
    """Return the error of a line that is not a record."""
    with pytest.raises(InputError) as caught:
        parse_inventory_host_record(line)
    return caught.value


@pytest.mark.parametrize(
    ("line", "problem"),
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
def test_error_of_plan_names_file_and_line_of_invalid_host_record(tmp_path: Path, line: str, problem: str) -> None:
    records = tmp_path / "hosts.jsonl"
    records.write_text(f"{VALID_RECORD}\n\n{line}\n{line}\n")

    message = str(error_at_first_invalid_json_line(records, error_of(line)))

    assert message.startswith(f"{records}, {problem}")
    assert message.endswith(". Nothing was written")
    assert "not to be shown" not in message


def test_invalid_host_record_is_searched_in_files_that_spark_reads(tmp_path: Path) -> None:
    (tmp_path / "_SUCCESS").write_text("no JSON")
    (tmp_path / "part-0.jsonl").write_text(f"{VALID_RECORD}\r\n")
    with gzip.open(tmp_path / "part-1.jsonl.gz", "wt") as file:
        file.write(f"{VALID_RECORD}\nno JSON\n")
    packed = (tmp_path / "part-1.jsonl.gz").read_bytes()
    (tmp_path / "part-0.jsonl.gz").write_bytes(b"not packed")
    (tmp_path / "part-00.jsonl.gz").write_bytes(gzip.compress(b"x")[:10] + b"\xff" * len(packed))

    error = error_at_first_invalid_json_line(tmp_path, error_of("no JSON"))

    assert str(error).startswith(f"{tmp_path / 'part-1.jsonl.gz'}, line 2 is not JSON")


def test_error_of_plan_with_host_or_without_invalid_line_is_unchanged(tmp_path: Path) -> None:
    error_with_host = InputError("a line of --hosts names a-mq01-a, whose variables are not JSON")
    error_without_host = error_of("x")

    assert error_at_first_invalid_json_line(tmp_path, error_with_host) is error_with_host
    assert error_at_first_invalid_json_line(None, error_without_host) is error_without_host
    # The file has changed since the error.
    assert error_at_first_invalid_json_line(tmp_path, error_without_host) is error_without_host
