"""What the driver gives to every worker: of all hosts together, and of the releases they run. Pure."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from activemq_fleet import __version__
from activemq_fleet.releases import Release
from activemq_fleet.schema import Schema
from activemq_fleet.settings.broker import WaiverSettings
from activemq_fleet.topology.model import KnownGroups


@dataclass(frozen=True)
class Context:
    """``waivers`` are those in force, as JSON; ``schemas`` XSDs by release, compressed."""

    pattern: str
    groups: KnownGroups
    waivers: tuple[str, ...] = ()
    schemas: Mapping[str, bytes] = field(default_factory=dict)
    content: bool = True
    largest: int = 5000

    @cached_property
    def waived(self) -> tuple[WaiverSettings, ...]:
        return tuple(WaiverSettings.model_validate_json(text) for text in self.waivers)

    @cached_property
    def _digests(self) -> dict[str, str]:
        return {release: hashlib.sha256(xsd).hexdigest() for release, xsd in self.schemas.items()}

    def schema_of(self, release: Release) -> Schema:
        """The schema of a release that is in use, compiled once a worker."""
        return _compiled(self.schemas[release.text])

    def fingerprint(self, releases: Sequence[str], *, asks_for_groups: bool) -> str:
        """All that a component's rows depend on beside its own hosts."""
        every = [*self.groups.first, self.groups.number] if asks_for_groups else []
        schemas = [self._digests.get(release, "") for release in releases]
        return json.dumps([__version__, self.pattern, self.waivers, every, schemas, self.content, self.largest])


@lru_cache(maxsize=256)
def _compiled(xsd: bytes) -> Schema:
    return Schema(zlib.decompress(xsd))
