"""Define rules and convert their problems to findings: each rule is a small function with a docstring for users.

The docstring of a rule contains, in this order::

    masterslave: needs two brokers             (the first line: what is wrong)

    Why: what happens, and in which release it was observed.
    Fix: the instruction that corrects the mistake.
    Cannot see: the facts that a file alone does not show (optional).
    Source: the code, document, JIRA number or measurement on which the rule is based.

    Fires on 5.18.3::

        <networkConnector uri="masterslave:(tcp://a:61616)"/>

    Silent on 5.18.3::

        <networkConnector uri="static:(tcp://a:61616)"/>

The examples of a file or release rule are XML, of a fleet rule an inventory in YAML (hosts and their
variables), of a host rule variables and facts. Tests run them all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache, wraps
from importlib import import_module
from inspect import cleandoc
from itertools import chain
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, Literal

from activemq_fleet.findings import Finding, InventoryVariablesOfValue, Severity
from activemq_fleet.lint.document import Document, Element, Problem
from activemq_fleet.lint.selection import EVERY_RULE, RuleSelection
from activemq_fleet.releases import Release, parse_version, version_range_in_words
from activemq_fleet.value_origins import (
    XmlPath,
    matching_start_tags,
    origin_of_extra_file,
    origin_of_release,
    origin_of_value,
    variable_of_rendered_attribute,
)

Check = Callable[[Any], Iterable[Problem]]
Scope = Literal["file", "release", "fleet", "host"]
ALWAYS = "5.3.0"
SCOPES = {
    "file": "each activemq.xml (`check --file` and `check -i`)",
    "release": "the ActiveMQ release of a file (`check --file`) or of a broker (`check -i`)",
    "fleet": "the whole inventory (`check -i`)",
    "host": "each host, before the role `broker` deploys to it",
}
FAMILIES = {
    "V": "release and schema",
    "L": "locks and the shared store",
    "P": "pure master/slave",
    "N": "the network of brokers",
    "M": "multicast",
    "C": "clients, flow control, durability",
    "S": "security",
}
_EXAMPLE = re.compile(r"^(Fires|Silent)(?: on (\S+?))?(?:, as (\S+?))?::\n\n((?:(?: {4}.*)?\n)+)", re.MULTILINE)
_DOCSTRING_PART = re.compile(
    r"^(Why|Fix|Cannot see|Source): (.*?)(?=\n\n|\n(?:Fix|Cannot see|Source): |\Z)", re.M | re.S
)
EXAMPLE_RELEASE = "5.18.3"
XML_FRAGMENTS = "activemq_xml_fragments"


@dataclass(frozen=True, slots=True)
class RuleExample:
    """An example file in a lint rule's docstring, which tests check.

    It has the text of the file, the file's name, and the release it is for.
    """

    release: str
    text: str
    file: str = "activemq.xml"


@dataclass(frozen=True)
class Rule:
    """A lint rule, such as ``N010``, with an id, a severity, and a function that reports problems.

    ``releases`` is a span of releases, as ``Release.within`` takes it; ``refuses``: a broker with the mistake does not
    start, which an integration test shows on a real broker.
    """

    id: str
    severity: Severity
    scope: Scope
    check: Check
    releases: str = ALWAYS
    refuses: bool = False
    elements: tuple[str, ...] = ()
    """The names of the elements that ``check`` takes; empty if it takes the whole document."""
    needs: tuple[str, ...] = ()
    """Names of elements, and of attributes with an @ before them; ``check`` reports nothing about a file without any of
    them. Empty where it can report something about each file.
    """
    texts: tuple[str, ...] = ()
    """Parts of values of attributes; ``check`` reports nothing about a file without any of them, as with ``needs``."""

    def applies_to(self, release: Release) -> bool:
        """Return whether a lint rule applies to an ActiveMQ release."""
        return release.is_within_span(self.releases)

    def applies_to_xml_names(self, names: frozenset[str]) -> bool:
        """Return whether a lint rule can apply to a file with the given names of XML elements and attributes."""
        return all(not required or not names.isdisjoint(required) for required in (self.elements, self.needs))

    @cached_property
    def docstring(self) -> str:
        """The docstring of the lint rule's function, dedented."""
        return cleandoc(self.check.__doc__ or "") + "\n"

    @property
    def title(self) -> str:
        """The title of the lint rule: the first line of its docstring."""
        return self.docstring.partition("\n")[0]

    @cached_property
    def _parts(self) -> dict[str, str]:
        return {match[1]: " ".join(match[2].split()) for match in _DOCSTRING_PART.finditer(self.docstring)}

    @property
    def why(self) -> str:
        """The reason for the lint rule: what the reported mistake leads to.

        It is a part of the rule's docstring.
        """
        return self._parts.get("Why", "")

    @property
    def fix(self) -> str:
        """The instruction of the lint rule on how to correct the reported mistake."""
        return self._parts.get("Fix", "")

    @property
    def limitations(self) -> str:
        """The limitations of the lint rule: facts that it cannot detect.

        It is a part of the rule's docstring, and "" if the docstring has no such part.
        """
        return self._parts.get("Cannot see", "")

    @property
    def evidence_from_docstring(self) -> str:
        """The evidence for the lint rule: the code reference, document or measurement on which it is based.

        It is a part of the rule's docstring.
        """
        return self._parts.get("Source", "")

    @property
    def releases_in_words(self) -> str:
        """The ActiveMQ releases to which the lint rule applies, in words, such as "5.6.0 and later"."""
        words = self.releases.split()
        ends = [word[1:] for word in words if word.startswith("!")]
        floors = [word for word in words if not word.startswith("!")]
        if not ends:
            return "all releases" if floors == [ALWAYS] else f"{', '.join(floors)} and later"
        if len(ends) == 1 and floors == [ALWAYS]:
            return f"before {ends[0]}"
        return ", ".join(
            version_range_in_words(floor, parse_version(end)) for floor, end in zip(floors, ends, strict=True)
        )

    @property
    def failing_examples(self) -> tuple[RuleExample, ...]:
        """The examples in the lint rule's docstring for which it reports a problem."""
        return tuple(self._examples("Fires"))

    @property
    def passing_examples(self) -> tuple[RuleExample, ...]:
        """The examples in the lint rule's docstring for which it reports nothing."""
        return tuple(self._examples("Silent"))

    def _examples(self, kind: str) -> Iterator[RuleExample]:
        for match in _EXAMPLE.finditer(self.docstring):
            if match[1] == kind:
                yield RuleExample(match[2] or EXAMPLE_RELEASE, cleandoc("\n" + match[4]), match[3] or "activemq.xml")


