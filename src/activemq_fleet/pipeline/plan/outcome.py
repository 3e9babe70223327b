"""What the core says of a part of a fleet, as columns of the datasets. Pure."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from activemq_fleet.findings import Finding
from activemq_fleet.pipeline.plan.packing import TABLES, batch_of, packed
from activemq_fleet.render import render_clients
from activemq_fleet.topology import Broker, Fleet


class Tables:
    """Rows of every dataset, by column, and what the driver must know at once."""

    def __init__(self) -> None:
        self.columns: dict[str, dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
        self.blocking = 0
        self.withheld = 0
        self.error: str | None = None

    def component(self, name: str, fingerprint: str, hosts: Iterable[str]) -> None:
        """A component and its members."""
        self._add("components", [{"host": host, "component": name, "fingerprint": fingerprint} for host in hosts])

    def fleet(self, fleet: Fleet) -> None:
        """Brokers, links and findings."""
        self.brokers(fleet.brokers)
        self.findings(fleet.findings)

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

    def files(self, fleet: Fleet, trees: Mapping[str, Mapping[str, bytes]], withheld: set[str]) -> None:
        """Every file of every host but those ``withheld``; files for clients of a group have no host."""
        columns = self.columns["files"]
        hosts, paths, hashes, contents = (columns[name] for name in TABLES["files"].names)
        known: dict[bytes, str] = {}
        first = {group.name: group.brokers[0].host for group in fleet.groups}

        def put(host: str | None, tree: Mapping[str, bytes]) -> None:
            for path, content in tree.items():
                sha = known.get(content)
                if sha is None:
                    sha = known[content] = hashlib.sha256(content).hexdigest()
                hosts.append(host)
                paths.append(path)
                hashes.append(sha)
                contents.append(content)

        for path, content in render_clients(fleet).items():
            if first[path.split("/")[1]] not in withheld:
                put(None, {path: content})
        for host, tree in sorted(trees.items()):
            if host not in withheld:
                put(host, tree)
        self.withheld += sum(broker.host in withheld for broker in fleet.brokers)

    def pack(self, *, content: bool) -> dict[str, Any]:
        """One row of ``packing.PACK``."""
        self._without(content=content)
        packs: dict[str, Any] = {name: packed(name, self.columns[name]) for name in TABLES}
        return packs | {"blocking": self.blocking, "withheld": self.withheld, "error": self.error}

    def batches(self, *, content: bool) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The tables that have rows, by name."""
        self._without(content=content)
        for name, columns in self.columns.items():
            yield name, batch_of(name, columns)

    def _without(self, *, content: bool) -> None:
        if not content and self.columns.get("files"):
            self.columns["files"]["content"] = [None] * len(self.columns["files"]["path"])

    def _add(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        if rows:
            columns = self.columns[name]
            for column in TABLES[name].names:
                columns[column] += [row[column] for row in rows]
