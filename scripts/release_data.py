"""Compare the data about ActiveMQ's releases with ActiveMQ's source repository, and add new patch releases to it.

    python -m scripts.release_data DIRECTORY [--website DIRECTORY] [--write]

DIRECTORY is a clone of the repository apache/activemq with its tags, --website a clone of apache/activemq-website. The
script reads each release tag and reports every fact that differs from `src/activemq_fleet/releases/`. Facts are the
Java, Jetty and Spring versions, the transports, the version numbers of stores, the configuration files and the elements
of the XML schema. Further facts are the lines with security fixes (SECURITY.md) and the published vulnerabilities (the
website). With --write, the script enters a new patch release of a known line if its facts equal those of the line.
Enter all other differences manually: the report names the file and the table. The exit code is 1 if a difference
remains.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from activemq_fleet.errors import ReleaseError
from activemq_fleet.releases import Release, known_release_lines, supported_release_lines
from activemq_fleet.releases._data import load_element_and_attribute_spans, load_releases_and_advisories
from activemq_fleet.releases._spans import parse_version

DATA = Path(__file__).resolve().parents[1] / "src" / "activemq_fleet" / "releases"
Facts = Mapping[str, str]
"""The facts about a release by their name in the data files, as text; sets are sorted and joined by spaces."""

_TAG = re.compile(r"activemq-(\d+\.\d+\.\d+)")
_SERVICES = "META-INF/services/org/apache/activemq/transport/"
# Transports that a broker cannot listen on. The clients of amqp+ws and amqp+wss connect to ws and wss.
_NO_LISTENERS = frozenset(
    ["amqp+ws", "amqp+wss", "discovery", "failover", "fanout", "kdbr", "mock", "multicast", "peer"]
)
# Vulnerabilities of the .NET client that the page of the broker lists, too.
_OF_CLIENTS = frozenset({"CVE-2025-29953", "CVE-2025-54539"})
_XBEAN = re.compile(r'@org\.apache\.xbean\.XBean(?:\s+element\s*=\s*"(?P<element>[^"]+)")?')
_SETTER = re.compile(r"^\s*public \S+ set([A-Z]\w*)\(", re.MULTILINE)


class ReadError(Exception):
    """An error for a repository that cannot be read, or for a file with an unexpected format."""


@dataclass(frozen=True)
class Repository:
    """A clone of a repository of ActiveMQ's project, read with git."""

    directory: Path

    def git(self, *arguments: str) -> str:
        """Return the output of a git command. Raises ReadError with git's message if it fails."""
        command = ["git", "-C", str(self.directory), *arguments]
        run = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        if run.returncode:
            problem = run.stderr.strip().splitlines()
            raise ReadError(f"git {arguments[0]} in {self.directory}: {problem[-1] if problem else 'failed'}")
        return run.stdout

    def releases(self) -> list[str]:
        """Return the releases that have a tag and are not older than the known lines, oldest first."""
        oldest = parse_version(f"{known_release_lines()[0]}.0")
        texts = (match[1] for tag in self.git("tag").split() if (match := _TAG.fullmatch(tag)))
        return sorted((text for text in texts if parse_version(text) >= oldest), key=parse_version)

    def files(self, revision: str) -> list[str]:
        """Return the paths of all files of a revision, without those of tests."""
        paths = self.git("ls-tree", "-r", "--name-only", revision).splitlines()
        return [path for path in paths if "/src/test/" not in path]

    def text(self, revision: str, path: str) -> str:
        """Return the content of a file in a revision."""
        return self.git("show", f"{revision}:{path}")


