"""Find the settings of a project that have no effect, such as a pattern that matches no file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from activemq_fleet.cli.configuration import CheckConfiguration
from activemq_fleet.cli.file_releases import patterns_without_files
from activemq_fleet.errors import names_to_text
from activemq_fleet.lint.selection import RuleSelection
from activemq_fleet.validation import known_rule_ids, select_rules


def unused_setting_warnings(configuration: CheckConfiguration, checked: Sequence[Path]) -> list[str]:
    """Return warnings about settings of the command ``check``, such as selected rules, that have no effect.

    The settings are in the project's configuration file. Parts of them have no effect, whatever is checked. ``checked``
    are the files and directories to check.
    """
    warnings = []
    if configuration.path is not None and configuration.releases:
        patterns = [pattern for pattern, _ in configuration.releases]
        if unmatched := patterns_without_files(patterns, checked, configuration.path.parent):
            warnings.append(
                f"{configuration.setting_file_and_line('releases')}: these file name patterns in the table `releases` "
                f"match none of the checked files: {names_to_text(unmatched)}. Correct or remove these patterns"
            )
    selection = select_rules(configuration.select, configuration.ignore)
    for key, words, effective, cause, alternative in (
        (
            "select",
            configuration.select,
            selection,
            "the setting `ignore` excludes these rules",
            "remove these rules from `ignore`",
        ),
        (
            "ignore",
            configuration.ignore,
            replace(selection, ignore=()),
            "the setting `select` does not include these rules",
            "add these rules to `select`",
        ),
    ):
        if unused := [word for word in words if not _includes_any_rule(effective, word)]:
            warnings.append(
                f"{configuration.setting_file_and_line(key)}: the setting `{key}` has no effect on the rules "
                f"{names_to_text(unused)}, because {cause}. Remove these rules from `{key}`, or {alternative}"
            )
    return warnings


def _includes_any_rule(selection: RuleSelection, word: str) -> bool:
    named_rules = select_rules([word], ())
    return any(selection.includes_rule(rule) for rule in known_rule_ids() if named_rules.includes_rule(rule))
