"""Which files make a partition. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from activemq_fleet.spark.inputs import InputFile

_TASKS = 64
_MOST = 2 << 30
SHARE = 128 << 20
"""Bytes of logs that a task reads, while there are not very many."""
_UNPACKED = 12
"""So many times its size is what a gzip file of logs holds."""


@dataclass(frozen=True, slots=True)
class Shares:
    """The files of each task, and the hosts of which one task has all files."""

    files: list[list[InputFile]]
    together: frozenset[str]


def shares_of(files: Sequence[InputFile], whole: Callable[[InputFile], bool], at_once: int = 1) -> Shares:
    """The shares of those of a fleet's logs, by host and name, that are read ``whole``.

    The files of a host that is not larger than a share come together, unless some are not read whole.
    """
    counts = Counter(file.host for file in files)
    units: list[list[InputFile]] = []
    together = set()
    for host, group in groupby(filter(whole, files), key=lambda file: file.host):
        mine = list(group)
        alone = len(mine) == 1 or sum(map(_unpacked, mine)) > SHARE
        units += [[file] for file in mine] if alone else [mine]
        if len(mine) == counts[host] == len(units[-1]):
            together.add(host)
    shares: list[list[InputFile]] = []
    for unit, share in zip(units, shared_out([sum(map(_unpacked, unit)) for unit in units], at_once), strict=True):
        if share == len(shares):
            shares.append([])
        shares[share] += unit
    return Shares(shares, frozenset(together))


def _unpacked(file: InputFile) -> int:
    return file.size * (_UNPACKED if file.compressed else 1)


def shared_out(sizes: Sequence[int], at_once: int = 1) -> list[int]:
    """The share, from 0, of each thing of this size: neighbours together, all shares about as large.

    A share is a task, and in the end a file of the dataset: of 128 MB of logs while that gives
    no more than 64, and of 2 GB at most, which Parquet makes some 150 MB of. ``at_once``: so many
    tasks run at a time; that none of them has nothing to do at the end, shares may be smaller by half.
    """
    total = sum(sizes)
    size = min(max(total // _TASKS, SHARE), _MOST)
    count = max(1, -(-total // size))
    even = -(-count // at_once) * at_once
    if even * SHARE // 2 <= total:
        count = even
    found, before = [], 0
    for one in sizes:
        found.append(min(count - 1, (before + one // 2) * count // max(1, total)))
        before += one
    numbers = {share: number for number, share in enumerate(sorted(set(found)))}
    return [numbers[share] for share in found]
