"""Files are shared out to partitions: neighbours together, none much larger than the others."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from activemq_fleet.spark.file_partitions import partition_indexes, partition_one_row_files
from activemq_fleet.spark.inputs import InputFile

MEGABYTE = 1 << 20


def test_little_is_one_partition() -> None:
    assert partition_indexes([MEGABYTE] * 100) == [0] * 100


def test_files_of_a_gigabyte_are_eight_partitions_of_neighbours() -> None:
    shares = partition_indexes([10 * MEGABYTE] * 103)
    assert shares == sorted(shares)
    assert set(shares) == set(range(9))


@given(st.lists(st.integers(min_value=0, max_value=32 * MEGABYTE), min_size=1, max_size=200))
def test_no_partition_is_much_larger_than_it_should_be(sizes: list[int]) -> None:
    shares = partition_indexes(sizes)
    loads = [sum(size for size, one in zip(sizes, shares, strict=True) if one == share) for share in set(shares)]
    assert set(shares) == set(range(len(set(shares))))
    assert max(loads) <= 128 * MEGABYTE + 32 * MEGABYTE


def test_no_task_runs_alone_at_the_end_unless_shares_were_too_small() -> None:
    sizes = [10 * MEGABYTE] * 103
    assert [len(set(partition_indexes(sizes, at_once))) for at_once in (1, 2, 4, 8, 16)] == [9, 10, 12, 16, 16]
    assert set(partition_indexes(sizes, 64)) == set(range(9))


def logs(host: str, *sizes: int, suffix: str = "") -> list[InputFile]:
    return [
        InputFile(f"{host}/{at}", host, f"activemq.log.{at}{suffix}", "log", size * MEGABYTE, bool(suffix))
        for at, size in enumerate(sizes)
    ]


@given(st.lists(st.lists(st.integers(min_value=1, max_value=70), min_size=1, max_size=9), min_size=1, max_size=60))
def test_a_task_has_all_files_of_a_host_that_is_no_larger_than_a_share(hosts: list[list[int]]) -> None:
    files = [file for number, sizes in enumerate(hosts) for file in logs(f"h{number:02}", *sizes)]
    shares = partition_one_row_files(files, lambda file: file.size <= 64 * MEGABYTE)
    whole = [file for file in files if file.size <= 64 * MEGABYTE]
    assert [file for share in shares.files for file in share] == whole
    assert all(shares.files)
    for number, sizes in enumerate(hosts):
        mine = [sum(file.host == f"h{number:02}" for file in share) for share in shares.files]
        small = max(sizes) <= 64 and (sum(sizes) <= 128 or len(sizes) == 1)
        assert (f"h{number:02}" in shares.whole_hosts) is small
        assert not small or sorted(mine)[-1] == len(sizes)


def test_what_a_gzip_file_holds_counts() -> None:
    files = [*logs("a", 6, 6, suffix=".gz"), *logs("b", 5, 5, suffix=".gz")]
    assert partition_one_row_files(files, lambda _: True).whole_hosts == {"b"}
