"""Read the sizes of memory that the Java options of a broker set."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from activemq_fleet.settings.host_settings import HostSettings

_BYTES_BY_UNIT = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_HEAP_OPTION = re.compile(r"(?:-Xmx|-XX:MaxHeapSize=)([0-9]+)([kmgt]?)", re.IGNORECASE)
_DIRECT_MEMORY_OPTION = re.compile(r"-XX:MaxDirectMemorySize=([0-9]+)([kmgt]?)", re.IGNORECASE)


def largest_heap_bytes(settings: HostSettings) -> int:
    """Return the largest Java heap of a broker in bytes.

    It follows from ``activemq_heap`` and ``activemq_java_options``.
    """
    return _last_size(_HEAP_OPTION, (f"-Xmx{settings.heap}", *settings.java_options)) or 0


def heap_variable_and_size(settings: HostSettings) -> tuple[str, str]:
    """Return the variable that determines a broker's largest Java heap, and the size in it, such as ``512m``.

    The variable is ``activemq_heap``, or ``activemq_java_options`` if it has a heap option, which the JVM then applies.
    """
    sizes = ["".join(match.groups()) for option in settings.java_options if (match := _HEAP_OPTION.fullmatch(option))]
    return ("activemq_java_options", sizes[-1]) if sizes else ("activemq_heap", settings.heap)


def largest_direct_memory_bytes(settings: HostSettings) -> int | None:
    """Return the size in bytes that a Java option sets for direct buffers, or None without such an option."""
    return _last_size(_DIRECT_MEMORY_OPTION, settings.java_options)


def _last_size(pattern: re.Pattern[str], options: Iterable[str]) -> int | None:
    """Return the size in bytes of the last option that matches, which is the option that the JVM applies."""
    matches = [match for option in options if (match := pattern.fullmatch(option))]
    return int(matches[-1][1]) * _BYTES_BY_UNIT[matches[-1][2].lower()] if matches else None
