"""Define rules: each is a small function with a docstring that users read.

The docstring of a rule holds, in this order::

    masterslave: needs two brokers             (the first line: what is wrong)

    Why: what happens, and in which release it was seen.
    Fix: what to write instead.
    Cannot see: what a file alone does not show (optional).

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
from functools import cached_property
from inspect import cleandoc
from typing import TYPE_CHECKING, Any, Literal

from activemq_fleet.lint.document import Problem

if TYPE_CHECKING:
    from activemq_fleet.findings import Severity
    from activemq_fleet.releases import Release

Scope = Literal["file", "release", "fleet", "host"]
ALWAYS = "5.3.0"
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
_PART = re.compile(r"^(Why|Fix|Cannot see): (.*?)(?=\n\n|\n(?:Fix|Cannot see): |\Z)", re.MULTILINE | re.DOTALL)
EXAMPLE_RELEASE = "5.18.3"


@dataclass(frozen=True, slots=True)
class Example:
    """An example in a rule's docstring: the release it is for, its text, and the name of the file it stands in."""

    release: str
    text: str
    file: str = "activemq.xml"


@dataclass(frozen=True)
class Rule:
    """One rule.

    ``releases`` is a span of releases, as ``Release.within`` takes it; ``refuses`` says that a broker with the mistake
    does not start, which an integration test shows on a real broker.
    """

    id: str
    severity: Severity
    scope: Scope
    check: Callable[[Any], Iterable[Problem]]
    releases: str = ALWAYS
    source: str = ""
    refuses: bool = False

    def applies_to(self, release: Release) -> bool:
        return release.within(self.releases)

    @cached_property
    def text(self) -> str:
        """The docstring of the rule's function, dedented."""
        return cleandoc(self.check.__doc__ or "") + "\n"

    @property
    def title(self) -> str:
        return self.text.partition("\n")[0]

    @cached_property
    def _parts(self) -> dict[str, str]:
        return {match[1]: " ".join(match[2].split()) for match in _PART.finditer(self.text)}

    @property
    def why(self) -> str:
        return self._parts.get("Why", "")

    @property
    def fix(self) -> str:
        return self._parts.get("Fix", "")

    @property
    def cannot_see(self) -> str:
        return self._parts.get("Cannot see", "")

    @property
    def fires(self) -> tuple[Example, ...]:
        return tuple(self._examples("Fires"))

    @property
    def silent(self) -> tuple[Example, ...]:
        return tuple(self._examples("Silent"))

    def _examples(self, kind: str) -> Iterator[Example]:
        for match in _EXAMPLE.finditer(self.text):
            if match[1] == kind:
                yield Example(match[2] or EXAMPLE_RELEASE, cleandoc("\n" + match[4]), match[3] or "activemq.xml")


RULES: dict[str, Rule] = {}


def rule(
    name: str,
    severity: Severity,
    *,
    scope: Scope = "file",
    releases: str = ALWAYS,
    source: str = "",
    refuses: bool = False,
) -> Callable[[Callable[[Any], Iterable[Problem]]], Callable[[Any], Iterable[Problem]]]:
    """Return a decorator that registers a function as a rule.

    A file rule takes a Document, a release, fleet or host rule the ReleaseView, FleetView or HostView.
    """

    def register(check: Callable[[Any], Iterable[Problem]]) -> Callable[[Any], Iterable[Problem]]:
        if name in RULES:
            msg = f"two rules are called {name}"
            raise ValueError(msg)
        RULES[name] = Rule(name, severity, scope, check, releases, source, refuses)
        return check

    return register
