"""Files are distributed to partitions: adjacent files together, no partition much larger than the others."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from activemq_fleet.spark.file_partitions import partition_files_read_as_one_row, partition_indexes
from activemq_fleet.spark.inputs import InputFile

MEGABYTE = 1 << 20


def test_small_spark_input_is_one_partition() -> None:
    assert partition_indexes([MEGABYTE] * 100) == [0] * 100


def test_one_gigabyte_of_files_is_nine_spark_partitions_of_adjacent_files() -> None:
    shares = partition_indexes([10 * MEGABYTE] * 103)
    assert shares == sorted(shares)
    assert set(shares) == set(range(9))


@given(st.lists(st.integers(min_value=0, max_value=32 * MEGABYTE), min_size=1, max_size=200))
def test_no_spark_partition_exceeds_its_share_by_more_than_one_file(sizes: list[int]) -> None:
    shares = partition_indexes(sizes)
    partition_sizes = [
        sum(size for size, index in zip(sizes, shares, strict=True) if index == share) for share in set(shares)
    ]
    assert set(shares) == set(range(len(set(shares))))
    assert max(partition_sizes) <= 128 * MEGABYTE + 32 * MEGABYTE


def test_number_of_spark_partitions_is_multiple_of_task_slots_unless_too_small() -> None:
    sizes = [10 * MEGABYTE] * 103
    assert [len(set(partition_indexes(sizes, task_slots))) for task_slots in (1, 2, 4, 8, 16)] == [9, 10, 12, 16, 16]
    assert set(partition_indexes(sizes, 64)) == set(range(9))


def log_files(host: str, *sizes: int, suffix: str = "") -> list[InputFile]:
    """Return log files of a host with sizes in megabytes."""
    return [
        InputFile(f"{host}/{at}", host, f"activemq.log.{at}{suffix}", "log", size * MEGABYTE, bool(suffix))
        for at, size in enumerate(sizes)
    ]


@given(st.lists(st.lists(st.integers(min_value=1, max_value=70), min_size=1, max_size=9), min_size=1, max_size=60))
def test_all_files_of_small_host_are_in_one_spark_partition(hosts: list[list[int]]) -> None:
    files = [file for number, sizes in enumerate(hosts) for file in log_files(f"h{number:02}", *sizes)]
    shares = partition_files_read_as_one_row(files, lambda file: file.size <= 64 * MEGABYTE)
    batched_files = [file for file in files if file.size <= 64 * MEGABYTE]
    assert [file for share in shares.files for file in share] == batched_files
    assert all(shares.files)
    for number, sizes in enumerate(hosts):
        file_counts = [sum(file.host == f"h{number:02}" for file in share) for share in shares.files]
        is_small = max(sizes) <= 64 and (sum(sizes) <= 128 or len(sizes) == 1)
        assert (f"h{number:02}" in shares.whole_hosts) is is_small
        assert not is_small or sorted(file_counts)[-1] == len(sizes)


def test_size_of_spark_partition_counts_uncompressed_size_of_gzip_files() -> None:
    files = [*log_files("a", 6, 6, suffix=".gz"), *log_files("b", 5, 5, suffix=".gz")]
    assert partition_files_read_as_one_row(files, lambda _: True).whole_hosts == {"b"}
