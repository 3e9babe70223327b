"""JSON and compressed data from untrusted sources: any bytes give a value or a ValueError."""

from __future__ import annotations

import base64
import json
import zlib

import pytest

from activemq_fleet.node.foreign_data import decompress_base64_to_bytes, parse_untrusted_json

NESTED = b"[" * 200_000
LONG = b'{"number": 1' + b"0" * 400 + b"}"


@pytest.mark.parametrize(
    "text",
    [b"", b"{", NESTED, b'{"a":' * 100_000, LONG, b"[NaN]", b"[-Infinity]", b"[1e999]", b'"\xff"', b"[1" + b"0" * 5000],
)
def test_invalid_json_raises_value_error(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_untrusted_json(text)


def test_written_json_is_parsed_unchanged() -> None:
    values: dict[str, object] = {
        "text": "ä\ud800",
        "numbers": [0, -1, 2**63, 1.5e300],
        "none": None,
        "nested": [[[{}]]],
        "yes": True,
    }

    assert parse_untrusted_json(json.dumps(values)) == values


def test_compressed_text_is_decompressed_up_to_limit() -> None:
    compressed_text = base64.b64encode(zlib.compress(bytes(1000))).decode()

    assert decompress_base64_to_bytes(compressed_text, 1000) == bytes(1000)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (zlib.compress(bytes(1 << 24)), "the decompressed data has more than 1000 bytes"),
        (zlib.compress(b"x" * 900)[:-5], "the compressed data is truncated"),
        (b"no zlib", "incorrect header"),
    ],
)
def test_oversized_or_damaged_compressed_text_is_refused(content: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        decompress_base64_to_bytes(base64.b64encode(content).decode(), 1000)
