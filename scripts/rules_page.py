"""Write docs/rules.md from the docstrings of the rules; with --check, report whether it is up to date."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

from activemq_fleet.lint import FAMILIES, SCOPES, Rule, RuleExample, rules_of_scope
from scripts.generated_page import DOCS, write_or_check

PAGE = DOCS / "rules.md"

_LANGUAGES = {"file": "xml", "release": "xml", "fleet": "yaml", "host": "yaml"}
_HEAD = """\
<!-- Made by `make rules` from the rules' docstrings in src/activemq_fleet/lint. -->
# Rules

`check` reports the problems on this page. An **error** prevents a broker from starting or can lose messages, and fails
the check (exit code 1). A **warning** causes a problem only during an incident, and an **info** is a hint. A rule
reports only mistakes that are certain from its input: it skips a value such as `${broker.name}`, which other files set.

`--select N,L003` and `--ignore C` choose rules by name or by the beginning of a name. `activemq_waivers` lets a finding
of a fleet pass, with a reason; `--write-baseline FILE` and `--baseline FILE` do so for all that an old fleet has today.
The topology's own findings (T001 …) are in [topology-errors.md](topology-errors.md). `activemq-fleet rule N003` prints
one rule, and `activemq-fleet rule` lists all.
"""


def main(arguments: list[str]) -> int:
    """Write the page, or with --check return 1 if it is out of date."""
    return write_or_check(PAGE, "".join(_page()), "the rules", arguments)


def rules_page(address_of: Callable[[Rule], str], *, with_sections: bool) -> Iterator[str]:
    """Yield a page with a table for each family of rules.

    Each row is linked to the address of its rule; ``with_sections`` adds a section for each rule below its table.
    """
    yield _HEAD
    rules = rules_of_scope()
    for letter, subject in FAMILIES.items():
        family = [rule for rule in rules if rule.id.startswith(letter)]
        if not family:
            continue
        yield f"\n## {letter}: {subject}\n\n| rule | severity | problem |\n|---|---|---|\n"
        for rule in family:
            yield f"| [{rule.id}]({address_of(rule)}) | {rule.severity} | {_cell(rule.title)} |\n"
        for rule in family if with_sections else ():
            yield from rule_section(rule)


def _page() -> Iterator[str]:
    return rules_page(lambda rule: f"#{rule.id.lower()}", with_sections=True)


def rule_section(rule: Rule, level: int = 3) -> Iterator[str]:
    """Yield the Markdown of one rule below a heading of ``level``."""
    yield f"\n{'#' * level} {rule.id}\n\n**{_escaped(rule.title)}** "
    yield f"{rule.severity.capitalize()}; {SCOPES[rule.scope]}; {rule.releases_in_words}.\n\n"
    yield f"Why: {_escaped(rule.why)}\n\nFix: {_escaped(rule.fix)}\n\n"
    if rule.limitations:
        yield f"Cannot see: {_escaped(rule.limitations)}\n\n"
    for kind, examples in (("Fires", rule.failing_examples), ("Silent", rule.passing_examples)):
        for example in examples:
            yield f"{kind} on {example.release}{_file(example)}:\n\n"
            yield f"```{_language(rule, example)}\n{example.text.rstrip()}\n```\n\n"
    yield f"Source: {_escaped(rule.evidence_from_docstring)}.\n"


def _language(rule: Rule, example: RuleExample) -> str:
    is_properties_file = rule.scope == "file" and not example.file.endswith(".xml")
    return "properties" if is_properties_file else _LANGUAGES[rule.scope]


def _file(example: RuleExample) -> str:
    return "" if example.file == "activemq.xml" else f", in {example.file}"


def _escaped(text: str) -> str:
    return text.replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")


def _cell(text: str) -> str:
    return _escaped(text).replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
