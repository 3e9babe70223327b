"""Read group, pair and node of a broker from its host name and variables; nothing else in the project parses a name.

The default convention is that of the HA network of brokers of 2011: ``GROUP-mqNUMBER-NODE``, so that
the name alone decides group, pair and preferred role. ``docs/names.md`` describes the others.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, get_args

from activemq_fleet.addresses import host_name_without_domain
from activemq_fleet.errors import InputError, SettingsError, text_required_message
from activemq_fleet.findings import join_problem_and_remedy

DEFAULT_PATTERN = r"^(?P<group>[^.]+)-mq(?P<number>[0-9]+)-(?P<node>[ab])(?:\.|$)"
DEFAULT_MASTER_NODE = "a"
PREFIX = "activemq_"
PATTERN_VARIABLE = "activemq_naming_pattern"
PARITY_VARIABLE = "activemq_naming_parity"
STATED_PARTS = ("group", "pair", "node")
"""The parts of an identity that variables of one host can state: ``activemq_group``, ``_pair`` and ``_node``."""
PART_VARIABLES = tuple(PREFIX + part for part in STATED_PARTS)
"""The variables of one host that state a part of its identity."""
NAMING_VARIABLES = (PARITY_VARIABLE, "activemq_master_node", *PART_VARIABLES)
"""The variables of one host by which its name is read, in addition to the pattern, which is the same for all hosts."""
PLAIN_NAME = r"[A-Za-z0-9][A-Za-z0-9_-]*"
NODE_MARK = "[A-Za-z0-9]+"

Role = Literal["master", "slave"]
Parity = Literal["odd-even", "even-odd"]

_NEARLY_MATCHING_NAME = re.compile(r"-mq[0-9]+", re.IGNORECASE)
_EXAMPLES = {"activemq_group": "orders", "activemq_pair": "orders-mq01", "activemq_node": "a"}
_PATTERN_GROUPS = ("group", "number", "node")
_LAST_DIGITS = re.compile(r"[0-9]+(?=[^0-9]*$)")
_SEPARATORS = "-_"
_WRITE_GROUPS_FIX = f"write (?P<group>…), (?P<number>…) and (?P<node>…) in {PATTERN_VARIABLE}"
_MARK_OF_OTHER_NODE = {"a": "b", "b": "a", "A": "B", "B": "A"}
# The node mark in a host name of an unknown fleet, such as a name in a file of another project.
# The name of the product, activemq, is no mark.
_FOREIGN_MARK = re.compile(
    r"(?:master|slave|primary|secondary|standby|backup|active(?!mq)|passive)|(?<=[-_.\d])[ab]$", re.IGNORECASE
)


class UnparsableBrokerNameError(InputError):
    """An error for a broker name from which its group, number or node cannot be parsed.

    The broker's variables do not state the part either. ``reason`` names the part, ``fix`` is the instruction, and
    ``problem`` has both.
    """

    def __init__(self, host: str, reason: str, fix: str) -> None:
        self.problem = join_problem_and_remedy(reason, fix)
        super().__init__(f"{host}: {self.problem}")
        self.reason = reason
        self.fix = fix


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of a broker: its group, number in the group, node of the pair, pair and DNS domain.

    It is parsed from the broker's host name. ``orders-mq01-a.example.com`` is node a of pair orders-mq01. ``role`` is
    the *preferred* role; which node is active is found out at run time. ``domain`` is what follows the first label,
    without the dot, and may be empty. ``number`` may be empty, too.
    """

    name: str
    group: str
    number: str
    node: str
    pair: str
    role: Role
    domain: str
    origins: Mapping[str, str] = field(default_factory=dict, compare=False)
    """By part (group, pair, node) what decides it: ``name``, ``parity`` or the name of a variable."""
    disagreements: Mapping[str, str] = field(default_factory=dict, compare=False)
    """The value in the name, by part, if a variable sets a different one."""
    other_node: str = field(default="", compare=False)
    """The mark of the pair's other node, and below the name of its host; empty if they are not known."""
    other_name: str = field(default="", compare=False)

    @property
    def short_host_name(self) -> str:
        """The short host name of a broker: the first label of its host name, such as ``orders-mq01-a``.

        It is the whole name if that is an IP address.
        """
        return host_name_without_domain(self.name)

    def to_dict(self) -> dict[str, str]:
        """Return a broker's group, number, node, pair, role and domain as the dictionary ``activemq_identity``."""
        return {name: getattr(self, name) for name in ("group", "number", "node", "pair", "role", "domain")}


