"""Fuzz target: secrets in generated forms. The masker must remove all of them, and a second pass must change nothing.

Texts that repeat a form hundreds of times are masked only once, because secrets that span lines can still change after
the masker's last round. For these texts, the target checks the duration and the known secrets.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from random import Random

from activemq_fleet.node.masking import KnownSecret, KnownSecrets, mask_configuration_file_text, mask_text
from tests.unit.hostile_texts import PIECES
from tests.unit.masking_forms import ANYTHING, FILES, READABLE, WORD, WORDS

from .target import Target

_PIECE = "canary"
_MIDDLES = (
    " ",
    ";",
    ",",
    ")",
    ">",
    "]",
    "}",
    "@",
    ":",
    "/",
    "&",
    "&amp;",
    '\\"',
    "'",
    '"',
    "|",
    "=",
    "\\",
    "$",
    "#",
    "?",
    "é",
    "%",
)
_SECONDS_PER_CHARACTER = 1e-4


def _fill_form(form: str, secret: str) -> str:
    return form.replace("{{", "\0").replace("}}", "\1").replace("{}", secret).replace("\0", "{").replace("\1", "}")


def generate(random: Random, samples: Sequence[bytes]) -> bytes:
    """Return a JSON record: the path of a file (empty for a log), its text, and whether the text repeats a form."""
    kind = random.randrange(4)
    secret = _PIECE
    path, repeats = "", False
    if kind == 0:
        for _ in range(random.randrange(4)):
            secret += random.choice(_MIDDLES) * random.choice((1, 1, 2)) + _PIECE
        form = random.choice(ANYTHING)
    elif kind == 1:
        secret, form = WORD, random.choice(WORDS)
    elif kind == 2:
        secret, (path, form) = WORD, random.choice(FILES)
    else:
        counts = random.choices((1, 1, 2, 500), k=random.randrange(1, 9))
        form, repeats = "".join(random.choice(PIECES) * count for count in counts), max(counts) > 2
        secret = ""
        path = random.choice(
            ("", "activemq.xml", "x.yml", "setenv", "users.properties", "x.properties", "jetty-realm.properties")
        )
    if kind == 0 and random.random() < 0.3:
        form = random.choice((form.upper(), form.title()))
    text = form if kind == 3 else _fill_form(form, secret)
    before, after = ("\n".join(random.choices(READABLE, k=random.randrange(3))) for _ in range(2))
    if kind < 2:
        text = f"{before}\n{text}\n{after}"
    if samples and kind == 3:
        text += random.choice(samples).decode(errors="replace")
    return json.dumps([path, text, repeats]).encode()


def run(data: bytes) -> str:
    """Mask the text of a record; return the problem, or an empty text."""
    path, text, repeats = json.loads(data)
    known = KnownSecrets([KnownSecret("fuzzed-Secret1", "activemq_x")])
    began = time.process_time()
    once = mask_configuration_file_text(path, text, known) if path else mask_text(text, known)
    seconds = time.process_time() - began
    if "fuzzed-Secret1" in once or (_PIECE in text.lower() and _survives(text, once)):
        return f"a secret survives: {once[:2000]!r}"
    if seconds > 0.5 + _SECONDS_PER_CHARACTER * len(text):
        return f"{seconds:.1f} s for {len(text)} characters"
    if repeats:
        return ""
    twice = mask_configuration_file_text(path, once, known) if path else mask_text(once, known)
    return "" if twice == once else f"a second pass changes the text: {once[:1000]!r}, {twice[:1000]!r}"


def _survives(text: str, masked: str) -> bool:
    """Return whether masked text contains a secret; certificates of the readable texts also contain the piece."""
    return masked.lower().count(_PIECE) > text.count("MIIBszCCAVmgAwIBAgIUcanary")


TARGET = Target("secrets in generated forms, masked", generate, run, suffix=".json")
