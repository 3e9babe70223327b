"""Detect damaged archives of ActiveMQ: tar archives, jars and zip files."""

from __future__ import annotations

import gzip
import lzma
import tarfile
import zipfile
import zlib

ERRORS_OF_DAMAGED_ARCHIVES = (
    tarfile.TarError,
    zipfile.BadZipFile,
    gzip.BadGzipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    RuntimeError,
    ValueError,
)
"""The errors that tarfile and zipfile raise for a damaged archive. BadGzipFile is an OSError: catch it first."""


def verify_checksum_of_tar_archive(archive: tarfile.TarFile) -> None:
    """Read the rest of a compressed tar archive after its entries; its compressed data ends with a checksum.

    Raises one of ``ERRORS_OF_DAMAGED_ARCHIVES`` for damaged data. Without this check, entries can have a wrong content,
    or be missing, because tarfile regards a damaged header as the end.
    """
    while archive.fileobj is not None and archive.fileobj.read(1 << 20):
        pass
