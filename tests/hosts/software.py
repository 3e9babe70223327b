"""The software from which a machine installs a broker: ``python -m tests.hosts.software archive|jars RELEASE``.

The command prints the path on this system: the archive of the vendor, or a directory of jars. Both are downloaded once
to the cache of the library.
"""

from __future__ import annotations

import sys
from pathlib import Path

from activemq_fleet.artifacts import _maven, fetch_jar_directory
from activemq_fleet.artifacts._cache import ensure_cached, log_software_fetch_progress
from activemq_fleet.errors import FleetError
from activemq_fleet.releases import Release


def archive_of(release: Release) -> Path:
    """Return the archive that the vendor published, which a user sets as ``activemq_archive``."""

    def make(part: Path) -> None:
        part.mkdir()
        _maven.copy_artifact(f"org.apache.activemq:apache-activemq:{release}:tar.gz:bin", part)

    return (
        ensure_cached(f"archives/{release}", make, progress=log_software_fetch_progress)
        / f"apache-activemq-{release}-bin.tar.gz"
    )


def main(kind: str, release: str) -> int:
    try:
        find = {"archive": archive_of, "jars": fetch_jar_directory}[kind]
        print(find(Release.of(release)))
    except FleetError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
