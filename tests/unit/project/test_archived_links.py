"""The pages of the collection's archive name only what the archive and the library contain."""

from __future__ import annotations

import hashlib
import json
import re
import tarfile
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from activemq_fleet.cli.main import fleet_cli
from scripts.archived_links import DeadLinkError, name_help_topics, name_help_topics_in_changelog
from scripts.build_packages import ROOT, build_collection

FILES = {"README.md", "CHANGELOG.md", "roles/broker/README.md", "LICENSE"}
FILE_PATTERNS = {
    "playbook": "playbooks/{}.yml",
    "role": "roles/{}/meta/argument_specs.yml",
    "public module": "plugins/modules/{}.py",
    "filter": "plugins/filter/{}.py",
    "test": "plugins/test/{}.py",
    "inventory plugin": "plugins/inventory/{}.py",
}
"""The file of a row, by the heading of the table in the README."""


@pytest.fixture(scope="module")
def archived_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the files of the built archive; files other than pages have an empty content."""
    archive = build_collection(tmp_path_factory.mktemp("archive"), 1_700_000_000)
    with tarfile.open(archive) as archive_file:
        texts = {}
        for member in archive_file.getmembers():
            file = archive_file.extractfile(member) if member.name.endswith((".md", ".json", ".yaml")) else None
            texts[member.name] = file.read().decode() if file else ""
    return texts


@pytest.mark.parametrize(
    ("text", "rewritten"),
    [
        ("see ([status](docs/status.md)).", "see (status: `activemq-fleet help status`)."),
        ("serves [metrics](docs/metrics.md#ports) here", "serves metrics (`activemq-fleet help metrics`) here"),
        ("[site](https://example.org/a) [part](#part) [log](CHANGELOG.md)", None),
        ("![picture](https://example.org/a.png)", None),
    ],
)
def test_documentation_link_in_collection_archive_becomes_help_command(text: str, rewritten: str | None) -> None:
    assert name_help_topics(text, "README.md", FILES) == (rewritten or text)


def test_link_of_archived_page_in_directory_is_relative_to_its_directory() -> None:
    with pytest.raises(DeadLinkError, match=r"roles/broker/README.md has a link to LICENSE, which the archive"):
        name_help_topics("[license](LICENSE)", "roles/broker/README.md", FILES)


@pytest.mark.parametrize("target", ["examples/README.md", "docs/pictures/fleet.png", "scripts/setup.sh"])
def test_link_to_file_outside_collection_archive_is_error(target: str) -> None:
    with pytest.raises(DeadLinkError, match=re.escape(target)):
        name_help_topics(f"[page]({target})", "README.md", FILES)


@pytest.mark.parametrize(
    ("text", "rewritten"),
    [
        ("unit (`page\n          <docs/agent.md>`__).", "unit (page, ``activemq-fleet help agent``)."),
        ("see `TLS <docs/tls.md#files>`__ here", "see TLS (``activemq-fleet help tls``) here"),
        ("`site <https://example.org/a>`__ and `log <CHANGELOG.md>`__", None),
    ],
)
def test_documentation_link_in_archived_changelog_becomes_help_command(text: str, rewritten: str | None) -> None:
    assert name_help_topics_in_changelog(text, "CHANGELOG.md", FILES) == (rewritten or text)


def test_dead_link_in_archived_changelog_is_error() -> None:
    with pytest.raises(DeadLinkError, match=r"examples/README\.md"):
        name_help_topics_in_changelog("`page <examples/README.md>`__", "CHANGELOG.md", FILES)


def test_changelog_of_collection_archive_has_all_texts_without_relative_links(archived_files: dict[str, str]) -> None:
    archived = archived_files["changelogs/changelog.yaml"]
    original = (ROOT / "changelogs/changelog.yaml").read_text("utf-8")

    assert [target for target in re.findall(r"<([^<>]+)>`__", archived) if ":" not in target] == []
    assert re.findall(r"activemq-fleet help ([a-z-]+)", archived)
    texts, originals = (texts_in(yaml.safe_load(content)) for content in (archived, original))
    assert len(texts) == len(originals)
    changed_originals = [
        original_text for text, original_text in zip(texts, originals, strict=True) if text != original_text
    ]
    assert changed_originals
    assert [original_text for original_text in changed_originals if "`__" not in str(original_text)] == []


@pytest.mark.parametrize("fragment", sorted((ROOT / "changelogs/fragments").glob("*.yml")), ids=lambda path: path.stem)
def test_links_of_changelog_fragment_have_help_pages(fragment: Path) -> None:
    text = fragment.read_text("utf-8")
    rewritten = name_help_topics_in_changelog(text, "CHANGELOG.md", FILES)

    assert [target for target in re.findall(r"<([^<>\s]+)>`__", rewritten) if ":" not in target] == []
    assert len(texts_in(yaml.safe_load(rewritten))) == len(texts_in(yaml.safe_load(text)))


def texts_in(data: object) -> list[object]:
    """Return the values of all lists and mappings in data of YAML, in order."""
    if isinstance(data, dict):
        return [text for value in data.values() for text in texts_in(value)]
    if isinstance(data, list):
        return [text for value in data for text in texts_in(value)]
    return [data]


def test_every_relative_link_of_archive_leads_to_its_file(archived_files: dict[str, str]) -> None:
    for name, text in ((name, text) for name, text in archived_files.items() if name.endswith(".md")):
        targets = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'(?:href|src)="([^"]+)"', text)
        relative = [target for target in targets if ":" not in target and not target.startswith("#")]
        missing = [
            target
            for target in relative
            if (Path(name).parent / target.partition("#")[0]).as_posix() not in archived_files
        ]
        assert missing == [], name


def test_every_help_topic_that_collection_archive_names_has_page(archived_files: dict[str, str]) -> None:
    named_topics = {
        topic
        for name, text in archived_files.items()
        if name.endswith((".md", ".yaml"))
        for topic in re.findall(r"activemq-fleet help ([a-z-]+)", text)
    }
    assert {"status", "install", "security"} <= named_topics
    for topic in sorted(named_topics):
        help_command = CliRunner().invoke(fleet_cli, ["help", topic])
        assert help_command.exit_code == 0, topic


def test_every_file_that_readme_names_is_in_archive(archived_files: dict[str, str]) -> None:
    files = set(re.findall(r"\b[A-Z]+\.md\b|\bLICENSE\b|\bchangelogs/[a-z.]+\b", archived_files["README.md"]))
    assert {"CHANGELOG.md", "SECURITY.md", "LICENSE", "changelogs/changelog.yaml"} <= files
    assert files <= archived_files.keys()


def test_every_playbook_role_and_plugin_of_readme_is_in_collection_archive(archived_files: dict[str, str]) -> None:
    listed = set()
    for table in re.split(r"\n(?=\| [a-z ]+ \| purpose \|)", archived_files["README.md"])[1:]:
        title = table.split("|")[1].strip()
        for name in re.findall(r"^\| `activemq\.fleet\.([a-z_]+)` \|", table, re.MULTILINE):
            assert FILE_PATTERNS[title].format(name) in archived_files, name
            listed.add(name)
    assert len(listed) > 30
    assert listed == set(re.findall(r"activemq\.fleet\.([a-z_]+)", archived_files["README.md"]))


def test_checksums_of_collection_archive_are_those_of_rewritten_pages(archived_files: dict[str, str]) -> None:
    recorded = {entry["name"]: entry["chksum_sha256"] for entry in json.loads(archived_files["FILES.json"])["files"]}
    for name, text in archived_files.items():
        if name.endswith((".md", ".yaml")):
            assert recorded[name] == hashlib.sha256(text.encode()).hexdigest(), name
