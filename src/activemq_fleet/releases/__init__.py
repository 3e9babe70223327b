"""The capabilities and vulnerabilities of each ActiveMQ Classic release, from data files, as :class:`Release`.

Nothing else in the project compares version strings.
"""

from __future__ import annotations

from activemq_fleet.releases._data import Advisory
from activemq_fleet.releases._release import (
    Release,
    every_scheme,
    known_lines,
    releases_to_download,
    releases_with,
)
from activemq_fleet.releases._schemas import XBEAN

__all__ = ["XBEAN", "Advisory", "Release", "every_scheme", "known_lines", "releases_to_download", "releases_with"]
