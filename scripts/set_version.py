"""Set the version of library, collection and agent, or check that every file contains it.

    python -m scripts.set_version VERSION
    python -m scripts.set_version --check [--tag TAG]

The source is src/activemq_fleet/_version.py. galaxy.yml, the plugins of the collection, and the names of built
files in the documentation contain copies of it. ``--tag`` also requires that the tag of a release is ``v`` and the
version, that the changelog has a release of it, and that no fragment remains.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = "src/activemq_fleet/_version.py"
_VERSION_FORMAT = re.compile(r"(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)")
_ASSIGNED = re.compile(r'(?<=^__version__ = ")[^"]*(?="$)', re.MULTILINE)
_GALAXY = re.compile(r"(?<=^version: )\S+$", re.MULTILINE)
_COLLECTION = "plugins/plugin_utils/library.py"
_COMPARED = re.compile(r'(?<=^COLLECTION_VERSION = ")[^"]*(?="$)', re.MULTILINE)
_BUILT_FILES = re.compile(
    r"(?:(?<=\bactivemq_fleet-)|(?<=\bactivemq_agent-))\d+\.\d+\.\d+(?=-py3-none-any)"
    r"|(?:(?<=\bactivemq-fleet-)|(?<=\bactivemq-agent-wheelhouse-))\d+\.\d+\.\d+(?=\.tar\.gz)"
    r"|(?<=\bactivemq-agent==)\d+\.\d+\.\d+"
    r"|(?<=library `activemq-fleet` of version )\d+\.\d+\.\d+"
)
# The changelog describes earlier versions; tests contain invented ones.
_EXCLUDED = ("CHANGELOG.md", "changelogs/", "tests/", "requirements/", "scripts/")


class VersionError(Exception):
    """A version does not have the form MAJOR.MINOR.PATCH, or a file contains a different version."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Set or check the version; print one line for each problem."""
    parser = argparse.ArgumentParser(prog="set_version", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("version", nargs="?", help="the new version, MAJOR.MINOR.PATCH")
    parser.add_argument("--check", action="store_true", help="exit 1 if a file contains a different version")
    parser.add_argument("--tag", help="with --check: the tag of the release")
    options = parser.parse_args(arguments)
    if options.check == bool(options.version) or (options.tag is not None and not options.check):
        parser.error("give either a version, or --check with or without --tag")
    try:
        if options.version:
            for name in set_version(ROOT, options.version):
                print(name)
            return 0
        problems = [*find_differences(ROOT), *([] if options.tag is None else find_release_problems(ROOT, options.tag))]
    except VersionError as error:
        problems = [str(error)]
    for problem in problems:
        print(f"set_version: error: {problem}", file=sys.stderr)
    return 1 if problems else 0


def source_version(root: Path) -> str:
    """Return the version in its source file."""
    match = _ASSIGNED.search((root / SOURCE).read_text("utf-8"))
    if match is None or not _VERSION_FORMAT.fullmatch(match[0]):
        raise VersionError(f'{SOURCE} has no line __version__ = "MAJOR.MINOR.PATCH": write it')
    return match[0]


def set_version(root: Path, version: str) -> list[str]:
    """Write a version to its source and every file that contains it; return the names of changed files."""
    if not _VERSION_FORMAT.fullmatch(version):
        # Galaxy requires versions of semver, and pip requires those of PEP 440. This form is valid for both.
        raise VersionError(f"{version!r} is not MAJOR.MINOR.PATCH, for example 0.2.0")
    changed = []
    for name, pattern in _files_with_version(root):
        text = (root / name).read_text("utf-8")
        replaced = pattern.sub(version, text)
        if replaced != text:
            (root / name).write_text(replaced, encoding="utf-8")
            changed.append(name)
    return changed


def find_differences(root: Path) -> Iterator[str]:
    """Yield ``FILE:LINE: message`` for each version that differs from the version in the source."""
    version = source_version(root)
    for name, pattern in _files_with_version(root):
        text = (root / name).read_text("utf-8")
        for match in pattern.finditer(text):
            if match[0] != version:
                line = text.count("\n", 0, match.start()) + 1
                command = f"python -m scripts.set_version {version}"
                yield f"{name}:{line}: {match[0]} is not the version {version}: run `{command}`"


def find_release_problems(root: Path, tag: str) -> Iterator[str]:
    """Yield a message if the tag of a release does not match the version, or the changelog has no release of it."""
    version = source_version(root)
    if tag != f"v{version}":
        yield f"the tag {tag} is not v{version}: set the version, commit, and tag that commit with v and the version"
    changelogs = root / "changelogs"
    # A release workflow runs this before it installs any package, so that no YAML parser is available.
    if not re.search(rf"^  {re.escape(version)}:", (changelogs / "changelog.yaml").read_text("utf-8"), re.MULTILINE):
        yield f"changelogs/changelog.yaml has no release {version}: run `antsibull-changelog release` before the tag"
    elif fragments := sorted(path.name for path in (changelogs / "fragments").glob("*.y*ml")):
        command = "antsibull-changelog release --update-existing"
        problem = f"the release {version} lacks the fragment {fragments[0]} ({len(fragments)} in all)"
        yield f"{problem}: run `{command}` before the tag"


def _files_with_version(root: Path) -> Iterator[tuple[str, re.Pattern[str]]]:
    yield SOURCE, _ASSIGNED
    yield "galaxy.yml", _GALAXY
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, check=True).stdout.decode()
    for name in filter(None, listed.split("\0")):
        path = root / name
        if name in (SOURCE, "galaxy.yml") or name.startswith(_EXCLUDED) or path.is_symlink() or not path.is_file():
            continue
        if path.suffix in (".md", ".yml", ".yaml", ".py", ".json"):
            yield name, _COMPARED if name == _COLLECTION else _BUILT_FILES


if __name__ == "__main__":
    sys.exit(main())
