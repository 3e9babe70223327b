"""A small rendered fleet, and the same fleet as ``collect`` brings it."""

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
    """``planned`` is as ``render`` writes, ``found`` as ``collect`` does: at first the same."""

    planned: Path
    found: Path

    def host(self, host: str, *, manifest: bool = True) -> Path:
        """A host on both sides; its directory of found files. Without manifest it is somebody else's broker."""
        for path, text in FILES.items():
            self.plan(host, path, text.format(host=host))
        return self.collect(host, manifest=manifest)

    def plan(self, host: str, path: str, text: str) -> None:
        """One planned file."""
        place = self.planned / "hosts" / host / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    def collect(self, host: str, *, manifest: bool = True) -> Path:
        """What was planned so far, as deployed and collected."""
        source, target = self.planned / "hosts" / host, self.found / host / "configuration"
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
            host, ".fleet-found.json", {path: {"status": status, "sha256": one} for path, one in hashes.items()}
        )
        (self.found / host / "host.json").write_text(json.dumps({"host": host}))
        (self.found / host / "activemq.log").write_text("not read by drift\n")
        return target

    def record(self, host: str, name: str, content: object) -> None:
        """One of collect's own files."""
        place = self.found / host / "configuration" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps(content))

    def tell(self, host: str, path: str, **about: str) -> None:
        """What collect says of one file against its manifest."""
        place = self.found / host / "configuration" / ".fleet-found.json"
        place.write_text(json.dumps({**json.loads(place.read_text()), path: about}))
