"""The interface of fuzz targets: a target is a module of this package that exports ``TARGET``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True)
class Target:
    """A parser or program that is fuzzed.

    ``generate(random, samples)`` returns an input; ``samples`` are the contents of the files of --sample.
    ``run(data)`` returns a description of the problem, or an empty string; an exception is a failure, too.
    ``seconds`` is the CPU time after which an input counts as a hang. ``suffix`` is the file suffix of stored inputs.
    """

    title: str
    generate: Callable[[Random, Sequence[bytes]], bytes]
    run: Callable[[bytes], str]
    suffix: str = ".bin"
    seconds: float = 10.0
