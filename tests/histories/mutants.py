"""Planted bugs in the code of the verdicts, each a copy of its modules with one place changed."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

from activemq_fleet.audit import deliveries, event_records, journals, reached_ranges

MODULES = SimpleNamespace(
    journals=journals, event_records=event_records, reached_ranges=reached_ranges, deliveries=deliveries
)
"""The modules that come to verdicts, by name."""


class Mutant(NamedTuple):
    """``old`` stands in ``file`` once; what the bug would be is ``name``."""

    name: str
    file: str
    old: str
    new: str


_TEXT = """
records exported twice count twice
journals.py
if not is_whole:
if line.kind is None:

gaps of journals are not seen
journals.py
self.missing += line.jseq - self._previous - (1 if is_whole else 0)
self.missing += 0

a barrier of any prefix will do
reached_ranges.py
return _PREFIX.sub("", topic)
return "orders"

an earlier barrier will do
deliveries.py
if hole >= 0 and (extremes.max_seq if by_seq else extremes.max_first) >= at
if hole >= 0

a re-queued event stands at its SEQ
deliveries.py
by_seq = copy.seq is not None and copy.first == copy.last
by_seq = copy.seq is not None

unconfirmed is not acknowledged
event_records.py
_STATES = frozenset(("accepted", "acknowledged", "unconfirmed", "expired"))
_STATES = frozenset(("accepted", "acknowledged", "expired"))

dropped events are not lost
deliveries.py
if reason in (words.DROPPED, words.BARRIER_CAME):
if reason == words.BARRIER_CAME:

quarantined events are stuck
deliveries.py
elif receipt.quarantined:
elif receipt.quarantined and receipt.handled:

an event handled twice is delivered
deliveries.py
verdict, reason = "duplicate", f"handled {receipt.handled} times"
verdict, reason = "delivered", words.HANDLED

a # does not match the level above it
deliveries.py
len(topic_levels) >= len(filter_levels)
len(topic_levels) > len(filter_levels)

a subscription reaches back before it began
deliveries.py
if era > begin and (end is None or era <= end):
if end is None or era <= end:

gaps of publishers do not matter
deliveries.py
if is_hidden or (is_acked and copy.state_hole > copy.last_hole):
if False:

gaps of subscribers behind a receipt do not matter
deliveries.py
elif self._missing.get(receipt.subscriber, 0) > receipt.open_hole:
elif False:
"""

MUTANTS = tuple(Mutant(name, *rest) for name, *rest in (one.split("\n") for one in _TEXT.strip().split("\n\n")))


@contextmanager
def planted(mutant: Mutant, directory: Path) -> Iterator[SimpleNamespace]:
    """``MODULES`` with the bug in them, under another name."""
    name = f"planted_{abs(hash(mutant.name))}"
    package = directory / name
    package.mkdir()
    for module in vars(MODULES).values():
        source = Path(str(module.__file__))
        text = source.read_text()
        if source.name == mutant.file:
            assert text.count(mutant.old) == 1, f"{mutant.file} has {mutant.old!r} {text.count(mutant.old)} times"
            text = text.replace(mutant.old, mutant.new)
        for own in vars(MODULES):
            text = text.replace(f"activemq_fleet.audit.{own} ", f"{name}.{own} ")
        (package / source.name).write_text(text)
    sys.path.insert(0, str(directory))
    try:
        yield SimpleNamespace(**{own: importlib.import_module(f"{name}.{own}") for own in vars(MODULES)})
    finally:
        sys.path.remove(str(directory))
        for module_name in [one for one in sys.modules if one.partition(".")[0] == name]:
            del sys.modules[module_name]
