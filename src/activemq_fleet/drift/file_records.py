"""Read planned and collected files into records; each record holds a part of the facts about one file of a host.

Planned: ``hosts/HOST/PATH``, as ``render`` writes. Found: ``HOST/configuration/PATH``, as ``collect``
writes it, with ``.fleet-manifest.json`` and ``.fleet-found.json`` next to it, and ``HOST/host.json``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from activemq_fleet.errors import InputError
from activemq_fleet.node import masking
from activemq_fleet.node.foreign_data import parse_untrusted_json
from activemq_fleet.node.host_paths import COLLECTED_CONFIGURATION, COLLECTED_FILE_STATES, CONFIGURATION_MANIFEST

SHA256_OF_EMPTY_FILE = hashlib.sha256().hexdigest()


class FileRecord(NamedTuple):
    """One file of a host as planned or as collected: its hashes, texts, and drift status.

    Records of equal host and path are merged. ``planned``, ``found_sha256`` and ``manifest`` are sha256 of masked
    texts: as planned, as collected, as deployed. ``noted_status``, ``noted_sha256`` and ``why`` are notes of
    ``collect``: the file's status against the manifest, its hash, and why it has no content. ``collected`` is true in
    the record of the host's ``host.json``, which has no path.
    """

    host: str
    path: str
    planned: str | None = None
    found_sha256: str | None = None
    manifest: str | None = None
    noted_status: str | None = None
    noted_sha256: str | None = None
    why: str | None = None
    planned_text: str | None = None
    found_text: str | None = None
    collected: bool = False


def planned_file_record(host: str, path: str, content: str | None, masked_sha256: str | None) -> FileRecord:
    """Return the record (hash and text) of a host's planned file, to compare it with the collected file.

    Without its content (``plan --without-content``) only the hash of its masked text, ``masked_sha256``, is compared.
    """
    if content is None:
        return FileRecord(host, path, planned=masked_sha256)
    text = masking.mask_configuration_file_text(path, content)
    return FileRecord(host, path, planned=_hash(text), planned_text=text)


def rendered_file_record(path: str, content: bytes) -> FileRecord:
    """Return the record (hash and text) of a file that ``render`` wrote, to compare it with the collected file.

    ``path`` is ``HOST/PATH``.
    """
    host, _, name = path.partition("/")
    return planned_file_record(host, name, content.decode(errors="backslashreplace"), None)


def collected_file_records(path: str, content: bytes) -> Iterator[FileRecord]:
    """Yield records (hashes, texts, notes) about a host's files, read from one file that ``collect`` wrote.

    The playbook ``collect`` wrote the file to ``HOST/PATH``. For its manifests there is a record for each listed file.
    Raises InputError naming the host for notes of ``collect`` that cannot be read.
    """
    host, _, path_on_host = path.partition("/")
    name = path_on_host.removeprefix(COLLECTED_CONFIGURATION)
    if name == path_on_host:
        yield FileRecord(host, "", collected=True)
    elif name == CONFIGURATION_MANIFEST:
        for listed_path, digest in _parse_notes(host, name, content, _is_text).items():
            yield FileRecord(host, listed_path, manifest=digest)
    elif name == COLLECTED_FILE_STATES:
        for listed_path, notes in _parse_notes(host, name, content, _is_file_state).items():
            # Only the hash of a key store is collected. A file that is too large has not even a hash.
            why, noted_status = notes.get("why"), notes.get("status")
            digest = notes.get("sha256") if why else None
            yield FileRecord(
                host,
                listed_path,
                found_sha256=digest,
                noted_status="unreadable" if why and not digest else noted_status,
                noted_sha256=notes.get("sha256"),
                why=why,
            )
    else:
        text = masking.mask_configuration_file_text(name, content.decode(errors="backslashreplace"))
        yield FileRecord(host, name, found_sha256=_hash(text), found_text=text)


def _parse_notes(host: str, path: str, content: bytes, is_valid: Callable[[object], bool]) -> dict[str, Any]:
    """Return the notes about files by path. Raises InputError if ``is_valid`` is false for any of them."""
    try:
        notes = parse_untrusted_json(content)
    except ValueError:
        notes = None
    if not isinstance(notes, dict):
        problem = "it is not a JSON object"
    elif invalid_paths := [listed_path for listed_path, note in notes.items() if not is_valid(note)]:
        problem = f"its entry {invalid_paths[0][:80]!r} has a value of a wrong type"
    else:
        return notes
    raise InputError(
        f"{host}: the collected file {COLLECTED_CONFIGURATION}{path} is damaged, because {problem}. Run the playbook "
        "collect again"
    )


def _is_text(note: object) -> bool:
    return isinstance(note, str)


def _is_file_state(note: object) -> bool:
    return isinstance(note, dict) and all(isinstance(note.get(key), str | None) for key in ("status", "sha256", "why"))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
