"""Render fleet.json, the machine-readable description of a rendered fleet."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping

from activemq_fleet.topology import Fleet

_text = json.JSONEncoder(ensure_ascii=False).encode


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
    # An item a line: two versions are compared line by line, and the encoder that indents is slow.
    parts = [f'"{name}": [{_json_lines(map(_text, items))}]' for name, items in lists.items()]
    parts.append(f'"files": {{{_json_lines(_hash_lines(files))}}}')
    # A finding can quote a name with a lone surrogate, which UTF-8 cannot encode: its escape is valid JSON.
    return ("{\n  " + ",\n  ".join(parts) + "\n}\n").encode(errors="backslashreplace")


def _hash_lines(files: Mapping[str, bytes]) -> Iterator[str]:
    known: dict[bytes, str] = {}  # hosts share contents
    for path, content in sorted(files.items()):
        sha = known.get(content)
        if sha is None:
            sha = known[content] = hashlib.sha256(content).hexdigest()
        yield f'{_text(path)}: "{sha}"'


def _json_lines(items: Iterable[str]) -> str:
    lines = list(items)
    return "\n    " + ",\n    ".join(lines) + "\n  " if lines else ""
