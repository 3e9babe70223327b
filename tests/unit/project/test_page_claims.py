"""Claims of README and pages that a reader can verify: commands of the examples, numbers, releases, lists."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest
import yaml
from markdown_it import MarkdownIt

from activemq_fleet import build_fleet, check_fleet, render_fleet
from activemq_fleet.cli.formats.report import finding_grouping_key
from activemq_fleet.inventory import load_fleet
from activemq_fleet.releases import Release, known_release_lines
from activemq_fleet.releases._data import load_releases_and_advisories

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "examples").glob("*/README.md")])
EXAMPLES = sorted(path.parent.name for path in (ROOT / "examples").glob("*/hosts.yml"))
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_LINKED_EXAMPLES = re.compile(r"\[?(\w+)(?: example)? inventories\b[^.]*\.")
_SINCE = re.compile(r"(?i)\b(?:since|from|before|until) (?:version |release )?`?(0\.\d+\.\d+)\b")
_ITEM_WITHIN_PARAGRAPH = re.compile(r"(?m)(?:^|(?<=[.:;)] ))\d{1,2}\. (?=\*\*)|^\d{1,2}\. ")
OLD_MIGRATE = """\
3. **Durable subscribers** must move themselves. Each one
   - subscribes at the new pair first

Until then migrate refuses. A subscription is removed (`unsubscribe`). 4. **Publishers** move last, to the same list of
the new pair. 5. **Balancers** point to the new pair.
"""
WRAPPED_MIGRATE = """\
Until then migrate refuses.
4. **Publishers** move last.
"""


def variables_that_site_requires(example: str) -> set[str]:
    """Return the variables that the playbook site requires and an example lacks, as check names them (T030)."""
    fleet = load_fleet([str(ROOT / "examples" / example)])
    messages = [
        finding.message for finding in check_fleet(fleet, schema_of=None, select=["T"]) if finding.rule == "T030"
    ]
    return {name for message in messages for name in re.findall(r"activemq_\w+", message.partition(", but ")[2])}


def list_items_within_paragraphs(text: str) -> list[str]:
    """Return the beginnings of list items that Markdown reads as text of the paragraph before them."""
    tokens = MarkdownIt("commonmark").parse(text)
    paragraphs = [
        token.content for previous_token, token in itertools.pairwise(tokens) if previous_token.type == "paragraph_open"
    ]
    return [
        text[match.start() : match.start() + 30]
        for text in paragraphs
        for match in _ITEM_WITHIN_PARAGRAPH.finditer(text)
    ]


def test_readme_counts_linked_example_inventories() -> None:
    readme = " ".join((ROOT / "README.md").read_text("utf-8").split())
    sentence = _LINKED_EXAMPLES.search(readme)

    assert sentence is not None
    assert sentence[1].lower() == NUMBERS[len(EXAMPLES)]
    assert [name for name in EXAMPLES if f"(examples/{name}/README.md)" not in readme] == []


def test_jolokia_policy_comes_from_release_archive_as_page_states() -> None:
    files = render_fleet(build_fleet({"a-mq01-a": {"activemq_release": "6.3.1", "activemq_ha": "none"}}))
    (environment,) = (content for name, content in files.items() if name.endswith("/bin/setenv"))
    assert b"conf/jolokia-access.xml" in environment
    assert not any("jolokia" in name for name in files)
    page = (ROOT / "docs" / "first-failover.md").read_text("utf-8")
    assert "from the archive of the release, such as `jolokia-access.xml`" in page


def test_readme_has_at_most_150_lines() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 150


def test_readme_shows_commands_for_hosts_that_tests_run_from_other_pages() -> None:
    """The host tests execute both pages."""
    tested_text = "\n".join((ROOT / "docs" / name).read_text("utf-8") for name in ("first-pair.md", "adopting.md"))
    readme = (ROOT / "README.md").read_text("utf-8")
    commands = re.findall(r"(?m)^(?:ansible-playbook|activemq-fleet status) [^#\n]*", readme)
    assert len(commands) == 5
    assert [command for command in commands if f"\n{command.rstrip()}\n" not in tested_text] == []


def test_readme_shows_same_variables_for_hosts_as_tested_page() -> None:
    tested_lines = (ROOT / "docs" / "first-pair.md").read_text("utf-8").splitlines()
    block = re.search(r"(?s)```yaml\n(    ansible_become.*?)```", (ROOT / "README.md").read_text("utf-8"))
    assert block is not None
    lines = [line.partition("  #")[0] for line in block[1].splitlines()]
    assert [line for line in lines if line not in tested_lines] == []


def test_collection_page_shows_inventory_of_tested_page() -> None:
    """A host without the id of the account is refused, and a broker without users rejects every client."""
    inventories = []
    for page in ("GALAXY.md", "docs/first-pair.md"):
        sample = re.search(r'(?s)```yaml title="hosts.yml"\n(.*?)```', (ROOT / page).read_text("utf-8"))
        assert sample is not None
        inventories.append(yaml.safe_load(sample[1]))

    assert inventories[0] == inventories[1]


def test_page_names_oldest_java_of_each_release_line() -> None:
    page = (ROOT / "docs" / "first-pair.md").read_text("utf-8")
    lines = known_release_lines()
    data = load_releases_and_advisories()
    java_of_line = {line: Release.of(data.newest_release(line)).java_minimum for line in lines}
    documented: dict[str, int] = {}
    for first, last, java in re.findall(r"\b(5\.\d+) (?:to|and) (5\.\d+): (\d+)", page):
        documented |= dict.fromkeys((f"5.{number}" for number in range(int(first[2:]), int(last[2:]) + 1)), int(java))

    assert documented == {
        line: java for line, java in java_of_line.items() if line.startswith("5.") and int(line[2:]) >= 5
    }
    assert {java for line, java in java_of_line.items() if line.startswith("6.")} == {17}
    assert "ActiveMQ 6.0 and later: 17." in page


def test_repair_settings_of_page_are_accepted_with_warning() -> None:
    page = (ROOT / "docs" / "shared-stores.md").read_text("utf-8")
    block = re.search(r"(?s)```yaml\n( +activemq_xml_fragments:.*?)```", page)
    assert block is not None
    variables = yaml.safe_load(block[1]) | {"activemq_release": "6.3.1", "activemq_ha": "none"}
    findings = [finding for finding in check_fleet(build_fleet({"a-mq01-a": variables})) if finding.rule == "L024"]

    assert [finding.severity for finding in findings] == ["warning"]


def test_readme_explains_every_warning_of_its_sample(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    sample = re.search(r'(?s)```yaml title="hosts.yml"\n(.*?)```', readme)
    assert sample is not None
    (tmp_path / "hosts.yml").write_text(sample[1])
    findings = check_fleet(load_fleet([str(tmp_path / "hosts.yml")]), schema_of=None)
    warnings = [finding for finding in findings if finding.severity == "warning"]
    mistakes = {finding_grouping_key(finding) for finding in warnings}
    newer_releases = {match[1] for finding in warnings if (match := re.search(r"is older than (\S+)", finding.message))}

    assert [finding for finding in findings if finding.severity == "error"] == []
    assert f"prints {len(mistakes)} expected warnings" in readme
    assert sorted(finding.rule for finding in warnings if f"{finding.rule}" not in readme) == []
    assert newer_releases
    assert sorted(release for release in newer_releases if f"{release} fixes" not in readme) == []


def test_readme_shows_each_report_in_light_and_dark() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    for name in ("drill", "audit"):
        dark = rf'<source media="\(prefers-color-scheme: dark\)" srcset="docs/pictures/{name}-dark\.png">'
        assert re.search(rf'<picture>\s*{dark}\s*<img alt="[^"]+" src="docs/pictures/{name}\.png"', readme), name


def test_readme_promises_for_examples_only_commands_that_accept_all_of_them() -> None:
    readme = " ".join((ROOT / "README.md").read_text("utf-8").split())
    sentence = _LINKED_EXAMPLES.search(readme)
    refused_examples = [name for name in EXAMPLES if variables_that_site_requires(name)]

    assert sentence is not None
    assert refused_examples
    assert not re.search(r"every command|all commands|`site`", sentence[0] + readme[sentence.end() :][:120])


@pytest.mark.parametrize("example", EXAMPLES)
def test_readme_of_example_names_variables_that_site_requires(example: str) -> None:
    readme = (ROOT / "examples" / example / "README.md").read_text("utf-8")
    required_variables = variables_that_site_requires(example)

    assert "activemq.fleet.site" in readme
    assert required_variables
    assert sorted(name for name in required_variables if f"`{name}`" not in readme) == []


def test_pages_count_variables_of_broker_settings() -> None:
    number = len(re.findall(r"(?m)^## `activemq_\w+`$", (ROOT / "docs" / "broker-settings.md").read_text("utf-8")))
    counts = [
        match[1].lower()
        for page in PAGES
        for match in re.finditer(r"\[(\w+) (?:variables|of them)\]\((?:docs/)?broker-settings\.md\)", page.read_text())
    ]

    assert counts
    assert set(counts) == {NUMBERS[number]}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page_names_only_released_versions(page: Path) -> None:
    released = set(re.findall(r"(?m)^## v(\d+\.\d+\.\d+)$", (ROOT / "CHANGELOG.md").read_text("utf-8")))

    assert sorted(set(_SINCE.findall(page.read_text("utf-8"))) - released) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page_has_no_list_item_within_paragraph(page: Path) -> None:
    assert list_items_within_paragraphs(page.read_text("utf-8")) == []


@pytest.mark.parametrize("text", [OLD_MIGRATE, WRAPPED_MIGRATE])
def test_list_item_within_paragraph_is_detected(text: str) -> None:
    assert [item.split()[1] for item in list_items_within_paragraphs(text)][:1] == ["**Publishers**"]
