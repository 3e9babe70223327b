"""Documents by their shape: a template is run once for each shape, and values are put into the result.

The *shape* of a document is all that its template branches on, loops over or prints as it is:
which connectors, how many links, which attributes, which profile. A *value* (name, address, URI,
path, limit) only passes an escaper on its way out. So two documents of one shape differ in
nothing but their escaped values, and the text between those is kept, for the shapes last used.

What makes it safe: a shape holds no values, only a :class:`Placeholder` for each. For a new shape
the template is run once with an :class:`OpaquePlaceholder` for each value; it raises when the
template does more than escape and print it. Secrets are values: none stays in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, lru_cache, reduce
from typing import Any, TypeAlias

from activemq_fleet.render.engine import ESCAPERS, render_template, run_template
from activemq_fleet.render.placeholders import Escaper, OpaquePlaceholder, Placeholder, ShapeError, split

# More than any fleet of ours has; a shape takes about as much memory as one of its documents.
_MOST_SHAPES = 4096


Shape: TypeAlias = "str | bool | Placeholder | tuple[Shape, ...] | None"
"""Flags are tested and never printed. Numbers are no part of a shape, because 1 equals True."""


_placeholder = cache(Placeholder)


class Values:
    """The values of one document as text; a call adds one and returns its placeholder."""

    __slots__ = ("texts",)

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, text: str) -> Placeholder:
        texts = self.texts
        texts.append(text)
        return _placeholder(len(texts) - 1)


def render(template: str, values: Values, **shape: Shape) -> bytes:
    """Return ``templates/TEMPLATE`` for this shape in UTF-8, with the values in place of its placeholders.

    Raises ShapeError for a template that looks into a value, or a context that is no shape.
    """
    return _shape_text(template, tuple(shape.items())).filled(values.texts)


def render_uncached(template: str, values: Values, **shape: Shape) -> bytes:
    """Return what :func:`render` returns, from a run of the template with the values: tests compare both."""
    texts = values.texts
    return render_template(template, **{name: _with(part, lambda n: texts[n]) for name, part in shape.items()})


class _ShapeText:
    """The text of a shape, with placeholders for values."""

    __slots__ = ("_constant", "_placeholders", "_text")

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
        self._placeholders = tuple((index, _chain(escapers)) for index, escapers in chains)

    def filled(self, values: Sequence[str]) -> bytes:
        if self._constant is not None:
            return self._constant
        return (self._text % tuple([escape(values[index]) for index, escape in self._placeholders])).encode()


@lru_cache(maxsize=_MOST_SHAPES)
def _shape_text(template: str, shape: tuple[tuple[str, Shape], ...]) -> _ShapeText:
    return _ShapeText(run_template(template, {name: _with(part, OpaquePlaceholder) for name, part in shape}))


def _with(part: Shape, value_of: Callable[[int], Any]) -> Any:
    """Return a part of a shape with ``value_of(index)`` in place of each placeholder."""
    if isinstance(part, Placeholder):
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