_RULES: dict[str, Rule] = {}


def rule(
    rule_id: str,
    severity: Severity,
    *,
    each: str = "",
    needs: str = "",
    texts: str = "",
    scope: Scope = "file",
    releases: str = ALWAYS,
    refuses: bool = False,
) -> Callable[[Check], Check]:
    """Return a decorator that registers a function as a lint rule with an id and a severity.

    A file rule takes a Document; with ``each``, names of elements with spaces between them, it takes one such Element
    of the document at a time. ``needs`` are names of elements and of attributes (``@name``), and ``texts`` are parts of
    values of attributes: the rule does not run for a file without any of them. A release, fleet or host rule takes the
    InstalledReleaseFacts, FleetView or HostView.
    """

    def register(check: Check) -> Check:
        elements = tuple(each.split())

        @wraps(check)
        def check_elements(document: Document) -> Iterator[Problem]:
            return chain.from_iterable(map(check, document.elements_with_tag_name(*elements)))

        if rule_id in _RULES:
            msg = f"two rules are called {rule_id}"
            raise ValueError(msg)
        checked = check_elements if each else check
        words = tuple(needs.split()), tuple(texts.split())
        _RULES[rule_id] = Rule(rule_id, severity, scope, checked, releases, refuses, elements, *words)
        return check

    return register


@cache
def all_rules_by_id() -> dict[str, Rule]:
    """Return a dictionary of all lint rules by rule id, sorted by id.

    The call imports all modules of the package, which define the rules.
    """
    for module in iter_modules([str(Path(__file__).parent)]):
        import_module(f"{__package__}.{module.name}")
    return dict(sorted(_RULES.items()))


@cache
def rules_of_scope(scope: Scope | None = None) -> tuple[Rule, ...]:
    """Return the lint rules of one scope, sorted by id.

    Without a scope, all lint rules are returned.
    """
    return tuple(lint_rule for lint_rule in all_rules_by_id().values() if scope in (None, lint_rule.scope))


