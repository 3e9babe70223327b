"""Render fleet.json, the machine-readable description of a rendered fleet."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping

from activemq_fleet.topology import Fleet

_json_text = json.JSONEncoder(ensure_ascii=False).encode


def fleet_json(fleet: Fleet, files: Mapping[str, bytes]) -> bytes:
    """Return the content of fleet.json: the index of a fleet of brokers and its rendered files.

    It has brokers, findings, waivers, and the SHA-256 of each file with secrets hidden. The list ``balancers`` is
    included where the inventory has any.
    """
    balancers = [balancer.to_dict() for balancer in fleet.balancers]
    lists = {
        "brokers": [broker.to_dict() for broker in fleet.brokers],
        **({"balancers": balancers} if balancers else {}),
        "findings": [finding.to_dict() for finding in fleet.findings],
        "waivers": [dict(waiver) for waiver in fleet.waivers],
    }
    # Each item is on one line, so that two versions can be compared by line. The encoder that indents is slow.
    json_lists = [f'"{name}": [{_json_lines(map(_json_text, items))}]' for name, items in lists.items()]
    json_lists.append(f'"files": {{{_json_lines(_hash_lines(files))}}}')
    # A finding can quote a name with a lone surrogate. UTF-8 cannot encode it, but its escape is valid JSON.
    return ("{\n  " + ",\n  ".join(json_lists) + "\n}\n").encode(errors="backslashreplace")


def _hash_lines(files: Mapping[str, bytes]) -> Iterator[str]:
    hashes: dict[bytes, str] = {}  # hosts have equal files
    for path, content in sorted(files.items()):
        sha = hashes.get(content)
        if sha is None:
            sha = hashes[content] = hashlib.sha256(content).hexdigest()
        yield f'{_json_text(path)}: "{sha}"'


def _json_lines(items: Iterable[str]) -> str:
    lines = list(items)
    return "\n    " + ",\n    ".join(lines) + "\n  " if lines else ""
