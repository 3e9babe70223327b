"""Decompress log files and journals as far as they are intact. Compressed files are gzip files, named by ``.gz``.

Uses only the standard library: drills do not require pyarrow.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator

COMPRESSED_FILE_ENDING = ".gz"
"""The ending of the names of compressed files."""
STEP = 1 << 25
"""The approximate number of bytes of an unpacked piece."""
_INPUT_BYTES = 1 << 16
"""Bytes of a gzip file that are unpacked at once."""
_OUTPUT_BYTES = 1 << 12
"""The largest number of bytes that are lost before damaged bytes."""

TRUNCATED = "the gzip file is truncated, so its last log lines are missing: collect it from the host again"
"""The problem of a gzip file whose end is missing."""


def is_compressed_file_name(name: str) -> bool:
    """Return whether the name of a file has the ending of compressed files."""
    return name.endswith(COMPRESSED_FILE_ENDING)


def without_compression_ending(name: str) -> str:
    """Return the name of a file without the ending of compressed files, such as ``activemq.log.1``."""
    return name.removesuffix(COMPRESSED_FILE_ENDING)


def inflated_pieces_with_problems(parts: Iterable[bytes | memoryview]) -> Iterator[tuple[bytes, bool, str]]:
    """Yield the decompressed content of a gzip file in pieces, each as (bytes, is last, decompression error or "").

    ``parts`` are the bytes of the file in order, divided anywhere. Only the last piece can have an error, the reason
    why the rest cannot be unpacked. Bytes that belong to no member are left out.
    """
    outputs: list[bytes] = []
    size, problem = 0, ""
    for output, problem in _inflated_outputs(_input_steps(parts)):  # noqa: B007 -- the last problem is yielded after all outputs
        outputs.append(output)
        size += len(output)
        if size >= STEP:
            yield b"".join(outputs), False, ""
            outputs, size = [], 0
    yield b"".join(outputs), True, problem


def _input_steps(parts: Iterable[bytes | memoryview]) -> Iterator[bytes]:
    """Yield the bytes of a gzip file in steps of ``_INPUT_BYTES``, of which only the last may be smaller."""
    rest = bytearray()
    for part in parts:
        for offset in range(0, len(part), _INPUT_BYTES):
            rest += part[offset : offset + _INPUT_BYTES]
            if len(rest) >= _INPUT_BYTES:
                yield bytes(rest[:_INPUT_BYTES])
                del rest[:_INPUT_BYTES]
    if rest:
        yield bytes(rest)


def _inflated_outputs(steps: Iterator[bytes]) -> Iterator[tuple[bytes, str]]:
    """Yield the decompressed content of a gzip file in small outputs, each with the problem of the rest of the file.

    zlib discards the output of a call that finds an error, so that each call has little output.
    """
    decompressor = zlib.decompressobj(wbits=31)
    try:
        for step in steps:
            data = step
            while data:
                if decompressor.eof:
                    data = data.lstrip(b"\0")
                    if not data:
                        continue
                    decompressor = zlib.decompressobj(wbits=31)
                yield decompressor.decompress(data, _OUTPUT_BYTES), ""
                data = decompressor.unused_data if decompressor.eof else decompressor.unconsumed_tail
        while not decompressor.eof and (output := decompressor.decompress(b"", _OUTPUT_BYTES)):
            yield output, ""
    except zlib.error as error:
        yield b"", f"the rest of the gzip file cannot be unpacked ({error}): collect it from the host again"
        return
    if not decompressor.eof:
        yield b"", TRUNCATED
