"""Files are shared out to partitions: neighbours together, none much larger than the others."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from activemq_fleet.pipeline.events.shares import shared_out

MEGABYTE = 1 << 20


def test_little_is_one_partition() -> None:
    assert shared_out([MEGABYTE] * 100) == [0] * 100


def test_files_of_a_gigabyte_are_eight_partitions_of_neighbours() -> None:
    shares = shared_out([10 * MEGABYTE] * 103)
    assert shares == sorted(shares)
    assert set(shares) == set(range(9))


@given(st.lists(st.integers(min_value=0, max_value=32 * MEGABYTE), min_size=1, max_size=200))
def test_no_partition_is_much_larger_than_it_should_be(sizes: list[int]) -> None:
    shares = shared_out(sizes)
    loads = [sum(size for size, one in zip(sizes, shares, strict=True) if one == share) for share in set(shares)]
    assert set(shares) == set(range(len(set(shares))))
    assert max(loads) <= 128 * MEGABYTE + 32 * MEGABYTE
