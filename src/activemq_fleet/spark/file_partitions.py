"""Divide log files over Spark partitions of about equal size. Uses no Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from activemq_fleet.spark.inputs import InputFile

_MINIMUM_TASKS = 64
_MAXIMUM_PARTITION_BYTES = 2 << 30
PARTITION_BYTES = 128 << 20
"""Bytes of logs in a partition, while that gives at most 64 partitions."""
_UNPACKED_SIZE_FACTOR = 12
"""How many times as large the content of a gzip file of logs is."""


@dataclass(frozen=True, slots=True)
class FilePartitions:
    """The division of an audit's log files into Spark partitions.

    ``whole_hosts`` are hosts whose files are all in one partition.
    """

    files: list[list[InputFile]]
    whole_hosts: frozenset[str]


def partition_files_read_as_one_row(
    files: Sequence[InputFile], is_one_row_file: Callable[[InputFile], bool], concurrent_tasks: int = 1
) -> FilePartitions:
    """Return the input files that Spark reads as one row each, divided into partitions of about equal size.

    ``is_one_row_file`` returns whether a file is one of them; files that are read line by line are in no partition.
    ``files`` are sorted by host and name.

    The files of a host with at most PARTITION_BYTES are in one partition. ``whole_hosts`` has no host with a file that
    is not read whole. ``concurrent_tasks``: see ``partition_indexes``.
    """
    counts = Counter(file.host for file in files)
    blocks: list[list[InputFile]] = []
    whole_hosts = set()
    for host, group in groupby(filter(is_one_row_file, files), key=lambda file: file.host):
        host_files = list(group)
        alone = len(host_files) == 1 or sum(map(_unpacked_size, host_files)) > PARTITION_BYTES
        blocks += [[file] for file in host_files] if alone else [host_files]
        if len(host_files) == counts[host] == len(blocks[-1]):
            whole_hosts.add(host)
    partitions: list[list[InputFile]] = []
    for block, index in zip(
        blocks, partition_indexes([sum(map(_unpacked_size, block)) for block in blocks], concurrent_tasks), strict=True
    ):
        if index == len(partitions):
            partitions.append([])
        partitions[index] += block
    return FilePartitions(partitions, frozenset(whole_hosts))


def _unpacked_size(file: InputFile) -> int:
    return file.size * (_UNPACKED_SIZE_FACTOR if file.compressed else 1)


def partition_indexes(sizes: Sequence[int], concurrent_tasks: int = 1) -> list[int]:
    """Return for each input file the index of the Spark partition that reads it, given the files' sizes in bytes.

    Neighbours are together, and partitions are of about equal size. A partition is a task, and in the end a file of the
    dataset: it has 128 MB of logs while that gives no more than 64 partitions, and 2 GB at most, which become some 150
    MB of Parquet. ``concurrent_tasks`` is the number of tasks that run at a time: partitions may be half as large so
    that their number is a multiple of it.
    """
    total = sum(sizes)
    size = min(max(total // _MINIMUM_TASKS, PARTITION_BYTES), _MAXIMUM_PARTITION_BYTES)
    count = max(1, -(-total // size))
    even = -(-count // concurrent_tasks) * concurrent_tasks
    if even * PARTITION_BYTES // 2 <= total:
        count = even
    indexes, size_before = [], 0
    for file_size in sizes:
        indexes.append(min(count - 1, (size_before + file_size // 2) * count // max(1, total)))
        size_before += file_size
    numbers = {index: number for number, index in enumerate(sorted(set(indexes)))}
    return [numbers[index] for index in indexes]
