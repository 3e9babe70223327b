"""What stands for a value while a template is run for a shape: it can be escaped, and put out.

Whatever else a template does with a value (test it, compare, count, look inside, print it through
a filter that is no escaper) would make the result depend on the value. It raises ShapeError.
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
    """A template looks into a value, or prints what is no text: a bug of the template."""


class Hole:
    """The place of the value with a number, and the names of the escapers that it went through."""

    __slots__ = ("_escapers", "_index")

    def __init__(self, index: int, escapers: tuple[str, ...] = ()) -> None:
        self._index = index
        self._escapers = escapers

    def through(self, escaper: str) -> Hole:
        """The same place, escaped once more."""
        return Hole(self._index, (*self._escapers, escaper))

    def mark(self) -> str:
        """What stands in the template's output, for :func:`split`."""
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
    """An escaper as a filter of templates: it takes text, and notes itself on a hole."""

    def filtered(value: Any) -> Any:
        if isinstance(value, Hole):
            return value.through(name)
        return escaper(_text(value))

    return filtered


def put_out(value: Any) -> Any:
    """The last step of whatever a template prints (Jinja's ``finalize``)."""
    return value.mark() if isinstance(value, Hole) else _text(value)


def _text(value: Any) -> Any:
    # True and 1 are equal, so one shape would serve for both: neither is ever printed. A number
    # can only be one that Jinja counted itself, because a shape that holds one is refused.
    if isinstance(value, str | Undefined) or type(value) is int:
        return value
    raise ShapeError(f"the template prints {value!r}: make it text before")


def split(text: str) -> Iterator[str | tuple[int, tuple[str, ...]]]:
    """A template's output as literal text and holes, in turn: (number, escapers' names)."""
    pieces = _MARK.split(text)
    for literal, index, escapers in zip(pieces[::3], [*pieces[1::3], ""], [*pieces[2::3], ""], strict=True):
        if _TOKEN in literal:
            raise ShapeError("the template changes a value after it was escaped")
        yield literal
        if index:
            yield int(index), tuple(escapers.split("+")) if escapers else ()
