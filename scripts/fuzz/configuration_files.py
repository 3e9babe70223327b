"""Fuzz target: mutated activemq.xml files, checked with ``check --file``, schema included."""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from random import Random

from activemq_fleet.cli.formats import FORMATS
from activemq_fleet.cli.main import main as command
from tests.hostile_files import SHAPES
from tests.mutations import RELEASES, mutate_document, seed_documents

from .target import Target


def _generate(random: Random, samples: Sequence[bytes]) -> bytes:
    """Return a mutated document; its first line contains the release and the output format of the check."""
    documents = [*_examples(), *samples]
    header = f"{random.choice(RELEASES)} {random.choice(sorted(FORMATS))}\n"
    return header.encode() + mutate_document(random.choice(documents), documents, random)


@cache
def _examples() -> tuple[bytes, ...]:
    """Return the examples of the rules, and files that are designed to slow down a check."""
    return (*seed_documents(), *(shape(20_000) for shape in SHAPES.values()))


def _run(data: bytes) -> str:
    """Check a document; return the problem unless the exit code is 0 or 1 and stderr shows no internal error."""
    header, _, document = data.partition(b"\n")
    release, form = header.decode().split()
    out, err = io.StringIO(), io.StringIO()
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "activemq.xml"
        path.write_bytes(document)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = command(["check", "--file", str(path), "--release", release, "--format", form])
    text = err.getvalue()
    return "" if code in (0, 1) and "Traceback" not in text and "bug" not in text else f"exit {code}: {text.strip()}"


TARGET = Target("mutated files, checked with `check --file`", _generate, _run, suffix=".txt")
