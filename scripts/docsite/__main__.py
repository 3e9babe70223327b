"""Build the documentation site with Zensical: assemble the pages, generate the reference, check every link.

    python -m scripts.docsite            build/site/VERSION, with search; a broken link fails the build
    python -m scripts.docsite --serve    the same, and a web server on 127.0.0.1 until Ctrl-C

``build/site`` holds one directory per version, ``versions.json`` for the version selector, and an ``index.html`` that
leads to the newest version.
"""

from __future__ import annotations

import argparse
import functools
import json
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path, PurePosixPath

from activemq_fleet import __version__
from scripts.check_ansible_doc import documented_plugins
from scripts.docsite.ansible_pages import plugin_pages, variable_pages
from scripts.docsite.command_pages import command_line_page
from scripts.docsite.page_links import rewrite_links
from scripts.docsite.rule_pages import rule_pages, rules_index

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "documentation"
SITE = ROOT / "build" / "site"
CONFIGURATION = "zensical.toml"
_FURTHER_PAGES = {
    PurePosixPath("CHANGELOG.md"): PurePosixPath("changelog.md"),
    PurePosixPath("CONTRIBUTING.md"): PurePosixPath("contributing.md"),
    PurePosixPath("SECURITY.md"): PurePosixPath("report-a-vulnerability.md"),
    PurePosixPath("tests/README.md"): PurePosixPath("tests.md"),
    PurePosixPath("docs/pictures/README.md"): PurePosixPath("pictures.md"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Build the site and return 0, or return the exit code of Zensical after its messages."""
    parser = argparse.ArgumentParser(prog="python -m scripts.docsite", description="Build the documentation site.")
    parser.add_argument("--serve", action="store_true", help="serve the site on a free port of 127.0.0.1 afterwards")
    options = parser.parse_args(arguments)
    shutil.rmtree(WORK, ignore_errors=True)
    write_pages(WORK / "pages")
    shutil.copyfile(ROOT / CONFIGURATION, WORK / CONFIGURATION)
    zensical = [str(Path(sys.executable).with_name("zensical")), "build", "--strict", "--clean"]
    built = subprocess.run(zensical, cwd=WORK, check=False, capture_output=True, text=True)
    if built.returncode:
        # Zensical prints a traceback after its messages; the messages name file and line.
        print((built.stdout + built.stderr).partition("Traceback")[0], file=sys.stderr)
        return built.returncode
    if missing := sorted(_missing_navigation_pages()):
        print(f"{CONFIGURATION}: the navigation names pages that do not exist: {', '.join(missing)}", file=sys.stderr)
        return 1
    publish(WORK / "site", SITE, __version__)
    print(f"documentation: {SITE / __version__ / 'index.html'}")
    if options.serve:
        _serve(SITE)
    return 0


def write_pages(directory: Path) -> None:
    """Write all pages of the site as Markdown into ``directory``, and copy the pictures."""
    pages = pages_by_source()
    generated = generated_pages(pages)
    for source, page in pages.items():
        if page in generated:
            continue
        if page.suffix == ".md":
            text = rewrite_links((ROOT / source).read_text(encoding="utf-8"), source, page, pages)
            _write(directory / page, text)
        else:
            (directory / page).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / source, directory / page)
    for page, text in generated.items():
        _write(directory / page, text)


def pages_by_source() -> Mapping[PurePosixPath, PurePosixPath]:
    """Return the path in the site of each file of the repository that the site contains."""
    docs = {
        PurePosixPath(path.relative_to(ROOT)): PurePosixPath(path.relative_to(ROOT / "docs"))
        for path in sorted((ROOT / "docs").rglob("*"))
        if path.is_file() and path.suffix in {".md", ".png", ".svg", ".html"}
    }
    examples = {
        PurePosixPath(path.relative_to(ROOT)): PurePosixPath("examples") / f"{path.parent.name}.md"
        for path in sorted((ROOT / "examples").glob("*/README.md"))
    }
    pictures = {
        PurePosixPath(path.relative_to(ROOT)): PurePosixPath(path.relative_to(ROOT))
        for path in sorted((ROOT / "examples" / "pictures").glob("*.svg"))
    }
    return docs | examples | pictures | _FURTHER_PAGES


def generated_pages(sources: Mapping[PurePosixPath, PurePosixPath]) -> dict[PurePosixPath, str]:
    """Return the pages of the reference that are generated from code; ``sources`` are those of ``pages_by_source``."""
    documented = documented_plugins()
    topology_errors = PurePosixPath("docs/topology-errors.md")
    return {
        PurePosixPath("rules.md"): rules_index(),
        PurePosixPath("commands.md"): command_line_page(),
        **{page: rewrite_links(text, topology_errors, page, sources) for page, text in rule_pages().items()},
        **variable_pages(documented),
        **plugin_pages(documented),
    }


def publish(built: Path, site: Path, version: str) -> None:
    """Move a built site to its version's directory, and update the list of versions and the start page."""
    site.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(site / version, ignore_errors=True)
    shutil.move(built, site / version)
    versions = sorted((path.parent.name for path in site.glob("*/index.html")), key=_version_key, reverse=True)
    entries = [
        {"version": name, "title": name, "aliases": ["latest"] if name == versions[0] else []} for name in versions
    ]
    _write(site / "versions.json", json.dumps(entries, indent=2) + "\n")
    _write(
        site / "index.html",
        f'<!doctype html>\n<meta charset="utf-8">\n<title>activemq.fleet</title>\n'
        f'<meta http-equiv="refresh" content="0; url={versions[0]}/index.html">\n'
        f'<a href="{versions[0]}/index.html">activemq.fleet {versions[0]}</a>\n',
    )


def _version_key(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def _missing_navigation_pages() -> Iterator[str]:
    configuration = tomllib.loads((ROOT / CONFIGURATION).read_text(encoding="utf-8"))
    yield from (page for page in _pages_of(configuration["project"]["nav"]) if not (WORK / "pages" / page).is_file())


def _pages_of(navigation: object) -> Iterator[str]:
    match navigation:
        case str():
            yield navigation
        case list():
            for part in navigation:
                yield from _pages_of(part)
        case dict():
            for part in navigation.values():
                yield from _pages_of(part)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _serve(directory: Path) -> None:
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(directory))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        print(f"serving http://127.0.0.1:{server.server_port}/ until Ctrl-C")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()


if __name__ == "__main__":
    sys.exit(main())
