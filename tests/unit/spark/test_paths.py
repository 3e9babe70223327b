"""Which paths are this machine's, and how Spark is told of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from activemq_fleet.spark.paths import local_path, uri_of, uri_with_escaped_wildcards


@pytest.mark.parametrize(
    ("path", "local"),
    [
        ("/a/b", "/a/b"),
        ("/a/./c/../b/", "/a/b"),
        ("file:/a/b", "/a/b"),
        ("file:///a/b#c?d%20e", "/a/b#c?d%20e"),
        ("s3a://bucket/a", None),
        ("hdfs:///a", None),
        ("/a/b:c", "/a/b:c"),
    ],
)
def test_a_path_without_another_scheme_is_this_machines(path: str, local: str | None) -> None:
    assert local_path(path) == (None if local is None else Path(local))


def test_a_relative_path_is_below_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert uri_of("out") == f"file://{tmp_path}/out"


def test_a_path_elsewhere_stays_as_it_is() -> None:
    assert uri_of("s3a://bucket/a/") == "s3a://bucket/a"


def test_letters_of_patterns_are_themselves_to_a_reader() -> None:
    assert uri_with_escaped_wildcards("/a [1]/{b}*?") == r"file:///a \[1\]/\{b\}\*\?"
