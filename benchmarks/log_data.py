"""Generate broker logs of any size from a seed: real records with random numbers, of 100 hosts.

``log_templates.json`` contains records of real brokers of eight releases (tests/integration/real_logs.py). For each
kind that these logs lack, it contains a message made from the kind's expression. 3 % of the records have several
lines. ``python -m benchmarks.log_data collect DIR`` generates the templates again from such logs.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from activemq_fleet.logs.event_batches import LogReleaseAndTimeZone, LogScanner
from activemq_fleet.logs.kinds import log_message_kind_ids
from tests.log_reading import examples_of, logger_of

TEMPLATES = Path(__file__).with_name("log_templates.json")
HOSTS = 100
ROLL = 10 << 20
"""Bytes of a log file, as in the log configuration of the collection."""
_MULTI = 0.03  # of the records
_RARE = 0.02  # of the records: kinds that the real logs lack
_FRESH = 0.6  # of the records get random numbers
_STACKS = 25  # templates with a stack trace
_NUMBER = re.compile(r"\d{3,}")
_RELEASES = ("5.11.4", "5.16.7", "5.17.6", "5.18.3", "6.3.1")
_ZONES = ("UTC", "Europe/Berlin", "America/New_York")


def generate(directory: Path, megabytes: int, *, hosts: int = HOSTS, seed: int = 1) -> Path:
    """Write logs of a total size in the directory structure of ``collect``, unless they already exist."""
    done = directory / "done"
    if not done.exists():
        size = (megabytes << 20) // hosts
        with ProcessPoolExecutor(2) as pool:
            list(pool.map(_write_host_logs, ((directory, number, size, seed) for number in range(hosts))))
        done.touch()
    return directory


def _write_host_logs(job: tuple[Path, int, int, int]) -> None:
    directory, number, size, seed = job
    name = f"host{number:03}"
    host_directory = directory / name
    host_directory.mkdir(parents=True, exist_ok=True)
    host_record = {
        "host": name,
        "timezone": _ZONES[number % 3],
        "release": _RELEASES[number % 5],
        "group": f"g{number // 10}",
    }
    (host_directory / "host.json").write_text(json.dumps({**host_record, "pair": None, "store": None}))
    records, files, done = _records(Random(seed * 1000 + number)), 0, 0
    sizes = [ROLL] * (size // ROLL) + [size % ROLL]
    parts = [part for part in sizes if part]
    for number, part in enumerate(parts, 1):
        path = host_directory / ("activemq.log" if number == len(parts) else f"activemq.log.{number}")
        with path.open("w", encoding="utf-8") as log:
            while done < part:
                record = next(records)
                log.write(record)
                done += len(record)
        files, done = files + 1, 0


def _records(random: Random) -> Iterator[str]:
    templates = json.loads(TEMPLATES.read_text())
    single, multi, rare = ([_split(text) for text in templates[name]] for name in ("single", "multi", "rare"))
    weights = templates["weights"]
    now = datetime(2026, 1, 5) + timedelta(milliseconds=random.randrange(86_400_000))
    while True:
        common = random.choices(single, weights, k=1000)
        for chosen in common:
            draw = random.random()
            parts = random.choice(multi) if draw < _MULTI else random.choice(rare) if draw < _MULTI + _RARE else chosen
            now += timedelta(milliseconds=random.randrange(2000))
            yield f"{now:%Y-%m-%d %H:%M:%S},{now.microsecond // 1000:03}{_fill_numbers(parts, random)}\n"


def _split(text: str) -> list[str]:
    """Split a record into alternating text and numbers."""
    return re.split(r"(\d{3,})", text)


def _fill_numbers(parts: list[str], random: Random) -> str:
    if len(parts) == 1 or random.random() > _FRESH:
        return "".join(parts)
    filled = list(parts)
    for at in range(1, min(len(parts), 9), 2):
        digits = len(parts[at])
        filled[at] = str(random.randrange(10 ** (digits - 1), 10**digits))
    return "".join(filled)


# -- the templates -----------------------------------------------------------------------------


def collect(directory: Path) -> None:
    """Write the templates from the logs in ``directory/RELEASE/HOST``."""
    counts: Counter[str] = Counter()
    stacks: dict[str, str] = {}
    seen: set[str] = set()
    for row in _rows(sorted(directory.glob("*/*/activemq.log*"))):
        text = f" | {row['level']:<5} | {row['message']} | {row['logger']} | {row['thread']}"
        seen.add(row["kind"])
        if row["stack"] or "\n" in row["message"]:
            stacks.setdefault(re.sub(r"\d+", "#", text), f"{text}\n{row['stack'] or ''}".rstrip("\n"))
        else:
            counts[_NUMBER.sub(lambda match: "1" * len(match[0]), text)] += 1
    chosen = sorted(stacks.values(), key=len)[:: max(1, len(stacks) // _STACKS)]
    missing_kinds = [max(sorted(examples_of(name)), key=len) for name in log_message_kind_ids() if name not in seen]
    rare = [f" | INFO  | {message} | {logger_of(message)} | main" for message in missing_kinds]
    single = sorted(counts)
    templates = {"single": single, "weights": [counts[text] for text in single], "multi": chosen, "rare": rare}
    TEMPLATES.write_text(re.sub(r"/[^ \]]*?/\.sandbox-[\d.]+", "/srv/brokers", json.dumps(templates, indent=0)))


def _rows(paths: Iterable[Path]) -> Iterator[dict[str, Any]]:
    for path in paths:
        for batch in LogScanner(LogReleaseAndTimeZone()).arrow_batches_of_log_records(path.read_bytes()):
            yield from (row for row in batch.to_pylist() if row["parsed"])


if __name__ == "__main__":
    collect(Path(sys.argv[2]))
