"""What follows from settings is the same for all hosts that have the very same ones. Pure.

Whoever reads the variables of a group once gives its hosts one ``Settings`` object. What is made of
that alone need not be made for each of them. Objects are compared by identity, which is quick and
never wrong: nothing that is looked at here changes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

_T = TypeVar("_T")
_REMEMBERED = 64


class Alike(Generic[_T]):
    """Remembers what was made of the ``most`` objects that were last asked for."""

    __slots__ = ("_known", "_most")

    def __init__(self, most: int = _REMEMBERED) -> None:
        self._most = most
        self._known: dict[tuple[Hashable, ...], tuple[tuple[object, ...], _T]] = {}

    def get(self, make: Callable[[], _T], *objects: object, names: Hashable = None) -> _T:
        """What ``make`` makes of these very objects, and of ``names``, which are compared by value."""
        key = names, *map(id, objects)
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= self._most:
                self._known.clear()
            # The objects are kept too: as long as they are there, no other has their identity.
            known = self._known[key] = objects, make()
        return known[1]
