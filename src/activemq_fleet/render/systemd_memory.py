"""Compute the memory limits of systemd units (``MemoryMax``): the largest need of the program, and headroom.

A limit that is reached in normal service would be worse than no limit, so each is well above the measured need. It
ensures that a faulty program is killed alone, and that its host keeps running.
"""

from __future__ import annotations

from activemq_fleet.settings.host_settings import HostSettings
from activemq_fleet.settings.java_memory_options import largest_direct_memory_bytes, largest_heap_bytes

_MEBIBYTE = 1 << 20
# Metaspace and classes need 150 MiB, compiled code up to 240 MiB, and each thread's stack 1 MiB, seldom used.
_MEMORY_OUTSIDE_HEAP = 768 * _MEBIBYTE
WATCHDOG_MEMORY = "512M"
"""``MemoryMax`` of a watchdog's unit: enough for Python, and for the JDK's thread dump of a broker."""
KEEPALIVED_MEMORY = "256M"
"""``MemoryMax`` of keepalived's unit."""
# HAProxy holds two buffers of 16 KiB for a session and what the kernel queues for its two sockets, and after a reload
# the old process holds its own until they end.
_HAPROXY_BASE, _HAPROXY_SESSION = 512 * _MEBIBYTE, 128 << 10


def broker_systemd_memory_max(settings: HostSettings) -> str:
    """Return the ``MemoryMax`` of a broker's systemd unit, the limit of its memory, as text such as ``2048M``.

    It is ``activemq_unit_memory_max``, else computed from the heap. It is the sum of the heap, the direct buffers (the
    size of the heap unless an option sets it, as in HotSpot), a quarter of the heap for the tables of the collector,
    and the other memory of a JVM.
    """
    if settings.unit_memory_max:
        return settings.unit_memory_max
    heap = largest_heap_bytes(settings)
    direct = largest_direct_memory_bytes(settings) or heap
    return _size_text(heap + heap // 4 + direct + _MEMORY_OUTSIDE_HEAP)


def haproxy_systemd_memory_max(connections: int) -> str:
    """Return the ``MemoryMax`` of HAProxy's systemd unit, for a number of client connections."""
    return _size_text(_HAPROXY_BASE + connections * _HAPROXY_SESSION)


def _size_text(size: int) -> str:
    return f"{-(-size // _MEBIBYTE)}M"
