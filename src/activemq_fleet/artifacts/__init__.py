"""Provide schemas, jars, distributions and Java: from a cache, a given file, or Maven.

Every function is safe to call from several processes at once; a file or directory is in the cache whole or not at all.
``progress`` gets one line before each download; by default the lines go to the logger ``activemq_fleet.artifacts``.
"""

from __future__ import annotations

from activemq_fleet.artifacts._brokers import (
    RecentDownloadFailureError,
    distribution_directory_for,
    distribution_in,
    jar_directory_for,
    jars_in,
    local_archive_hint,
    metrics_exporter_jar,
    postgresql_driver,
)
from activemq_fleet.artifacts._cache import Progress, cache_directory
from activemq_fleet.artifacts._java import java_executable, java_feature
from activemq_fleet.artifacts._schemas import cached_schemas, fetch_schema, load_schema, schema_for

__all__ = [
    "Progress",
    "RecentDownloadFailureError",
    "cache_directory",
    "cached_schemas",
    "distribution_directory_for",
    "distribution_in",
    "fetch_schema",
    "jar_directory_for",
    "jars_in",
    "java_executable",
    "java_feature",
    "load_schema",
    "local_archive_hint",
    "metrics_exporter_jar",
    "postgresql_driver",
    "schema_for",
]