@lru_cache(maxsize=512)
def applicable_rules(scope: Scope, release: Release, selection: RuleSelection = EVERY_RULE) -> tuple[Rule, ...]:
    """Return the selected lint rules of a scope that apply to a release of ActiveMQ.

    They are sorted by id.
    """
    return tuple(
        lint_rule
        for lint_rule in rules_of_scope(scope)
        if selection.includes_rule(lint_rule.id) and lint_rule.applies_to(release)
    )


@lru_cache(maxsize=512)
def rules_applicable_to_file(
    xml_names: frozenset[str], release: Release, selection: RuleSelection = EVERY_RULE
) -> tuple[Rule, ...]:
    """Return the selected lint rules that can apply to a file with these XML names, sorted by id.

    ``xml_names`` are the names of the file's elements and attributes, as in ``Document.element_and_attribute_names``.
    The files of many brokers have the same names.
    """
    return tuple(
        lint_rule
        for lint_rule in applicable_rules("file", release, selection)
        if lint_rule.applies_to_xml_names(xml_names)
    )


def findings_from_problems(
    lint_rule: Rule, problems: Iterable[Problem], host: str = "", file: str | None = None
) -> Iterator[Finding]:
    """Convert the problems that one lint rule reports to findings about a host or a file.

    ``file`` is the path of the activemq.xml. The finding of a problem at an element of another document names the file
    of that document, in the same directory, and in a fleet its broker. Findings about a host have no edits, because its
    file is rendered.
    """
    directory, slash, _ = (file or "").rpartition("/")
    for problem in problems:
        line, column, name, subject = problem.line, problem.column, problem.file, problem.host or host
        if problem.node is not None:
            document = problem.node.document
            line, column = problem.node.position(problem.attribute, problem.part)
            name = document.file
            subject = subject or (document.broker.host if document.broker else "")
        path = f"{directory}{slash}{name}" if name else file
        yield Finding(
            rule=lint_rule.id,
            severity=problem.severity or lint_rule.severity,
            host=subject,
            message=problem.message,
            fix=problem.fix or lint_rule.fix.removesuffix("."),
            why=problem.why or lint_rule.why.removesuffix("."),
            file=path,
            line=line,
            column=column,
            edits=() if subject else problem.edits,
            origin=_origin_in_fleet(lint_rule, problem, path) if subject else None,
        )


def _origin_in_fleet(lint_rule: Rule, problem: Problem, path: str | None) -> InventoryVariablesOfValue | None:
    """Return the inventory variables that may have caused a lint problem of a fleet's broker; None if unknown."""
    if lint_rule.scope == "release":
        return origin_of_release()
    if problem.node is not None and problem.node.document.broker is not None:
        return variables_that_set_element(problem.node, problem.attribute, problem.part)
    return origin_of_extra_file(path) if path and (problem.node is not None or problem.file) else None


def variables_that_set_element(element: Element, attribute: str = "", part: str = "") -> InventoryVariablesOfValue:
    """Return the inventory variables that may set an XML element of a broker's rendered activemq.xml.

    With ``attribute``, they are those of the attribute.
    """
    return origin_of_value(_xml_path(element), attribute, part)


def variable_to_change(element: Element, attribute: str) -> str | None:
    """Return the inventory variable in which an operator changes an attribute of an XML element.

    It is ``activemq_xml_fragments`` if a fragment sets the attribute. The result is None for the element of a file that
    belongs to no fleet, and where the variable is unknown.
    """
    broker = element.document.broker
    if broker is None:
        return None
    path = _xml_path(element)
    origin = origin_of_value(path, attribute)
    if any(any(matching_start_tags(fragment.xml, origin)) for fragment in broker.settings.xml_fragments):
        return XML_FRAGMENTS
    return variable_of_rendered_attribute(path, attribute)


def in_variable_phrase(element: Element, attribute: str) -> str:
    """Return " in VARIABLE", the variable that sets an attribute, to end a fix text; "" if no variable does."""
    variable = variable_to_change(element, attribute)
    return f" in {variable}" if variable else ""


def _xml_path(element: Element) -> XmlPath:
    path = [(element.name, element.attributes)]
    while element.parent is not None:
        element = element.parent
        path.append((element.name, element.attributes))
    return path
