"""Which files make a partition. Pure."""

from __future__ import annotations

from collections.abc import Sequence

_TASKS = 64
_LEAST, _MOST = 128 << 20, 2 << 30


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