@dataclass(frozen=True, slots=True)
class _ParsedName:
    """The parts of a parsed host name, empty where the name lacks one, and the other node as in ``Identity``."""

    group: str = ""
    number: str = ""
    node: str = ""
    pair: str = ""
    other_node: str = ""
    other_name: str = ""


@dataclass(frozen=True)
class Naming:
    """The naming convention by which a host name is split into group, number, node and domain.

    ``pattern`` is a regular expression with named groups: group, number, node, and pair if the name contains the name
    of the pair. ``master_node`` is the mark of preferred masters (None: ``a``, or the first of ``parity``). ``parity``:
    odd and even numbers are the nodes; ``odd-even`` pairs 1 with 2, ``even-odd`` 0 with 1. ``stated`` holds the parts
    that the host's variables state; they win over the name.
    """

    pattern: str = DEFAULT_PATTERN
    master_node: str | None = None
    parity: str | None = None
    stated: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def naming_of_host(cls, host: str, variables: Mapping[str, object], pattern: str | None = None) -> Naming:
        """Return the naming convention of a host, as its variables set it.

        ``pattern`` replaces ``activemq_naming_pattern``.

        Raises SettingsError for a group, pair or node that is no plain text.
        """
        values = {name: variables.get(name) for name in (PATTERN_VARIABLE, *NAMING_VARIABLES)}
        texts = {name: str(value) for name, value in values.items() if value is not None}
        parity = texts.get(PARITY_VARIABLE)
        if parity is not None and parity not in get_args(Parity):
            raise SettingsError.of_host(host, f"{PARITY_VARIABLE} is {parity[:60]!r}: set it to odd-even or even-odd")
        stated = {}
        for part in STATED_PARTS:
            name = PREFIX + part
            if name in texts:
                stated[part] = _check_stated_part(host, name, values[name], NODE_MARK if part == "node" else PLAIN_NAME)
        return cls(
            pattern or texts.get(PATTERN_VARIABLE) or DEFAULT_PATTERN,
            texts.get("activemq_master_node") or None,
            parity,
            stated,
        )

    @property
    def preferred_node_mark(self) -> str:
        """The mark of the preferred node (the preferred master) in host names, such as ``a``."""
        return self.master_node or (self.parity.partition("-")[0] if self.parity else DEFAULT_MASTER_NODE)

    def identify_broker(self, host_name: str) -> Identity | None:
        """Return the Identity (group, pair and node) of a broker, from its host name; None for a host without a broker.

        Raises InputError for a pattern that cannot be used, and UnparsableBrokerNameError for a broker of which neither
        the name nor a variable states a part.
        """
        parsed = self._parse_host_name(host_name)
        if parsed is None and not self.stated.keys() & {"pair", "node"}:
            return None
        name_parts = parsed or _ParsedName()
        parts = {part: self.stated.get(part) or getattr(name_parts, part) for part in STATED_PARTS}
        if missing := [part for part, text in parts.items() if not text]:
            raise UnparsableBrokerNameError(
                host_name, *self._missing_parts_reason_and_fix(missing, is_parsed=parsed is not None)
            )
        digits = _LAST_DIGITS.search(parts["pair"])
        by_name = "parity" if self.parity else "name"
        return Identity(
            name=host_name,
            group=parts["group"],
            number=name_parts.number or (digits[0] if digits else ""),
            node=parts["node"],
            pair=parts["pair"],
            role="master" if parts["node"] == self.preferred_node_mark else "slave",
            domain=host_name[len(host_name_without_domain(host_name)) + 1 :],
            origins={
                part: PREFIX + part if part in self.stated else "name" if part == "group" else by_name for part in parts
            },
            disagreements={
                part: getattr(name_parts, part)
                for part, text in self.stated.items()
                if getattr(name_parts, part) not in ("", text)
            },
            other_node="" if "node" in self.stated else name_parts.other_node,
            other_name="" if "node" in self.stated else name_parts.other_name,
        )

    def matches_pattern(self, name: str) -> bool:
        """Return whether a host name matches the naming pattern.

        The variables of the host are not considered.
        """
        return self._parse_host_name(name) is not None

    def looks_like_misspelled_broker(self, name: str) -> bool:
        """Return whether a host name resembles a broker name (``-mq01``), but does not match the naming pattern."""
        return _NEARLY_MATCHING_NAME.search(name) is not None and self.identify_broker(name) is None

    def _parse_host_name(self, name: str) -> _ParsedName | None:
        """Return the parts that a name has; None where it does not match the pattern."""
        regex = _compiled_pattern(self.pattern)
        if self.parity and not ("number" in regex.groupindex and "node" not in regex.groupindex):
            raise InputError(
                f"{PARITY_VARIABLE}: {self.parity} requires an {PATTERN_VARIABLE} with (?P<number>…) and without "
                f"(?P<node>…): correct the pattern, or remove {PARITY_VARIABLE}"
            )
        match = regex.search(name)
        if match is None:
            return None
        parts = {part: match[part] for part in (*_PATTERN_GROUPS, "pair") if part in regex.groupindex}
        if not all(parts.values()):
            return None
        return self._parse_by_parity(name, match, parts) if self.parity else _parse_by_mark(name, match, parts)

    def _parse_by_parity(self, name: str, match: re.Match[str], parts: Mapping[str, str]) -> _ParsedName:
        text, (start, end) = parts["number"], match.span("number")
        if not (text.isascii() and text.isdigit()):
            raise UnparsableBrokerNameError(
                name,
                f"(?P<number>…) of {PATTERN_VARIABLE} matches the text {text!r} of the host name, but must match a "
                "whole number",
                f"in {PATTERN_VARIABLE}, write this group as (?P<number>[0-9]+), so that it matches only digits",
            )
        number = int(text)
        starts_odd = self.parity == "odd-even"
        lower = number if bool(number % 2) == starts_odd else number - 1
        if lower < 0:
            raise UnparsableBrokerNameError(
                name,
                f"the host name has the number {text}, but with {PARITY_VARIABLE}: {self.parity} the numbers start at "
                "1 (the pairs are 1 and 2, 3 and 4)",
                f"rename the host, or set {PARITY_VARIABLE}: even-odd, which pairs the numbers 0 and 1",
            )
        # The width is that of the wider number, so that both nodes have the same pair name: 09-10, even if the name of
        # host 9 has no zero.
        width = max(len(text), len(str(lower + 1)))
        pair_numbers = tuple(str(member_number).zfill(width) for member_number in (lower, lower + 1))
        other_number = pair_numbers[1] if number == lower else pair_numbers[0]
        label = name.partition(".")[0]
        pair = f"{label[:start]}{pair_numbers[0]}-{pair_numbers[1]}{label[end:]}" if end <= len(label) else ""
        return _ParsedName(
            group=parts.get("group", ""),
            number=pair_numbers[0],
            node="odd" if number % 2 else "even",
            pair=parts.get("pair") or pair,
            other_node="even" if number % 2 else "odd",
            other_name=f"{name[:start]}{other_number}{name[end:]}",
        )

    def _missing_parts_reason_and_fix(self, missing: list[str], *, is_parsed: bool) -> tuple[str, str]:
        """Return the reason why parts are missing, and the fix."""
        groups_not_in_pattern = [
            group for group in _PATTERN_GROUPS if group not in _compiled_pattern(self.pattern).groupindex
        ]
        variables = " and ".join(PREFIX + part for part in missing)
        verb = "is" if len(missing) == 1 else "are"
        reason = f"the {' and '.join(missing)} of the broker {verb} unknown"
        fix = f"set {variables} of the host"
        if not is_parsed:
            reason = f"{reason}, because the host name does not match {PATTERN_VARIABLE}"
            return reason, f"{fix}, or correct {PATTERN_VARIABLE}"
        addable = [part for part in missing if part in groups_not_in_pattern and not (part == "node" and self.parity)]
        if not addable:
            return f"{reason}, because the host name does not contain {'it' if len(missing) == 1 else 'them'}", fix
        groups = " and ".join(f"(?P<{part}>…)" for part in addable)
        fix = f"{fix}, or add {groups} to {PATTERN_VARIABLE}"
        if "node" in addable and "number" not in groups_not_in_pattern:
            fix = f"{fix}. If odd and even numbers distinguish the nodes, set {PARITY_VARIABLE} to odd-even or even-odd"
        return f"{reason}, because {PATTERN_VARIABLE} does not contain {groups}", fix


