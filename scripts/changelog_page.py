"""Write CHANGELOG.md from the files in changelogs/; with --check, report whether it is up to date.

antsibull-changelog renders the releases of changelogs/changelog.yaml. Before them the page has a section with the
fragments of the next release, so that users can read changes that are not released yet.
"""

from __future__ import annotations

import sys
from pathlib import Path

from antsibull_changelog.changelog_generator import ChangelogEntry
from antsibull_changelog.changes import load_changes
from antsibull_changelog.config import ChangelogConfig, CollectionDetails, PathsConfig
from antsibull_changelog.fragment import ChangelogFragment, load_fragments
from antsibull_changelog.rendering.changelog import ChangelogGenerator, create_document_renderer

from scripts.generated_page import simplify_markdown, write_or_check

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "CHANGELOG.md"


def main(arguments: list[str]) -> int:
    """Write the page, or with --check return 1 if it is out of date."""
    return write_or_check(PAGE, simplify_markdown(render_changelog(ROOT)), "the files in changelogs/", arguments)


def render_changelog(root: Path) -> str:
    """Return the Markdown of antsibull-changelog, with the fragments below ``root`` as the first section."""
    paths = PathsConfig.force_collection(str(root))
    config = ChangelogConfig.load(paths, CollectionDetails(paths))
    (output,) = config.output
    generator = ChangelogGenerator(config, load_changes(config), render_config=output)
    renderer = create_document_renderer(output.format)
    renderer.set_title(generator.get_title())
    unreleased = ChangelogEntry("")
    unreleased.changes = ChangelogFragment.combine(load_fragments(paths, config))
    if not unreleased.empty:
        section = renderer.add_section("Unreleased")
        generator.append_changelog_entry(section, unreleased)
        section.close()
    generator.generate_to(renderer)
    page = renderer.render()
    if warnings := renderer.get_warnings():
        sys.exit(f"changelog_page: error: {'; '.join(warnings)}")
    return page


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
