"""Compute the memory limits of systemd units (``MemoryMax``): the largest need of the program, and headroom.

A limit that is reached in normal service would be worse than no limit, so each is well above the measured need. It
ensures that a faulty program is killed alone, and that its host keeps running.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from activemq_fleet.settings.host_settings import HostSettings

_MEBIBYTE = 1 << 20
_BYTES_BY_UNIT = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_HEAP_OPTION = re.compile(r"(?:-Xmx|-XX:MaxHeapSize=)([0-9]+)([kmgt]?)", re.IGNORECASE)
_DIRECT_MEMORY_OPTION = re.compile(r"-XX:MaxDirectMemorySize=([0-9]+)([kmgt]?)", re.IGNORECASE)
# Metaspace and classes need 150 MiB, compiled code up to 240 MiB, and each thread's stack 1 MiB, seldom used.
_MEMORY_OUTSIDE_HEAP = 768 * _MEBIBYTE
WATCHDOG_MEMORY = "512M"
"""``MemoryMax`` of a watchdog's unit: enough for Python, and for the JDK's thread dump of a broker."""
KEEPALIVED_MEMORY = "256M"
"""``MemoryMax`` of keepalived's unit."""
# HAProxy holds two buffers of 16 KiB for a session and what the kernel queues for its two sockets, and after a reload
# the old process holds its own until they end.
_HAPROXY_BASE, _HAPROXY_SESSION = 512 * _MEBIBYTE, 128 << 10


def largest_heap_bytes(settings: HostSettings) -> int | None:
    """Return the largest Java heap of a broker in bytes.

    It follows from ``activemq_heap`` and ``activemq_java_options``.
    """
    return _last_size(_HEAP_OPTION, (f"-Xmx{settings.heap}", *settings.java_options))


def broker_systemd_memory_max(settings: HostSettings) -> str:
    """Return the ``MemoryMax`` of a broker's systemd unit, the limit of its memory, as text such as ``2048M``.

    It is ``activemq_unit_memory_max``, else computed from the heap. It is the sum of the heap, the direct buffers (the
    size of the heap unless an option sets it, as in HotSpot), a quarter of the heap for the tables of the collector,
    and the other memory of a JVM.
    """
    if settings.unit_memory_max:
        return settings.unit_memory_max
    heap = largest_heap_bytes(settings) or 0
    direct = _last_size(_DIRECT_MEMORY_OPTION, settings.java_options) or heap
    return _size_text(heap + heap // 4 + direct + _MEMORY_OUTSIDE_HEAP)


def haproxy_systemd_memory_max(connections: int) -> str:
    """Return the ``MemoryMax`` of HAProxy's systemd unit, for a number of client connections."""
    return _size_text(_HAPROXY_BASE + connections * _HAPROXY_SESSION)


def _last_size(pattern: re.Pattern[str], options: Iterable[str]) -> int | None:
    """Return the size in bytes of the last option that matches, which is the option that the JVM applies."""
    matches = [match for option in options if (match := pattern.fullmatch(option))]
    return int(matches[-1][1]) * _BYTES_BY_UNIT[matches[-1][2].lower()] if matches else None


def _size_text(size: int) -> str:
    return f"{-(-size // _MEBIBYTE)}M"
