"""Placeholders for values in shapes, and while a template is run for a shape.

A template may escape and print an opaque placeholder. Whatever else it does with one (test it,
compare, count, look inside, print it through a filter that is no escaper) would make the result
depend on the value, and raises ShapeError.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from secrets import token_hex
from typing import Any, NoReturn

from jinja2 import Undefined

Escaper = Callable[[object], str]

# No input can hold it: it is new in every process and never leaves it.
_TOKEN = token_hex(8)
_MARK = re.compile(rf"\x00{_TOKEN}:([0-9]+):([a-z_+]*)\x00")


class ShapeError(Exception):
    """A template inspects a value, or prints something that is no text: a bug of the template."""


class Placeholder:
    """Stands in a shape for the value with this index."""

    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index = index

    def __repr__(self) -> str:
        return f"Placeholder({self.index})"


class OpaquePlaceholder:
    """Stands for the value with this index while a template runs; it keeps the names of its escapers."""

    __slots__ = ("_escapers", "_index")

    def __init__(self, index: int, escapers: tuple[str, ...] = ()) -> None:
        self._index = index
        self._escapers = escapers

    def through(self, escaper: str) -> OpaquePlaceholder:
        """Return the placeholder of the same value, escaped once more."""
        return OpaquePlaceholder(self._index, (*self._escapers, escaper))

    def mark(self) -> str:
        """Return the text for the template's output by which :func:`split` finds the placeholder."""
        return f"\0{_TOKEN}:{self._index}:{'+'.join(self._escapers)}\0"

    def _refuse(self, *_: object) -> NoReturn:
        raise ShapeError(
            f"the template looks into value {self._index}: it may only escape it and print it; "
            "what it tests, counts or joins must be decided before, in the shape"
        )

    __hash__ = None  # type: ignore[assignment]  # nor may it be looked up
    __bool__ = __len__ = __iter__ = __contains__ = __getitem__ = __getattr__ = __call__ = _refuse
    __str__ = __repr__ = __format__ = __int__ = __float__ = __index__ = _refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __add__ = __radd__ = __mod__ = __rmod__ = __mul__ = __rmul__ = _refuse


def escaping(name: str, escaper: Escaper) -> Callable[[Any], Any]:
    """Return an escaper as a filter of templates; of an opaque placeholder it records its name only."""

    def filtered(value: Any) -> Any:
        if isinstance(value, OpaquePlaceholder):
            return value.through(name)
        return escaper(_text(value))

    return filtered


def finalize(value: Any) -> Any:
    """Return the text of what a template prints; it is Jinja's ``finalize``."""
    return value.mark() if isinstance(value, OpaquePlaceholder) else _text(value)


def _text(value: Any) -> Any:
    # True and 1 are equal, so one shape would serve for both: neither is ever printed. A number
    # can only be one that Jinja counted itself, because a shape that holds one is refused.
    if isinstance(value, str | Undefined) or type(value) is int:
        return value
    raise ShapeError(f"the template prints {value!r}: make it text before")


def split(text: str) -> Iterator[str | tuple[int, tuple[str, ...]]]:
    """Split a template's output into literal texts and placeholders as (index, names of escapers), in order."""
    pieces = _MARK.split(text)
    for literal, index, escapers in zip(pieces[::3], [*pieces[1::3], ""], [*pieces[2::3], ""], strict=True):
        if _TOKEN in literal:
            raise ShapeError("the template changes a value after it was escaped")
        yield literal
        if index:
            yield int(index), tuple(escapers.split("+")) if escapers else ()
