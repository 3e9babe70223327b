"""Write build/schemas.zip, the XML schemas of ActiveMQ's releases that the wheel contains.

    python -m scripts.bundle_schemas [--require-all]

The schemas come from the cache, or from the jars of the releases through Maven. If the jar of a release cannot be
downloaded, the release is reported and omitted; with ``--require-all``, the command fails. Equal schemas produce equal
archives, byte for byte.
"""

from __future__ import annotations

import argparse
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

from activemq_fleet.artifacts import fetch_schema_to_cache
from activemq_fleet.errors import FleetError
from activemq_fleet.releases import Release, known_release_lines, releases_with_published_schema

BUNDLE = Path(__file__).resolve().parents[1] / "build" / "schemas.zip"
NOTICE = """\
The XML schemas in this archive are files of Apache ActiveMQ, each from the jar of its release.

Apache ActiveMQ
Copyright The Apache Software Foundation

They are licensed under the Apache License, Version 2.0: http://www.apache.org/licenses/LICENSE-2.0
"""
_DATE = (1980, 1, 1, 0, 0, 0)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the archive, or remove it if no schema is available: `check` then downloads schemas when it needs them."""
    parser = argparse.ArgumentParser(prog="bundle_schemas", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--require-all", action="store_true", help="fail if the schema of any release is missing")
    options = parser.parse_args(arguments)
    schemas: dict[str, bytes] = {}
    for release in releases():
        try:
            schemas[f"{release.text}.xsd"] = fetch_schema_to_cache(release, progress=print).read_bytes()
        except FleetError as error:
            print(f"bundle_schemas: the archive does not contain {release}: {error}", file=sys.stderr)
            if options.require_all:
                print("bundle_schemas: error: --require-all requires the schema of every release", file=sys.stderr)
                return 1
    if not schemas:
        BUNDLE.unlink(missing_ok=True)
        print(
            "bundle_schemas: warning: no schema can be downloaded, so the wheel contains none, and `check` downloads "
            "each schema at its first use. Install Java and Maven, then run `make package` again",
            file=sys.stderr,
        )
        return 0
    write_bundle(schemas, BUNDLE)
    print(f"{BUNDLE.name}: the schemas of {len(schemas)} releases")
    return 0


def releases() -> list[Release]:
    """Return all releases whose schema can be downloaded, according to the data of the library."""
    return [release for line in known_release_lines() for release in releases_with_published_schema(line)]


def write_bundle(schemas: dict[str, bytes], path: Path) -> None:
    """Write an archive of schemas and their license notice, without dates."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted({"NOTICE": NOTICE.encode(), **schemas}.items()):
            archive.writestr(zipfile.ZipInfo(name, _DATE), content, zipfile.ZIP_DEFLATED)


if __name__ == "__main__":
    sys.exit(main())
