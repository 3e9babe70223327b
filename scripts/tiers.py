"""The tiers of ``make test``, in their order, with their commands."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

PYTHON = sys.executable

Kind = Literal["checks", "pytest", "command"]


@dataclass(frozen=True, slots=True)
class Check:
    """One command of the lint tier; it passes when it exits 0."""

    name: str
    command: Sequence[str]


@dataclass(frozen=True, slots=True)
class Tier:
    """One row of the table. ``command`` is the command of the tier, or the arguments of pytest.

    A pytest tier counts its tests; a command counts as one. ``artifacts``: the jars and schemas of the releases are
    downloaded to the cache first, because a download is not part of a test.
    """

    name: str
    title: str
    kind: Kind
    command: Sequence[str] = ()
    artifacts: bool = False


CHECKS = (
    Check("ruff", [PYTHON, "-m", "ruff", "check", "--quiet", "."]),
    Check("ruff format", [PYTHON, "-m", "ruff", "format", "--quiet", "--diff", "."]),
    Check("mypy --strict", [PYTHON, "-m", "mypy", "--no-error-summary"]),
    Check("imports", [str(Path(PYTHON).parent / "lint-imports"), "--no-cache"]),
    Check("ansible-lint", [PYTHON, "-m", "ansiblelint", "--offline", "-q", "--nocolor"]),
    Check("time limits", [PYTHON, "-m", "scripts.check_time_limits"]),
    Check("tests", [PYTHON, "-m", "scripts.check_tests"]),
    Check("idioms", [PYTHON, "-m", "scripts.check_idioms"]),
    Check("names", [PYTHON, "-m", "scripts.check_names"]),
    Check(
        "workflows",
        [
            str(Path(PYTHON).parent / "check-jsonschema"),
            "--builtin-schema=vendor.github-workflows",
            ".github/workflows/release.yml",
        ],
    ),
    Check(
        "workflow security",
        [
            str(Path(PYTHON).parent / "zizmor"),
            *("--offline", "--no-progress", "--quiet"),
            ".github/workflows/release.yml",
        ],
    ),
    Check("install lines", [PYTHON, "-m", "scripts.check_install_lines"]),
    Check("packages", [PYTHON, "-m", "scripts.check_packages"]),
    Check("documentation", [PYTHON, "-m", "scripts.check_ansible_doc"]),
    Check("prose", [PYTHON, "-m", "scripts.check_prose"]),
    Check("documentation site", [PYTHON, "-m", "scripts.docsite"]),
    Check("docs/rules.md", [PYTHON, "-m", "scripts.rules_page", "--check"]),
    Check("docs/topology-errors.md", [PYTHON, "-m", "scripts.topology_errors_page", "--check"]),
    Check("schemas", [PYTHON, "-m", "scripts.variables_schema", "--check"]),
    Check("docs/alerts.md", [PYTHON, "-m", "scripts.alerts_page", "--check"]),
    Check("docs/release-lines.md", [PYTHON, "-m", "scripts.release_lines_page", "--check"]),
    Check("docs/log-records.md", [PYTHON, "-m", "scripts.log_records_page", "--check"]),
    Check("changelog fragments", [str(Path(PYTHON).parent / "antsibull-changelog"), "lint"]),
    Check(
        "changelog releases",
        [
            str(Path(PYTHON).parent / "antsibull-changelog"),
            "lint-changelog-yaml",
            "--strict",
            "changelogs/changelog.yaml",
        ],
    ),
    Check("CHANGELOG.md", [PYTHON, "-m", "scripts.changelog_page", "--check"]),
    Check("GALAXY.md", [PYTHON, "-m", "scripts.galaxy_page", "--check"]),
    Check("role READMEs", [PYTHON, "-m", "scripts.role_readmes", "--check"]),
    Check("docs/versions.md", [PYTHON, "-m", "scripts.versions_page", "--check"]),
    Check("docs/glossary.md", [PYTHON, "-m", "scripts.glossary", "--check"]),
)

# One process runs the tests of a file, which share fixtures, and the files that share a pair. tests/order.py lists
# those files, and the longest files, which run first.
_TOGETHER = ("--dist=loadfile", "--no-loadscope-reorder")
# Two Spark tests use two cores. Tests of brokers and hosts mostly wait: four at a time use about 5 GB of memory. Some
# unit tests wait for processes: three run at a time.
_SPARK = ("--numprocesses=2", *_TOGETHER)
_BROKERS = ("--numprocesses=4", *_TOGETHER)

TIERS = (
    Tier("lint", "ruff, mypy, ansible-lint, both packages, the plugins' documentation", "checks"),
    Tier(
        "unit",
        "the library alone: no network, no broker",
        "pytest",
        ["tests/unit", "--numprocesses=3", "--dist=worksteal"],
    ),
    Tier("pipeline", "Spark on this machine", "pytest", [*_SPARK, "tests/pipeline"]),
    Tier(
        "molecule",
        "the collection without containers: converge, idempotence, verify",
        "command",
        [PYTHON, "-m", "molecule", "test", "--scenario-name", "default"],
        artifacts=True,
    ),
    Tier("integration", "real brokers on loopback", "pytest", [*_BROKERS, "tests/integration"], artifacts=True),
    Tier("hosts", "systemd hosts in containers", "pytest", [*_BROKERS, "tests/hosts"], artifacts=True),
)
