# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Read JSON and compressed data that another host or account wrote: any bytes give a value or a ValueError."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

_MAX_DIGITS = 40
"""Largest number of digits of a number: no counter, time or size of this collection has more."""


def parse_untrusted_json(text: str | bytes) -> Any:
    """Parse JSON that another host or account wrote, reject infinite and very long numbers, and return its value.

    Bytes are UTF-8. Raises ValueError for any other text, also for one that is nested too deeply and for a number of
    more than 40 digits.
    """
    try:
        return json.loads(text, parse_int=_parse_integer, parse_float=_parse_float, parse_constant=_reject_constant)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None


def decompress_base64_to_bytes(text: str, limit: int) -> bytes:
    """Decompress a base64 text of compressed data (zlib), and return the bytes.

    Raises ValueError for any other text, and for more than ``limit`` bytes.
    """
    try:
        stream = zlib.decompressobj()
        content = stream.decompress(base64.b64decode(text), limit + 1)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if len(content) > limit:
        raise ValueError(f"the decompressed data has more than {limit} bytes")
    if not stream.eof:
        raise ValueError("the compressed data is truncated")
    return content


def _parse_integer(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise ValueError(f"the JSON contains a number with {len(digits)} digits, but at most {_MAX_DIGITS} are allowed")
    return int(digits)


def _parse_float(digits: str) -> float:
    number = float(digits)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"the number {digits[:40]} in the JSON is too large for a 64-bit floating-point number")
    return number


def _reject_constant(name: str) -> None:
    raise ValueError(f"the JSON contains {name}, but only finite numbers are allowed")
