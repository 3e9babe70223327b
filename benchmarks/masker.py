"""Measure the masker on texts of 1 MB: an ordinary log, and texts that are designed to slow it down."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass

from activemq_fleet.node.masking import KnownSecret, KnownSecrets, mask_configuration_file_text
from tests.unit.hostile_texts import CONTEXTS, PIECES, hostile_text

SIZE = 1_000_000
RUNS = 3
SECRETS = 20
LINE = (
    "2026-11-21 05:22:44,{:03} | INFO  | Connector vm://orders-mq01 started at tcp://10.0.0.1:{}@61616"
    " | org.apache.activemq.broker.BrokerService | main-{}\n"
)
LIMIT = 1.0
"""The limit in CPU seconds for 1 MB of passwords, quotes or blanks of a failed login."""


@dataclass(frozen=True, slots=True)
class Masking:
    """The median CPU seconds of a text; ``smaller`` is the median for a tenth of the text."""

    title: str
    seconds: float
    smaller: float


def measure() -> list[Masking]:
    """Measure an ordinary log, the texts of a failed login, and the slowest of all repeated pieces."""
    log = "".join(LINE.format(n % 1000, n, n) for n in range(SIZE // 140))
    maskings = [Masking("ordinary log", _median(log), _median(log[: SIZE // 10]))]
    for title, piece in (
        ("repeated `password`", "password"),
        ('`<property name="password"` and blanks', " "),
        ("quotes", '"'),
        ("repeated `password=x `", "password=x "),
    ):
        maskings.append(_hostile(title, piece, 1 if piece == " " else 0))
    worst = max(PIECES, key=lambda piece: _seconds(hostile_text(piece, CONTEXTS[0], SIZE // 10)))
    return [*maskings, _hostile(f"the worst of {len(PIECES)} pieces, `{worst!r}`", worst, 0)]


def _hostile(title: str, piece: str, around: int) -> Masking:
    large, small = (hostile_text(piece, CONTEXTS[around], size) for size in (SIZE, SIZE // 10))
    return Masking(title, _median(large), _median(small))


def _median(text: str) -> float:
    return statistics.median(_seconds(text) for _ in range(RUNS))


def _seconds(text: str) -> float:
    known = KnownSecrets(
        KnownSecret(f"only-measured-{number}", f"activemq_secret_{number}") for number in range(SECRETS)
    )
    began = time.process_time()
    mask_configuration_file_text("conf/any", text, known)
    return time.process_time() - began


def table(maskings: list[Masking]) -> str:
    """Return the figures as a Markdown table."""
    lines = [f"| {masking.title} | {masking.seconds:.2f} | {masking.smaller:.3f} |" for masking in maskings]
    head = ["| 1 MB of | CPU s | CPU s for 100 kB |", "|---|---|---|"]
    return "\n".join(
        [
            *head,
            *lines,
            f"\nThe limit for texts of a failed login is {LIMIT:.0f} s. The masker has a list of {SECRETS} secrets.\n",
        ]
    )
