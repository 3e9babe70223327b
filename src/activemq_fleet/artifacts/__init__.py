"""Provide schemas, jars, distributions and Java: from a cache, a given file, or Maven.

Several processes can call each function at the same time; files and directories are added to the cache atomically.
``progress`` is called with one line before each download; by default the lines are logged by the logger
``activemq_fleet.artifacts``.
"""

from __future__ import annotations

from activemq_fleet.artifacts._cache import Progress, cache_directory
from activemq_fleet.artifacts._jars_and_archives import (
    RecentDownloadFailureError,
    checked_jar_directory,
    fetch_and_unpack_distribution,
    fetch_jar_directory,
    local_archive_hint,
    local_distribution_directory,
    postgresql_driver_jar_path,
    prometheus_jmx_exporter_jar,
)
from activemq_fleet.artifacts._java import java_executable, java_feature_release
from activemq_fleet.artifacts._schemas import (
    fetch_schema_to_cache,
    load_schema,
    schema_bytes,
)

__all__ = [
    "Progress",
    "RecentDownloadFailureError",
    "cache_directory",
    "checked_jar_directory",
    "fetch_and_unpack_distribution",
    "fetch_jar_directory",
    "fetch_schema_to_cache",
    "java_executable",
    "java_feature_release",
    "load_schema",
    "local_archive_hint",
    "local_distribution_directory",
    "postgresql_driver_jar_path",
    "prometheus_jmx_exporter_jar",
    "schema_bytes",
]
