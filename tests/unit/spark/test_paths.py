"""Paths that are local, and the URIs of paths for Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from activemq_fleet.spark.paths import local_path, uri_of, uri_with_escaped_wildcards


@pytest.mark.parametrize(
    ("path", "expected"),
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
def test_path_without_remote_uri_scheme_is_local(path: str, expected: str | None) -> None:
    assert local_path(path) == (None if expected is None else Path(expected))


def test_uri_of_relative_path_is_below_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert uri_of("out") == f"file://{tmp_path}/out"


def test_uri_of_remote_path_is_unchanged() -> None:
    assert uri_of("s3a://bucket/a/") == "s3a://bucket/a"


def test_wildcards_of_path_are_escaped_in_spark_uri() -> None:
    assert uri_with_escaped_wildcards("/a [1]/{b}*?") == r"file:///a \[1\]/\{b\}\*\?"
