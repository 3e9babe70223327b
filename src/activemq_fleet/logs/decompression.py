"""Decompress log files and journals as far as they are intact. Compressed files are gzip files, named by ``.gz``.

Uses only the standard library: drills do not require pyarrow.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

_COMPRESSED_FILE_ENDING = ".gz"
STEP = 1 << 25
"""Bytes that are unpacked at once."""

TRUNCATED = "the gzip file is truncated, so its last log lines are missing: collect it from the host again"
"""The problem of a gzip file whose end is missing."""


def is_compressed_file_name(name: str) -> bool:
    """Return whether the name of a file has the ending of compressed files."""
    return name.endswith(_COMPRESSED_FILE_ENDING)


def without_compression_ending(name: str) -> str:
    """Return the name of a file without the ending of compressed files, such as ``activemq.log.1``."""
    return name.removesuffix(_COMPRESSED_FILE_ENDING)


def inflated_pieces_with_problems(gzip_file: memoryview) -> Iterator[tuple[bytes, bool, str]]:
    """Yield the decompressed content of a gzip file in pieces, each as (bytes, is last, problem).

    ``problem`` is "", or in the last piece the reason why the rest cannot be unpacked. Bytes that belong to no member
    are left out.
    """
    data: bytes | memoryview = gzip_file
    while True:
        decompressor = zlib.decompressobj(wbits=31)
        try:
            while not decompressor.eof:
                output = decompressor.decompress(data, STEP)
                data = decompressor.unconsumed_tail
                if not output and not data and not decompressor.eof:
                    yield b"", True, TRUNCATED
                    return
                yield output, False, ""
        except zlib.error as error:
            yield b"", True, f"the rest of the gzip file cannot be unpacked ({error}): collect it from the host again"
            return
        data = decompressor.unused_data.lstrip(b"\0")
        if not data:
            yield b"", True, ""
            return
