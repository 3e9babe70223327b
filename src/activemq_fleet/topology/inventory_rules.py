"""List the rules about an inventory (T: its topology, R: the routes of messages), and about comments in files (X)."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from activemq_fleet.findings import Severity, merged_finding_lines
from activemq_fleet.topology.model.fleet import Fleet


@dataclass(frozen=True, slots=True)
class InventoryRule:
    """A rule that an inventory must follow, such as ``T002``.

    It has its id and its texts. Rules about comments that suppress findings are included. Code in the texts is between
    backquotes, as in Markdown. ``severity`` is that of most of its findings. ``about_inventory``: a part of the
    inventory has no effect, or another effect than its author expects.
    """

    id: str
    severity: Severity
    title: str
    why: str
    fix: str
    about_inventory: bool = False


@cache
def inventory_rules() -> tuple[InventoryRule, ...]:
    """Return all rules about an inventory.

    Those of the topology come first, sorted by id.
    """
    tables = tomllib.loads(files(__package__).joinpath("inventory_rules.toml").read_text("utf-8"))
    return tuple(InventoryRule(**entry) for entry in tables["rules"])


def inventory_warning_lines(fleet: Fleet) -> list[str]:
    """Return warnings about an inventory as lines of text, for commands that print no findings about single brokers.

    They are the fleet's warnings, and findings about the inventory's structure that are not waived.
    """
    rules = {rule.id for rule in inventory_rules() if rule.about_inventory}
    findings = (finding for finding in fleet.findings if finding.rule in rules and finding.waived is None)
    return [*fleet.warnings, *merged_finding_lines(findings)]


INPUT_RULE = InventoryRule(
    "T000",
    "error",
    "the input cannot be used: a variable is unknown or has a wrong value, or a file cannot be read",
    "no other rule can be checked; waivers and baselines do not apply to this finding",
    "correct the value or file that the message names",
)
"""The rule of findings about unusable input, for output formats that report every problem as a finding."""
