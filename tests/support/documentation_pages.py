"""The pages of the documentation, and the tests that execute their command blocks and samples."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from activemq_fleet.cli.main import main
from tests.situations import in_every_situation

REPOSITORY = Path(__file__).resolve().parents[2]
WITHOUT_BROKERS = "unit/project/test_page_commands.py"
WITH_SCHEMAS = "integration/test_page_commands.py"
VAULTED = ("vault_metrics", "vault_look_password", "vault_orders_database", "vault_power_token")
"""Variables that the reader keeps in Ansible Vault."""
ON_HOSTS = "hosts/test_page_commands.py"
ON_SPARK = "pipeline/test_page_commands.py"


def write_nothing(directory: Path) -> None:
    """Write no files, because the page writes all of its files."""


def write_inventory(directory: Path) -> None:
    """Write the inventory of the how-to pages, which ``init`` writes for one pair."""
    hosts = ["orders-mq01-a.example.com", "orders-mq01-b.example.com"]
    assert main(["init", *hosts, "--release", "6.3.1", "-o", str(directory / "inventory")]) == 0
    with (directory / "inventory/group_vars/all.yml").open("a") as variables:
        variables.writelines(f"{name}: made-up-password\n" for name in VAULTED)


def write_inventory_without_limits(directory: Path) -> None:
    """Write the inventory of the how-to pages, without the limits that ``activemq_usage`` replaces."""
    write_inventory(directory)
    variables = directory / "inventory/group_vars/all.yml"
    lines = variables.read_text().splitlines(keepends=True)
    variables.write_text("".join(line for line in lines if "_limit: " not in line))


def copy_examples(directory: Path) -> None:
    """Copy the example inventories."""
    shutil.copytree(REPOSITORY / "examples", directory / "examples")


def copy_collected_files(directory: Path) -> None:
    """Copy the hand-written files of the example."""
    shutil.copytree(REPOSITORY / "examples/adopt-fleet/collected", directory / "collected")


def copy_handlers(directory: Path) -> None:
    """Copy the handlers of the example."""
    shutil.copytree(REPOSITORY / "examples/agent-handlers/handlers.d", directory / "handlers.d")


@dataclass(frozen=True, slots=True)
class PageTest:
    """The test of a page."""

    file: str
    """The test that executes the page, below ``tests/``."""
    prepare: Callable[[Path], None] = write_nothing
    """Write the files that the page expects into its directory."""
    only_full: str = ""
    """Why only ``make test-full`` executes the page."""


AS_ANOTHER_PAGE = "it runs check and render, as docs/describe-a-fleet.md does"
NEEDS_HOSTS = "it needs two systemd hosts, and minutes"
STARTS_BROKERS = "it starts the brokers of an example"
PAGES: Mapping[str, PageTest] = {
    "README.md": PageTest("integration/test_readme_inventory.py"),
    "docs/adopting.md": PageTest("hosts/test_adopting.py", only_full="it installs three hosts twice"),
    "docs/adopt.md": PageTest(WITH_SCHEMAS, copy_collected_files),
    "docs/broker-settings.md": PageTest(WITH_SCHEMAS, write_inventory_without_limits, AS_ANOTHER_PAGE),
    "docs/ci.md": PageTest(WITH_SCHEMAS),
    "docs/command-line.md": PageTest(WITH_SCHEMAS),
    "docs/describe-a-fleet.md": PageTest(WITH_SCHEMAS),
    "docs/fencing.md": PageTest("hosts/test_fencing_page.py", only_full=NEEDS_HOSTS),
    "docs/first-failover.md": PageTest(
        "integration/test_first_failover_tutorial.py", only_full="it starts and kills a pair, as the README does"
    ),
    "docs/first-pair.md": PageTest("hosts/test_first_pair_tutorial.py"),
    "docs/install.md": PageTest("integration/test_built_packages.py", only_full="it builds and installs all packages"),
    "docs/migrate.md": PageTest(WITH_SCHEMAS, only_full="it starts four brokers"),
    "docs/shared-stores.md": PageTest(WITH_SCHEMAS, write_inventory, STARTS_BROKERS),
    "docs/loadbalancer.md": PageTest(WITH_SCHEMAS, write_inventory, AS_ANOTHER_PAGE),
    "docs/metrics.md": PageTest(WITH_SCHEMAS, write_inventory, AS_ANOTHER_PAGE),
    "docs/molecule.md": PageTest("integration/test_molecule_kit.py", only_full="its scenario starts two brokers"),
    "docs/resync.md": PageTest("hosts/test_resync.py", only_full=NEEDS_HOSTS),
    "docs/agent.md": PageTest("integration/test_agent_page.py", only_full=STARTS_BROKERS),
    "docs/names.md": PageTest(WITHOUT_BROKERS),
    "docs/tls.md": PageTest(WITH_SCHEMAS, only_full=AS_ANOTHER_PAGE),
    "docs/runtime-configuration.md": PageTest(WITH_SCHEMAS, write_inventory),
    "docs/shared-databases.md": PageTest(WITH_SCHEMAS, write_inventory, AS_ANOTHER_PAGE),
    "docs/status.md": PageTest(ON_HOSTS, only_full=NEEDS_HOSTS),
    "docs/watchdog.md": PageTest(ON_HOSTS, only_full=NEEDS_HOSTS),
    "docs/drill.md": PageTest(ON_HOSTS, only_full=NEEDS_HOSTS),
    "docs/operations.md": PageTest(ON_HOSTS, only_full=NEEDS_HOSTS),
    "docs/collect.md": PageTest(ON_HOSTS, only_full=NEEDS_HOSTS),
    "docs/audit.md": PageTest(ON_HOSTS, only_full=NEEDS_HOSTS),
    "docs/follow.md": PageTest(ON_HOSTS, only_full=NEEDS_HOSTS),
    "docs/drift.md": PageTest(ON_HOSTS, only_full=NEEDS_HOSTS),
    "docs/plan.md": PageTest(ON_SPARK, only_full="it starts Spark three times"),
    "docs/pipelines.md": PageTest(WITHOUT_BROKERS),
    "GALAXY.md": PageTest(ON_HOSTS, only_full=NEEDS_HOSTS),
    "examples/agent-handlers/README.md": PageTest(WITHOUT_BROKERS, copy_handlers),
    "examples/adopt-fleet/README.md": PageTest(WITH_SCHEMAS, copy_examples),
    "examples/bridged-pairs/README.md": PageTest(WITH_SCHEMAS, copy_examples, STARTS_BROKERS),
    "examples/ci-lint/README.md": PageTest(WITH_SCHEMAS, copy_examples),
    "examples/ha-network-5.5/README.md": PageTest(WITH_SCHEMAS, copy_examples, STARTS_BROKERS),
    "examples/hub-and-sites/README.md": PageTest(WITH_SCHEMAS, copy_examples, STARTS_BROKERS),
    "examples/move-to-6/README.md": PageTest(WITH_SCHEMAS, copy_examples, STARTS_BROKERS),
    "examples/shared-store/README.md": PageTest(WITH_SCHEMAS, copy_examples, STARTS_BROKERS),
    "examples/single-machine/README.md": PageTest(WITH_SCHEMAS, copy_examples, STARTS_BROKERS),
    "examples/two-machines/README.md": PageTest(WITH_SCHEMAS, copy_examples, STARTS_BROKERS),
}
SAMPLES: Mapping[tuple[str, str], str] = {
    ("README.md", "yaml"): "unit/project/test_page_claims.py",
    ("docs/alerts.md", "promql"): "integration/test_alert_rules.py",
    ("docs/names.md", "yaml"): WITHOUT_BROKERS,
    ("docs/python-api.md", "python"): "unit/test_public_api.py",
    ("docs/rules.md", "properties"): "unit/lint/test_examples.py",
    ("docs/rules.md", "xml"): "unit/lint/test_examples.py",
    ("docs/rules.md", "yaml"): "unit/lint/test_examples.py",
    ("docs/shared-stores.md", "yaml"): "unit/project/test_page_claims.py",
    ("docs/topology-errors.md", "yaml"): WITHOUT_BROKERS,
}
"""The test of samples that belong to no file, by page and language."""


def pages_of(test: str) -> list[ParameterSet]:
    """Return the pages that a test executes as its parameters, by the path of the test below ``tests/``."""
    return [
        pytest.param(page, marks=in_every_situation if executed.only_full else ())
        for page, executed in PAGES.items()
        if executed.file == test
    ]


def documentation_pages() -> dict[str, str]:
    """Return the text of each page that a user reads, by its path."""
    paths = [
        REPOSITORY / "README.md",
        REPOSITORY / "GALAXY.md",
        *sorted((REPOSITORY / "docs").glob("*.md")),
        *sorted((REPOSITORY / "examples").glob("*/README.md")),
    ]
    return {path.relative_to(REPOSITORY).as_posix(): path.read_text(encoding="utf-8") for path in paths}
