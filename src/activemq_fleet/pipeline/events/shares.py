"""Which files make a partition, and how Spark is told. Pure."""

from __future__ import annotations

from collections.abc import Sequence

_TASKS = 64
_LEAST, _MOST = 128 << 20, 2 << 30
_SEED = 42  # of Spark's hash


def shared_out(sizes: Sequence[int]) -> list[int]:
    """The share, from 0, of each file: neighbours together, all shares about as large.

    A share is a task, and in the end a file of the dataset: of 128 MB of logs while that gives
    no more than 64, and of 2 GB at most, which Parquet makes some 150 MB of.
    """
    total = sum(sizes)
    size = min(max(total // _TASKS, _LEAST), _MOST)
    count = max(1, -(-total // size))
    found, before = [], 0
    for one in sizes:
        found.append(min(count - 1, (before + one // 2) * count // max(1, total)))
        before += one
    numbers = {share: number for number, share in enumerate(sorted(set(found)))}
    return [numbers[share] for share in found]


def keys_of(count: int) -> list[int]:
    """For each of so many partitions a number that Spark's ``repartition(count, column)`` puts there."""
    found: dict[int, int] = {}
    number = 0
    while len(found) < count:
        found.setdefault(_hash(number) % count, number)
        number += 1
    return [found[partition] for partition in range(count)]


def _hash(number: int) -> int:
    """Spark's hash of an int: Murmur3, x86, 32 bits, of four bytes. Signed."""
    k = _rotated(number * 0xCC9E2D51, 15) * 0x1B873593
    h = (_rotated(_SEED ^ (k & 0xFFFFFFFF), 13) * 5 + 0xE6546B64) & 0xFFFFFFFF
    h ^= 4
    h = ((h ^ h >> 16) * 0x85EBCA6B) & 0xFFFFFFFF
    h = ((h ^ h >> 13) * 0xC2B2AE35) & 0xFFFFFFFF
    h ^= h >> 16
    return h - (1 << 32) if h >> 31 else h


def _rotated(number: int, by: int) -> int:
    number &= 0xFFFFFFFF
    return (number << by | number >> (32 - by)) & 0xFFFFFFFF
