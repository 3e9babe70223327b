"""Read sizes in the notation of ActiveMQ: ``20 gb``, ``64mb``, ``1024``."""

from __future__ import annotations

import re

# Source: XBeanByteConverterUtil of the release tags.
_SIZE = re.compile(r"\s*(\d{1,18})\s*([kmg]?)b?\s*", re.IGNORECASE)
_FACTORS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def size_in_bytes(text: str) -> int | None:
    """Return the number of bytes of a size such as ``64mb``.

    The result is None for a text that is not a size.
    """
    match = _SIZE.fullmatch(text)
    return int(match[1]) * _FACTORS[match[2].lower()] if match else None