def source_facts(repository: Repository, release: str) -> Facts:
    """Return the facts about a release according to its source."""
    tag = f"activemq-{release}"
    paths = repository.files(tag)
    pom = repository.text(tag, "pom.xml")
    transports = {PurePosixPath(path).name for path in paths if re.search(f"{_SERVICES}[^/]+$", path)}
    agents = {PurePosixPath(path).name for path in paths if f"{_SERVICES}discoveryagent/" in path}
    commands = repository.text(tag, _only(paths, "/command/CommandTypes.java"))
    store = repository.text(tag, _only(paths, "/store/kahadb/MessageDatabase.java"))
    conf, scripts = "assembly/src/release/conf/", "assembly/src/release/bin/"
    environment = next((name for name in ("setenv", "env") if f"{scripts}{name}" in paths), None)
    return {
        "java_minimum": _java(pom),
        "jetty": _jetty(pom),
        "spring": _number(pom, r"<spring-version>(\d+\.\d+)"),
        "schemes": " ".join(sorted(transports - _NO_LISTENERS)),
        "discovery_schemes": " ".join(sorted(agents)),
        # The first version of the store has no constant.
        "kahadb_version": _number(store, r" VERSION = (\d+)") or "1",
        "store_openwire": _number(commands, r"PROTOCOL_STORE_VERSION = (\d+)")
        or _number(commands, r"PROTOCOL_VERSION = (\d+)"),
        "log_file_name": "log4j2.properties" if f"{conf}log4j2.properties" in paths else "log4j.properties",
        "console_file": "jetty-spring.xml" if f"{conf}jetty-spring.xml" in paths else "jetty.xml",
        "environment_file": f"bin/{environment}" if environment else "etc/default",
    }


def data_facts(release: Release) -> Facts:
    """Return the facts of :func:`source_facts` according to the data files."""
    names = ("java_minimum", "jetty", "spring", "kahadb_version", "store_openwire", "log_file_name", "console_file")
    facts = {name: str(getattr(release, name)) for name in (*names, "environment_file")}
    return facts | {name: " ".join(sorted(getattr(release, name))) for name in ("schemes", "discovery_schemes")}


def differences(source: Facts, data: Facts) -> list[str]:
    """Return a line for each fact that differs."""
    return [
        f"{name}: the source has {value or 'nothing'}, the data {data[name] or 'nothing'}"
        for name, value in source.items()
        if value != data[name]
    ]


def unknown_elements(repository: Repository, release: str) -> list[str]:
    """Return the elements of the XML schema that classes of a release declare, and attributes.toml does not contain."""
    spans = load_element_and_attribute_spans().elements
    return [element for element in sorted(_elements(repository, release)) if element not in spans]


def new_setters(repository: Repository, release: str, previous: str) -> list[str]:
    """Return ``element.attribute`` for each setter of an element's class that the previous release does not contain."""
    before = _elements(repository, previous)
    names: list[str] = []
    for element, path in sorted(_elements(repository, release).items()):
        setters = _setters(repository, release, path)
        known = _setters(repository, previous, before[element]) if element in before else set()
        names += [f"{element}.{name}" for name in sorted(setters - known)]
    return names


def lines_with_security_fixes(repository: Repository, revision: str = "HEAD") -> tuple[str, ...]:
    """Return the release lines that SECURITY.md lists as supported, oldest first."""
    rows = re.findall(r"^\|\s*(\d+\.\d+)\.x\s*\|\s*:white_check_mark:", repository.text(revision, "SECURITY.md"), re.M)
    if not rows:
        raise ReadError("SECURITY.md lists no supported line: the format of its table is unexpected")
    return tuple(sorted(rows, key=lambda line: tuple(map(int, line.split(".")))))


def unknown_advisories(website: Repository) -> list[str]:
    """Return the numbers of the vulnerabilities of ActiveMQ Classic that advisories.toml does not contain.

    advisories.toml contains all vulnerabilities since 2020, and older ones that a current configuration or release can
    still have. This function checks those since 2020.
    """
    page = website.text("HEAD", "src/components/classic/security.md")
    published = set(re.findall(r"CVE-20[2-9]\d-\d+", page))
    known = {advisory.cve for advisory, _, _ in load_releases_and_advisories().advisories}
    return sorted(published - known - _OF_CLIENTS)


def _elements(repository: Repository, release: str) -> dict[str, str]:
    tag = f"activemq-{release}"
    paths: dict[str, str] = {}
    for line in repository.git("grep", "-I", "org.apache.xbean.XBean", tag, "--", "*.java").splitlines():
        path, _, text = line.removeprefix(f"{tag}:").partition(":")
        match = _XBEAN.search(text)
        if match and "/src/test/" not in path:
            name = PurePosixPath(path).stem
            paths[match["element"] or name[:1].lower() + name[1:]] = path
    return paths


def _setters(repository: Repository, release: str, path: str) -> set[str]:
    names = _SETTER.findall(repository.text(f"activemq-{release}", path))
    return {name[:1].lower() + name[1:] for name in names}


def _only(paths: Sequence[str], end: str) -> str:
    path = next((path for path in paths if path.endswith(end)), None)
    if path is None:
        raise ReadError(f"the source contains no file whose path ends with {end}")
    return path


