"""Planted bugs in the code of the verdicts, each a copy of the package with one place changed."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from activemq_fleet.spark import verdicts

PACKAGE = "activemq_fleet.spark.verdicts"


class Mutant(NamedTuple):
    """``old`` stands in ``file`` once; what the bug would be is ``name``."""

    name: str
    file: str
    old: str
    new: str


_TEXT = """
records exported twice count twice
journal.py
lines.where("kind IS NOT NULL AND NOT is_copy")
lines.where("kind IS NOT NULL")

gaps of journals are not seen
journal.py
sf.sum(gap).over(order)
sf.sum(gap * 0).over(order)

a barrier of any prefix will do
settling.py
"prefix": _prefix("topic")
"prefix": sf.lit("orders")

an earlier barrier will do
settling.py
orderBy(sf.desc("at")).rangeBetween
orderBy("at").rangeBetween

a re-queued event stands at its SEQ
settling.py
sf.col("seq").isNotNull() & sf.coalesce(sf.col("first") == sf.col("last"), sf.lit(True))
sf.col("seq").isNotNull()

unconfirmed is not acknowledged
settling.py
_ACKED = (ACKNOWLEDGED, UNCONFIRMED)
_ACKED = (ACKNOWLEDGED,)

dropped events are only stuck
settling.py
sf.when(reason.isin(words.DROPPED, words.BARRIER_CAME), "lost")
sf.when(reason.isin(words.BARRIER_CAME), "lost").when(reason == words.DROPPED, "stuck")

quarantined events are stuck
settling.py
.when((sf.col("handled") == 1) | (sf.col("quarantined") > 0), "delivered")
.when(sf.col("handled") == 1, "delivered")

an event handled twice is delivered
settling.py
sf.when(sf.col("handled") > 1, "duplicate")
sf.when(sf.col("handled") > 1, "delivered")

a # does not match the level above it
subscriptions.py
sf.size(levels) >= length
sf.size(levels) > length

a subscription reaches back before it began
settling.py
sf.col("era") >= sf.col("from_era")
sf.col("era") >= 0

gaps of publishers do not matter
settling.py
sf.when(sf.col("last").isNull(), words.NO_ACCEPTANCE)
sf.when(sf.col("last").isNull() & sf.lit(False), words.NO_ACCEPTANCE)

gaps of subscribers behind a receipt do not matter
settling.py
hidden = sf.col("missing") > sf.coalesce("open_hole", sf.lit(0))
hidden = sf.lit(False)
"""

MUTANTS = tuple(Mutant(name, *rest) for name, *rest in (one.split("\n") for one in _TEXT.strip().split("\n\n")))


@contextmanager
def planted(mutant: Mutant, directory: Path) -> Iterator[ModuleType]:
    """The package with the bug in it, under another name."""
    name = f"planted_{abs(hash(mutant.name))}"
    package = directory / name
    package.mkdir()
    for source in Path(str(verdicts.__file__)).parent.glob("*.py"):
        text = source.read_text()
        if source.name == mutant.file:
            assert text.count(mutant.old) == 1, f"{mutant.file} has {mutant.old!r} {text.count(mutant.old)} times"
            text = text.replace(mutant.old, mutant.new)
        (package / source.name).write_text(text.replace(PACKAGE, name))
    sys.path.insert(0, str(directory))
    try:
        yield importlib.import_module(name)
    finally:
        sys.path.remove(str(directory))
        for module in [one for one in sys.modules if one.partition(".")[0] == name]:
            del sys.modules[module]
