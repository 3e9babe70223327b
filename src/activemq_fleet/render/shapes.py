"""Documents by their shape: a template is run once for each shape, and values are put into the result.

The *shape* of a document is all that its template branches on, loops over or prints as it is:
which connectors, how many links, which attributes, which profile. A *value* (name, address, URI,
path, limit) only passes an escaper on its way out. So two documents of one shape differ in
nothing but their escaped values, and the text between those is kept, for the shapes last used.

What makes it safe: values are not in the shape, but a :class:`Slot` for each is, and for a shape
that is not known yet the template is run with a :class:`~activemq_fleet.render.holes.Hole` in each
slot, which raises whenever the template does more than escape and print it. Secrets are values:
none stays in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, lru_cache, reduce
from typing import Any, TypeAlias

from activemq_fleet.render.engine import ESCAPERS, render_template, run_template
from activemq_fleet.render.holes import Escaper, Hole, ShapeError, split

# More than any fleet of ours has; a shape takes about as much memory as one of its documents.
_MOST_SHAPES = 4096


class Slot:
    """The place of a document's value with this number, in a shape."""

    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index = index

    def __repr__(self) -> str:
        return f"Slot({self.index})"


Shape: TypeAlias = "str | bool | Slot | tuple[Shape, ...] | None"
"""Flags are tested and never printed. Numbers are no part of a shape, because 1 equals True."""


_slot = cache(Slot)


class Values:
    """The values of one document, as text. Called with one it gives the slot that stands for it."""

    __slots__ = ("texts",)

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, text: str) -> Slot:
        texts = self.texts
        texts.append(text)
        return _slot(len(texts) - 1)


def render(template: str, values: Values, **shape: Shape) -> bytes:
    """``templates/TEMPLATE`` for a context that is a shape, with the values in its slots, in UTF-8.

    Raises ShapeError for a template that looks into a value, or a context that is no shape.
    """
    return _form(template, tuple(shape.items())).filled(values.texts)


def render_uncached(template: str, values: Values, **shape: Shape) -> bytes:
    """The same, by running the template with the values themselves: what :func:`render` must give."""
    texts = values.texts
    return render_template(template, **{name: _with(part, lambda n: texts[n]) for name, part in shape.items()})


class _Form:
    """The text of a shape, with places for values."""

    __slots__ = ("_constant", "_holes", "_text")

    def __init__(self, output: str) -> None:
        text: list[str] = []
        chains: list[tuple[int, tuple[str, ...]]] = []
        for piece in split(output):
            if isinstance(piece, str):
                text.append(piece.replace("%", "%%"))
            else:
                text.append("%s")
                chains.append(piece)
        self._text = "".join(text)
        self._constant = None if chains else output.encode()
        self._holes = tuple((index, _chain(escapers)) for index, escapers in chains)

    def filled(self, values: Sequence[str]) -> bytes:
        if self._constant is not None:
            return self._constant
        return (self._text % tuple([escape(values[index]) for index, escape in self._holes])).encode()


@lru_cache(maxsize=_MOST_SHAPES)
def _form(template: str, shape: tuple[tuple[str, Shape], ...]) -> _Form:
    return _Form(run_template(template, {name: _with(part, Hole) for name, part in shape}))


def _with(part: Shape, value_of: Callable[[int], Any]) -> Any:
    """A part of a shape with something in its slots."""
    if isinstance(part, Slot):
        return value_of(part.index)
    if isinstance(part, tuple):
        inside = [_with(each, value_of) for each in part]
        return part._make(inside) if hasattr(part, "_make") else tuple(inside)
    if part is None or isinstance(part, str | bool):
        return part
    raise ShapeError(f"{part!r} is no part of a shape: make it a value")


def _chain(names: Sequence[str]) -> Escaper:
    first, *others = [ESCAPERS[name] for name in names] or [str]
    return reduce(_after, others, first)


def _after(first: Escaper, then: Escaper) -> Escaper:
    return lambda value: then(first(value))