def _number(text: str, pattern: str) -> str:
    match = re.search(pattern, text)
    return match[1].rstrip(".") if match else ""


def _jetty(pom: str) -> str:
    default = re.search(r"<jetty-version>\$\{(jetty\d-version)\}", pom)
    return _number(pom, rf"<{default[1] if default else 'jetty-version'}>(\d+\.\d+)")


def _java(pom: str) -> str:
    version = (
        _number(pom, r"<javaVersion>([\d.]+)")
        or _number(pom, r"<target-version>([\d.]+)")
        or _number(pom, r"<source-version>([\d.]+)")
        or _number(pom, r"<target>([\d.]+)")
    )
    return version.removeprefix("1.")


def enter_patch(text: str, line: str, patch: int) -> str:
    """Return the content of releases.toml with a different newest patch number of a line."""
    changed, count = re.subn(rf'(?m)^("{re.escape(line)}" = {{ last_patch = )\d+', rf"\g<1>{patch}", text)
    if count != 1:
        raise ReadError(f"releases.toml contains no entry of the line {line}")
    return changed


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the differences, enter new patch releases with --write, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m scripts.release_data", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("repository", type=Path, help="a clone of apache/activemq, with tags")
    parser.add_argument("--website", type=Path, help="a clone of apache/activemq-website")
    parser.add_argument("--write", action="store_true", help="enter new patch releases into releases.toml")
    options = parser.parse_args(arguments)
    try:
        remaining = _report(Repository(options.repository), options.website, write=options.write)
    except ReadError as error:
        print(f"release_data: {error}", file=sys.stderr)
        return 2
    return 1 if remaining else 0


def _report(repository: Repository, website: Path | None, *, write: bool) -> int:
    texts = repository.releases()
    if not texts:
        raise ReadError(f"{repository.directory} has no tag such as activemq-5.18.3: fetch the tags")
    print(f"{len(texts)} release tags, {texts[0]} to {texts[-1]}")
    remaining = 0
    previous: dict[int, str] = {}
    for text in texts:
        try:
            release = Release.of(text)
        except ReleaseError:
            remaining += _report_new_line(text)
            continue
        lines = differences(source_facts(repository, text), data_facts(release))
        if not release.known:
            lines += _new_elements_and_setters(repository, text, previous.get(release.version[0]))
        for line in lines:
            print(f"{text}: {line}")
        remaining += len(lines)
        if not release.known:
            remaining += _enter_patch_release(release, lines, write=write)
        previous[release.version[0]] = text
    remaining += _compare_support(lines_with_security_fixes(repository))
    if website is not None:
        for cve in unknown_advisories(Repository(website)):
            print(f"advisories.toml: {cve} is missing")
            remaining += 1
    print("the data and the source agree" if not remaining else f"{remaining} differences remain")
    return remaining


def _new_elements_and_setters(repository: Repository, text: str, previous: str | None) -> list[str]:
    lines = [f"attributes.toml: the element {element} is new" for element in unknown_elements(repository, text)]
    if previous is not None:
        lines += [f"attributes.toml: check {name}: {previous} has no setter for it"
                  for name in new_setters(repository, text, previous)]  # fmt: skip
    return lines


def _enter_patch_release(release: Release, lines: Sequence[str], *, write: bool) -> int:
    """Enter a new patch release if nothing about it differs; return 1 if it remains to be entered, else 0."""
    if release.line not in known_release_lines():
        return _report_new_line(str(release))
    if lines or not write:
        print(f"{release}: new patch release{', not entered because of the differences above' if lines else ''}")
        return 1
    path = DATA / "releases.toml"
    path.write_text(enter_patch(path.read_text("utf-8"), release.line, release.version[2]), "utf-8")
    print(f"{release}: entered as the newest release of {release.line}")
    return 0


def _report_new_line(text: str) -> int:
    print(f"{text}: releases.toml: the line {text.rpartition('.')[0]} is new: add it to [lines]")
    return 1


def _compare_support(lines: tuple[str, ...]) -> int:
    if lines == supported_release_lines():
        return 0
    print(
        f"releases.toml [support]: SECURITY.md lists {' '.join(lines)}, the data {' '.join(supported_release_lines())}"
    )
    return 1


if __name__ == "__main__":
    sys.exit(main())
