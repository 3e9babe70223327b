"""Write and check ``manifest.json`` of a result, and replace results on file systems without rename.

Only Spark writes there, and Spark names files itself. So every text is a directory with one file in it,
``manifest.json/part-….txt``; each run adds one, and the one with the highest ``run`` counts. It lists the files of
every dataset: those of earlier runs may still be in the same directories.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from activemq_fleet import InputError
from activemq_fleet.node.foreign_data import parse_untrusted_json
from activemq_fleet.spark.paths import uri_with_escaped_wildcards

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MANIFEST = "manifest.json"
_MADE_BY = "activemq-fleet"


def new_manifest(kind: str, version: str, schema_version: int, rows: Mapping[str, int]) -> dict[str, Any]:
    """Return a new manifest: the content of manifest.json, which describes the output of a job.

    It has the entries of every manifest.json: program, ``version``, ``kind`` of output, rows by dataset.
    """
    return {
        "made_by": _MADE_BY,
        "version": version,
        "kind": kind,
        "schema_version": schema_version,
        "rows": dict(sorted(rows.items())),
    }


def json_text(data: Mapping[str, Any]) -> str:
    """Convert an object to JSON text.

    The text has a newline at its end.
    """
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def parse_and_check_manifest(out: str, kind: str, text: str) -> dict[str, Any]:
    """Parse the manifest.json of a job's output, check that a job of the given kind wrote it, and return it.

    The result is the manifest as a dictionary. ``text`` is the content of the file, ``out`` the output path for errors.
    Raises InputError if another program or a job of another kind wrote it.
    """
    try:
        manifest = parse_untrusted_json(text)
    except ValueError:
        manifest = None
    if not isinstance(manifest, dict) or manifest.get("made_by") != _MADE_BY:
        raise InputError(
            f"{out}: the file {MANIFEST} in this directory was not written by {_MADE_BY}, so `{kind}` does not replace "
            "the directory: choose another output directory"
        )
    if manifest.get("kind") != kind:
        raise InputError(
            f"{out}: this directory contains the output of `{manifest.get('kind')}`, which `{kind}` does not replace: "
            "choose another output directory"
        )
    return manifest


class HadoopTarget:
    """An output path in Hadoop, that is, in an object store or in HDFS.

    A Spark job writes to it. Earlier files stay there, and only the manifest is replaced.
    """

    def __init__(self, spark: SparkSession, out: str) -> None:
        self.out = out
        self._spark = spark
        self._existing_files: dict[str, set[str]] = {}
        self._earlier_manifest: dict[str, Any] = {}
        self._written_names: list[str] = []
        self._read_text_files: dict[str, str] = {}

    def check_output_replaceable(self, kind: str) -> None:
        """Raise InputError if the output path has content that is not an earlier result of the same kind of job.

        It must be absent, empty, or an earlier result of the job ``kind``.
        """
        files = _list_files(self._spark, self.out)
        if not files:
            return
        text = _newest_manifest(self._spark, self.out)
        if text is None:
            raise InputError(
                f"{self.out}: this directory contains files that `{kind}` did not write, so `{kind}` does not "
                "write to it: choose another output directory"
            )
        self._earlier_manifest = parse_and_check_manifest(self.out, kind, text)

    def create_staging_directory_if_local(self) -> None:
        """Do nothing: a job's output in an object store or HDFS requires no staging directory.

        ``LocalTarget`` creates and locks a staging directory.
        """

    def dataset_uri(self, name: str) -> str:
        """Return the URI of the directory below the job's output path to which a dataset is written.

        It may hold files of earlier runs.
        """
        path = f"{self.out}/{name}"
        if name not in self._existing_files:
            self._existing_files[name] = set(_list_files(self._spark, path))
            self._written_names.append(name)
        return path

    def check_row_count_if_local(self, name: str, rows: int) -> None:
        """Do nothing: all Spark executors write to the same object store or HDFS, so the row count needs no check.

        ``LocalTarget`` checks that no rows are on the disks of other machines.
        """

    def paths_of_written_dataset(self, name: str) -> list[str]:
        """Return the paths from which Spark reads a dataset that the current job wrote: the list of its Parquet files.

        Files of earlier runs are left out.
        """
        new = set(_list_files(self._spark, self.dataset_uri(name))) - self._existing_files[name]
        return sorted(path for path in new if path.endswith(".parquet"))

    def add_text_file_to_commit(self, name: str, text: str) -> None:
        """Keep the text of a file, such as ``audit.json``, until the next ``commit`` writes it to the output path.

        The file is written as ``NAME/part-….txt``.
        """
        self._read_text_files[name] = text

    def commit(self, manifest: Mapping[str, Any]) -> None:
        """Commit the output of a job by writing its manifest.

        The manifest lists the files of this run. The remembered texts are written first. Files are listed by dataset.
        """
        files = {
            name: sorted(set(_list_files(self._spark, f"{self.out}/{name}")) - self._existing_files[name])
            for name in self._written_names
        }
        run = int(self._earlier_manifest.get("run", 0)) + 1
        for name, text in self._read_text_files.items():
            before = set(_list_files(self._spark, f"{self.out}/{name}"))
            _append_text(self._spark, f"{self.out}/{name}", text)
            files[name] = sorted(set(_list_files(self._spark, f"{self.out}/{name}")) - before)
        _append_text(self._spark, f"{self.out}/{MANIFEST}", json_text({**manifest, "run": run, "files": files}))

    def delete_staging_directory_if_local(self) -> None:
        """Do nothing: a job's output in an object store or HDFS has no staging directory to delete.

        Uncommitted files stay at the output path; readers ignore files that the manifest does not list.
        """


def files_listed_in_manifest(spark: SparkSession, out: str, name: str) -> list[str]:
    """Return the paths of a dataset's files that the newest manifest of a job's output directory lists.

    Raises InputError without a manifest.
    """
    text = _newest_manifest(spark, out)
    if text is None:
        raise InputError(
            f"{out}: the directory has no {MANIFEST}: correct the path. If the path is right, the activemq-fleet "
            "command that wrote the directory (plan, audit or drift) did not complete: run it again"
        )
    datasets: dict[str, list[str]] = json.loads(text).get("files", {})
    if not datasets.get(name):
        raise InputError(
            f"{out}: the directory does not contain the dataset {name}, only "
            f"{', '.join(sorted(datasets)) or 'an empty list of datasets'}: give the directory to which "
            f"activemq-fleet (plan, audit or drift) wrote {name}"
        )
    return datasets[name]


def _newest_manifest(spark: SparkSession, out: str) -> str | None:
    """Return the text of the manifest with the highest ``run``; None without a manifest."""
    path = f"{out}/{MANIFEST}"
    if not _list_files(spark, path):
        return None
    texts: list[str] = [row["value"] for row in _read_text_files(spark, uri_with_escaped_wildcards(path)).collect()]
    return max(texts, key=lambda text: int(json.loads(text).get("run", 0)))


def _read_text_files(spark: SparkSession, path: str) -> DataFrame:
    return spark.read.text(path, wholetext=True)


def _append_text(spark: SparkSession, path: str, text: str) -> None:
    """Add a file with ``text`` to the directory ``path``."""
    frame = spark.createDataFrame([(text.removesuffix("\n"),)], "value string").coalesce(1)
    frame.write.mode("append").option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false").text(path)


def _list_files(spark: SparkSession, path: str) -> list[str]:
    """Return the URIs of all files below a path; none when there is no such path."""
    from pyspark.errors import AnalysisException

    files = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    try:
        return [row["path"] for row in files.load(uri_with_escaped_wildcards(path)).select("path").collect()]
    except AnalysisException as error:
        if "PATH_NOT_FOUND" in str(error.getCondition()):
            return []
        raise