def hosts_with_full_or_short_name(name: str, hosts: Collection[str]) -> list[str]:
    """Return the hosts that a full or short name identifies: the host of this name, else all with this first label."""
    return [name] if name in hosts else [host for host in hosts if host_name_without_domain(host) == name]


def with_masked_node_mark(host: str) -> str | None:
    """Return a host name with its node mark (such as ``a``) replaced by ``*``.

    It serves for names outside a known fleet; None without a mark.
    """
    label, dot, domain = host.lower().partition(".")
    text, count = _FOREIGN_MARK.subn("*", label)
    return f"{text}{dot}{domain}" if count else None


def is_certainly_pair_node(host: str) -> bool:
    """Return whether a host name with a node mark (such as ``a``) certainly denotes a node of a pair.

    It does if it has a number too, or if the mark is a role such as ``master``.
    """
    label = host.partition(".")[0]
    return any(character.isdigit() for character in label) or len(_FOREIGN_MARK.findall(label)[0]) > 1


def _parse_by_mark(name: str, match: re.Match[str], parts: Mapping[str, str]) -> _ParsedName:
    node = parts.get("node", "")
    start, end = match.span("node") if node else (0, 0)
    other_mark = _MARK_OF_OTHER_NODE.get(node, "")
    return _ParsedName(
        group=parts.get("group", ""),
        number=parts.get("number", ""),
        node=node,
        pair=parts.get("pair") or (_pair_name(name.partition(".")[0], parts, start, end) if node else ""),
        other_node=other_mark,
        other_name=f"{name[:start]}{other_mark}{name[end:]}" if other_mark else "",
    )


