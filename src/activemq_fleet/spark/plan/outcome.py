"""What the core says of a part of a fleet, as tables of the datasets. Pure."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from activemq_fleet.findings import Finding
from activemq_fleet.spark.plan.packing import TABLES, compact, packed, plain, without_content
from activemq_fleet.topology import Broker

Tree = Mapping[str, bytes]


class Lists:
    """Rows that come one by one, by dataset and column."""

    def __init__(self) -> None:
        self._columns: dict[str, dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
        self.blocking = 0

    def brokers(self, brokers: Iterable[Broker]) -> None:
        """Brokers and their links, as in fleet.json."""
        rows = [broker.to_dict() for broker in brokers]
        links = []
        for row in rows:
            row["ports"] = list(row["ports"].items())
            links += [{"host": row["host"], **link} for link in row["links"]]
        self._add("brokers", rows)
        self._add("links", links)

    def findings(self, findings: Iterable[Finding]) -> None:
        """Findings, in the order of a report."""
        found = list(findings)
        self._add("findings", [finding.to_dict() for finding in found])
        self.blocking += sum(finding.blocks for finding in found)

    def files(self, trees: Iterable[tuple[str | None, Tree]], known: dict[bytes, str]) -> None:
        """Every file of every host; files for clients of a group have no host. ``known`` are hashes by content."""
        columns = self._columns["files"]
        hosts, paths, hashes, contents = (columns[name] for name in TABLES["files"].names)
        for host, tree in trees:
            for path, content in tree.items():
                sha = known.get(content)
                if sha is None:
                    sha = known[content] = hashlib.sha256(content).hexdigest()
                hosts.append(host)
                paths.append(path)
                hashes.append(sha)
                contents.append(content)

    def tables(self) -> dict[str, pa.RecordBatch]:
        """Those that have rows, as ``packing.COMPACT`` has them."""
        filled = {name: columns for name, columns in self._columns.items() if columns and any(columns.values())}
        return {name: compact(name, columns) for name, columns in filled.items()}

    def _add(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        if rows:
            columns = self._columns[name]
            for column in TABLES[name].names:
                columns[column] += [row[column] for row in rows]


@dataclass
class Tables:
    """Rows of every dataset, and what the driver must know at once."""

    blocking: int = 0
    withheld: int = 0
    error: str | None = None
    _batches: dict[str, list[pa.RecordBatch]] = field(default_factory=lambda: defaultdict(list))

    def component(self, name: str, fingerprint: str, hosts: Sequence[str]) -> None:
        """A component and its members."""
        columns = {"host": list(hosts), "component": [name] * len(hosts), "fingerprint": [fingerprint] * len(hosts)}
        self.add({"components": compact("components", columns)})

    def add(self, tables: Mapping[str, pa.RecordBatch], blocking: int = 0, withheld: int = 0) -> None:
        """Some more rows."""
        for name, batch in tables.items():
            self._batches[name].append(batch)
        self.blocking += blocking
        self.withheld += withheld

    def pack(self, *, content: bool) -> dict[str, Any]:
        """One row of ``packing.PACK``."""
        packs: dict[str, Any] = {name: packed(self._rows(name, content=content)) for name in TABLES}
        return packs | {"blocking": self.blocking, "withheld": self.withheld, "error": self.error}

    def batches(self, *, content: bool) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The tables that have rows, by name."""
        for name in self._batches:
            yield name, plain(name, self._rows(name, content=content))

    def _rows(self, name: str, *, content: bool) -> list[pa.RecordBatch]:
        found = self._batches.get(name, [])
        return [without_content(batch) for batch in found] if name == "files" and not content else found
