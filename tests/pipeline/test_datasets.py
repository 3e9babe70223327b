"""Results of jobs: the files in OUT, and their atomic replacement."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from activemq_fleet.errors import InputError
from activemq_fleet.spark.datasets import SCHEMAS, AtomicJobOutput, read_dataset, read_output_text_file


def _drift(spark: SparkSession, *paths: str) -> DataFrame:
    drift_rows = [(f"host{number % 3}", path, "same", None, None, None, None) for number, path in enumerate(paths)]
    return spark.createDataFrame(drift_rows, SCHEMAS["drift"])


@pytest.mark.parametrize("name", ["out", "out[1]", "{out,*}?"])
def test_committed_dataset_and_text_file_of_job_can_be_read(spark: SparkSession, tmp_path: Path, name: str) -> None:
    output_directory = tmp_path / name
    with AtomicJobOutput(spark, str(output_directory), "drift") as output:
        assert output.write_dataset("drift", _drift(spark, "b", "a", "c")) == 3
        output.add_text_file_to_commit("drift.json", "{}\n")
        output.commit()
    drift_rows = read_dataset(spark, str(output_directory), "drift").collect()
    assert sorted(row["path"] for row in drift_rows) == ["a", "b", "c"]
    assert read_output_text_file(spark, str(output_directory), "drift.json") == "{}\n"
    assert json.loads((output_directory / "manifest.json").read_text())["rows"] == {"drift": 3}


def test_parquet_footers_of_dataset_contain_schema_version(spark: SparkSession, tmp_path: Path) -> None:
    with AtomicJobOutput(spark, str(tmp_path / "out"), "drift") as output:
        output.write_dataset("drift", _drift(spark, "a"))
        output.commit()
    (file,) = (tmp_path / "out" / "drift").iterdir()
    footer = pq.read_metadata(file).metadata[b"org.apache.spark.sql.parquet.row.metadata"]
    assert {field["metadata"]["schema_version"] for field in json.loads(footer)["fields"]} == {1}


def test_uncommitted_dataset_of_job_keeps_earlier_dataset(spark: SparkSession, tmp_path: Path) -> None:
    output_directory = tmp_path / "out"
    with AtomicJobOutput(spark, str(output_directory), "drift") as output:
        output.write_dataset("drift", _drift(spark, "first"))
        output.commit()
    with AtomicJobOutput(spark, str(output_directory), "drift") as output:
        output.write_dataset("drift", _drift(spark, "second"))
    assert [row["path"] for row in read_dataset(spark, str(output_directory), "drift").collect()] == ["first"]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("name", ["notes.txt", "manifest.json"])
def test_directory_of_another_program_is_refused_before_job(spark: SparkSession, tmp_path: Path, name: str) -> None:
    output_directory = tmp_path / "out"
    output_directory.mkdir()
    (output_directory / name).write_text("{}")
    with pytest.raises(InputError, match="choose another output directory"):
        AtomicJobOutput(spark, str(output_directory), "drift")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert (output_directory / name).read_text() == "{}"


@pytest.fixture
def viewfs_path(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    """Yield a path whose scheme is not that of the local file system, as the path of an object store."""
    table = tmp_path.name.replace("_", "-")  # Hadoop caches mount tables, whose names are host names
    key = f"fs.viewfs.mounttable.{table}.link./store"
    spark.conf.set(key, tmp_path.as_uri())
    yield f"viewfs://{table}/store/out"
    spark.conf.unset(key)


def test_newest_manifest_selects_output_without_rename(spark: SparkSession, viewfs_path: str, tmp_path: Path) -> None:
    for path in ("first", "second"):
        with AtomicJobOutput(spark, viewfs_path, "drift") as output:
            output.write_dataset("drift", _drift(spark, path))
            output.add_text_file_to_commit("drift.json", f'{{"is": "{path}"}}\n')
            output.commit()
    with AtomicJobOutput(spark, viewfs_path, "drift") as output:
        output.write_dataset("drift", _drift(spark, "never committed"))
    assert [row["path"] for row in read_dataset(spark, viewfs_path, "drift").collect()] == ["second"]
    assert len(list((tmp_path / "out" / "drift").glob("*.parquet"))) == 3
    with pytest.raises(InputError, match="contains the output of `drift`, which `audit` does not replace"):
        AtomicJobOutput(spark, viewfs_path, "audit")


def test_object_store_path_of_another_program_is_refused(spark: SparkSession, viewfs_path: str, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="this directory contains files that `drift` did not write"):
        AtomicJobOutput(spark, viewfs_path, "drift")
