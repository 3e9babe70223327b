"""A small rendered fleet, and the same fleet as ``collect`` fetches it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

FILES = {
    "conf/activemq.xml": "<broker name='{host}'>\n</broker>\n",
    "conf/credentials.properties": "activemq.username=system\nactivemq.password=@activemq_password@\n",
    "conf/.hidden": "a file that Spark would pass over\n",
}


@dataclass
class Fleet:
    """A fleet: ``planned`` is the output of ``render``, ``collected`` that of ``collect``. At first, both are equal."""

    planned: Path
    collected: Path

    def host(self, host: str, *, manifest: bool = True) -> Path:
        """Add a host to both sides; return its collected files. Without a manifest, the project does not manage it."""
        for path, text in FILES.items():
            self.plan(host, path, text.format(host=host))
        return self.collect(host, manifest=manifest)

    def plan(self, host: str, path: str, text: str) -> None:
        """Write a planned file."""
        file = self.planned / "hosts" / host / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def collect(self, host: str, *, manifest: bool = True) -> Path:
        """Write the planned files of a host as deployed and collected files."""
        source, target = self.planned / "hosts" / host, self.collected / host / "configuration"
        hashes = {}
        for file in sorted(source.rglob("*")):
            if file.is_file():
                path = file.relative_to(source).as_posix()
                (target / path).parent.mkdir(parents=True, exist_ok=True)
                (target / path).write_bytes(file.read_bytes())
                hashes[path] = hashlib.sha256(file.read_bytes()).hexdigest()
        status = "same" if manifest else "unknown"
        self.record(host, ".fleet-manifest.json", hashes if manifest else {})
        self.record(
            host, ".fleet-found.json", {path: {"status": status, "sha256": sha256} for path, sha256 in hashes.items()}
        )
        (self.collected / host / "host.json").write_text(json.dumps({"host": host}))
        (self.collected / host / "activemq.log").write_text("not read by drift\n")
        return target

    def record(self, host: str, name: str, content: object) -> None:
        """Write a file that ``collect`` itself creates."""
        file = self.collected / host / "configuration" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(content))

    def record_status(self, host: str, path: str, **about: str) -> None:
        """Write the status of a file, which ``collect`` finds by comparing it with the manifest."""
        file = self.collected / host / "configuration" / ".fleet-found.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), path: about}))
