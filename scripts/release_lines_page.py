"""Write docs/release-lines.md from the release data; with --check, report whether it is up to date."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

from activemq_fleet.releases import Release, known_release_lines, supported_release_lines
from activemq_fleet.releases._data import load_releases_and_advisories
from scripts.generated_page import DOCS, write_or_check

PAGE = DOCS / "release-lines.md"
TESTED = DOCS / "releases.md"

_HEAD = """\
<!-- Made by `make rules` from src/activemq_fleet/releases and docs/releases.md. -->
# Release lines

The data of this version covers {count} releases of ActiveMQ Classic, from {oldest} to {newest}. {supported}
get security fixes from ActiveMQ's project (its SECURITY.md of {as_of}; in 5.19, Spring and Jetty get none).
Rule [S022](rules.md) reports a broker of another line, and [S002](rules.md) a broker with published vulnerabilities.

| line | newest known | security fixes | open vulnerabilities | Java | Jetty | Spring | tested failover |
|---|---|---|---|---|---|---|---|
"""
_TAIL = """
*Open vulnerabilities* counts the published vulnerabilities of the newest known release. *Java* is the oldest version
that runs it, *Jetty* and *Spring* are the versions that it ships. *Tested failover* lists the releases that
[have failed over](releases.md) without loss.

## Newer releases

A newer patch release has the data of the newest known release of its line. The next two lines of a major version, such
as 6.4 and 6.5 after 6.3, have the data of its newest known line. `init`, `check`, `plan` and the playbooks print a
warning that names the release whose data they use. Published fixes apply: 6.4.0 is not reported for a vulnerability
that 6.3.2 fixes. All other lines and major versions are errors: their files can differ in any way, and a number such as
5.81.3 is more likely a wrong digit than a release.

## Update the data

With clones of ActiveMQ's two repositories, `apache/activemq` (with tags) and `apache/activemq-website`, run
`make release-data SOURCE=../activemq WEBSITE=../activemq-website WRITE=1`.

The command compares each release tag with the data and prints every difference: versions of Java, Jetty and Spring,
transports, version numbers of stores, files of the configuration, new elements and attributes, supported lines and
published vulnerabilities. With `WRITE=1`, it enters a new patch release that has no difference. Enter the rest by hand:
the output names the file and the table.
"""


def main(arguments: list[str]) -> int:
    """Write the page, or with --check return 1 if it is out of date."""
    return write_or_check(PAGE, "".join(_page()), "the release data", arguments)


def _page() -> Iterator[str]:
    data = load_releases_and_advisories()
    lines = known_release_lines()
    supported = supported_release_lines()
    yield _HEAD.format(
        count=sum(line.last_patch + 1 for line in data.lines.values()),
        oldest=f"{lines[0]}.0",
        newest=data.newest_release(lines[-1]),
        supported=f"The lines {', '.join(supported[:-1])} and {supported[-1]}",
        as_of=f"{data.support_date:%-d %B %Y}",
    )
    tested = re.findall(r"^\| (\d+\.\d+\.\d+) \|", TESTED.read_text("utf-8"), re.MULTILINE)
    for line in reversed(lines):
        release = Release.of(data.newest_release(line))
        cells = (
            line,
            release.text,
            "yes" if release.gets_security_fixes else "no",
            str(len(release.advisories) or "none"),
            str(release.java_minimum),
            release.jetty,
            release.spring,
            ", ".join(text for text in tested if Release.of(text).line == line),
        )
        yield f"| {' | '.join(cells)} |\n"
    yield _TAIL


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
