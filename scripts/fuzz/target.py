"""What a fuzz target is: a module of this package that exports ``TARGET``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True)
class Target:
    """One parser or program under attack.

    ``generate(random, samples)`` returns one input; ``samples`` are the contents of the files of --sample.
    ``run(data)`` returns a description of what went wrong, or an empty string; an exception is a failure too.
    ``seconds`` is the processor time after which one input counts as a hang. ``suffix`` names kept inputs.
    """

    title: str
    generate: Callable[[Random, Sequence[bytes]], bytes]
    run: Callable[[bytes], str]
    suffix: str = ".bin"
    seconds: float = 10.0
