"""Parse host names into identities; nothing else in the project parses a host name.

The convention is that of the HA network of brokers of 2011: ``GROUP-mqNUMBER-NODE``, so that
the name alone decides group, pair and preferred role.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from activemq_fleet.errors import InputError

DEFAULT_PATTERN = r"^(?P<group>[^.]+)-mq(?P<number>[0-9]+)-(?P<node>[ab])(?:\.|$)"
_NEARLY = re.compile(r"-mq[0-9]+", re.IGNORECASE)
_GROUPS = ("group", "number", "node")

Role = Literal["master", "slave"]


@dataclass(frozen=True, slots=True)
class Identity:
    """The parts of a broker's host name: ``orders-mq01-a.example.com`` is node a of pair orders-mq01.

    ``role`` is the *preferred* role; which node is active is found out at run time. ``domain``
    is what follows the first label, without the dot, and may be empty.
    """

    name: str
    group: str
    number: str
    node: str
    pair: str
    role: Role
    domain: str

    @property
    def host(self) -> str:
        """The first label of the host name, such as ``orders-mq01-a``."""
        return self.name.partition(".")[0]

    def to_dict(self) -> dict[str, str]:
        """Return group, number, node, pair, role and domain as a dictionary of texts, as ``activemq_identity`` is."""
        return {name: getattr(self, name) for name in ("group", "number", "node", "pair", "role", "domain")}


@dataclass(frozen=True)
class Naming:
    """The naming pattern of host names (groups group, number, node), and the node letter of preferred masters."""

    pattern: str = DEFAULT_PATTERN
    master_node: str = "a"

    @cached_property
    def _regex(self) -> re.Pattern[str]:
        try:
            regex = re.compile(self.pattern)
        except (re.error, RecursionError) as error:
            raise InputError(f"activemq_naming_pattern is not a regular expression: {error}") from None
        missing = [name for name in _GROUPS if name not in regex.groupindex]
        if missing:
            raise InputError(
                "activemq_naming_pattern lacks the named group(s) "
                f"{', '.join(missing)}: write (?P<group>…), (?P<number>…) and (?P<node>…)"
            )
        return regex

    def identify(self, name: str) -> Identity | None:
        """Return the parts of a host name (group, pair, node and more), or None where it does not match the pattern.

        Raises InputError for a pattern that is not a regular expression or lacks a group.
        """
        match = self._regex.search(name)
        if match is None or not all(match.group(*_GROUPS)):
            return None
        group, number, node = match.group(*_GROUPS)
        label, _, domain = name.partition(".")
        # The pair is the label without its node letter; a pattern of the user's own may put
        # other text around the parts, so it is taken from the label where that is possible.
        suffix = f"-{node}"
        pair = label.removesuffix(suffix) if label.endswith(suffix) else f"{group}-mq{number}"
        role: Role = "master" if node == self.master_node else "slave"
        return Identity(name, group, number, node, pair, role, domain)

    def looks_like_broker(self, name: str) -> bool:
        """Return whether a host name has ``-mq`` and digits but does not match the pattern, probably by mistake."""
        return self.identify(name) is None and _NEARLY.search(name) is not None