def _pair_name(label: str, parts: Mapping[str, str], start: int, end: int) -> str:
    """Return the name of a pair: the first label without a node mark at its end, or GROUP-mqNUMBER.

    Without a group or a number in the pattern, return the label without the mark, wherever the mark is.
    """
    node = parts["node"]
    if label.endswith(f"-{node}"):
        return label.removesuffix(f"-{node}")
    if "group" in parts and "number" in parts:
        return f"{parts['group']}-mq{parts['number']}"
    before, after = label[:start], label[end:]
    if not after or after[0] in _SEPARATORS:
        before = before[:-1] if before[-1:] and before[-1] in _SEPARATORS else before
    return before + after if before else after.lstrip(_SEPARATORS)


@lru_cache(maxsize=64)
def _compiled_pattern(pattern: str) -> re.Pattern[str]:
    """Return the compiled pattern. Raises InputError for an invalid regular expression or one without named groups."""
    try:
        regex = re.compile(pattern)
    except (re.error, RecursionError) as error:
        raise InputError(
            f"{PATTERN_VARIABLE} is not a valid regular expression: {error}. Correct the expression"
        ) from None
    if regex.groupindex.keys().isdisjoint((*_PATTERN_GROUPS, "pair")):
        raise InputError(
            f"{PATTERN_VARIABLE} contains none of the named capture groups (?P<group>…), (?P<number>…), (?P<node>…) "
            f"and (?P<pair>…): {_WRITE_GROUPS_FIX}"
        )
    return regex


def _stated_part_problem(variable: str, value: str, allowed: str) -> str:
    if not value:
        return f"{variable} is empty: set it to a name of {allowed}, or remove it"
    if "{{" in value:
        return (
            f"{variable} is the template {value[:60]!r}, but Ansible groups the hosts before it evaluates templates: "
            "replace the template with its value"
        )
    return f"{variable} is {value[:60]!r}, but may contain only {allowed}: write a value such as {_EXAMPLES[variable]}"


def _check_stated_part(host: str, variable: str, value: object, pattern: str) -> str:
    """Return the plain text of a variable that states a part. Raises SettingsError for anything else."""
    if not isinstance(value, str):
        raise SettingsError.of_host(host, text_required_message(variable, value))
    if not re.fullmatch(pattern, value):
        allowed = "letters and digits" if pattern == NODE_MARK else "letters, digits, - and _"
        raise SettingsError.of_host(host, _stated_part_problem(variable, value, allowed))
    return value
