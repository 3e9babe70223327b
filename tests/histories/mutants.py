"""Bugs in the code of the verdicts, each a copy of its modules with one change."""

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
"""The modules that determine verdicts, by name."""


class Mutant(NamedTuple):
    """A bug that replaces ``old``, which occurs once in ``file``, by ``new``; ``name`` describes the bug."""

    name: str
    file: str
    old: str
    new: str


_TEXT = """
records exported twice count twice
journals.py
if not is_whole:
if line.kind is None:

gaps of journals are not detected
journals.py
self.missing += line.jseq - self._previous - (1 if is_whole else 0)
self.missing += 0

a barrier of any prefix counts
reached_ranges.py
return topic_without_last_level(topic)
return "orders"

an earlier barrier counts
deliveries.py
if hole >= 0 and (extremes.max_seq if by_seq else extremes.max_first) >= at
if hole >= 0

a re-queued event keeps the position of its sequence number
deliveries.py
by_seq = copy.seq is not None and copy.first == copy.last
by_seq = copy.seq is not None

unconfirmed is not acknowledged
event_records.py
_STATES = frozenset(("accepted", "acknowledged", "unconfirmed", "expired"))
_STATES = frozenset(("accepted", "acknowledged", "expired"))

dropped events are not lost
deliveries.py
"dropped": words.DROPPED,
"dropped": words.EXPIRED,

quarantined events are stuck
deliveries.py
elif receipt.quarantined:
elif receipt.quarantined and receipt.handled:

an event handled twice is delivered
deliveries.py
verdict, reason = DeliveryVerdictWithReason("duplicate", f"handled {receipt.handled} times")
verdict, reason = words.HANDLED

a # does not match the level above it
deliveries.py
len(topic_levels) >= len(filter_levels)
len(topic_levels) > len(filter_levels)

a subscription includes events before its start
deliveries.py
if era > begin and (end is None or era <= end):
if end is None or era <= end:

gaps of publishers are ignored
deliveries.py
if is_hidden or (is_acked and copy.state_hole > copy.last_hole):
if False:

gaps of subscribers after a receipt are ignored
deliveries.py
elif self._missing_counts.get(receipt.subscriber, 0) > receipt.open_hole:
elif False:
"""

MUTANTS = tuple(Mutant(name, *rest) for name, *rest in (text.split("\n") for text in _TEXT.strip().split("\n\n")))


@contextmanager
def mutated_modules(mutant: Mutant, directory: Path) -> Iterator[SimpleNamespace]:
    """Provide ``MODULES`` with the bug, as modules of another package."""
    name = f"mutant_{abs(hash(mutant.name))}"
    package = directory / name
    package.mkdir()
    for module in vars(MODULES).values():
        source = Path(str(module.__file__))
        text = source.read_text()
        if source.name == mutant.file:
            assert text.count(mutant.old) == 1, (
                f"{mutant.file} contains {mutant.old!r} {text.count(mutant.old)} times: correct the mutant"
            )
            text = text.replace(mutant.old, mutant.new)
        for key in vars(MODULES):
            text = text.replace(f"activemq_fleet.audit.{key} ", f"{name}.{key} ")
        (package / source.name).write_text(text)
    sys.path.insert(0, str(directory))
    try:
        yield SimpleNamespace(**{key: importlib.import_module(f"{name}.{key}") for key in vars(MODULES)})
    finally:
        sys.path.remove(str(directory))
        for module_name in [imported for imported in sys.modules if imported.partition(".")[0] == name]:
            del sys.modules[module_name]
