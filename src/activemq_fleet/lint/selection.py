"""Select the rules to run, by ``--select`` and ``--ignore``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from activemq_fleet.errors import InputError

_NO_GROUPS: Mapping[str, Sequence[str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class RuleSelection:
    """The selection of lint rules by prefixes of their ids.

    It has the selected and the ignored ones. ``N`` is a family of rules, ``N010`` is one rule.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()

    @classmethod
    def from_prefixes(
        cls,
        select: Sequence[str],
        ignore: Sequence[str],
        known: Sequence[str],
        *,
        groups: Mapping[str, Sequence[str]] = _NO_GROUPS,
    ) -> RuleSelection:
        """Return the selection of the lint rules whose ids begin with a prefix in ``select``, but none in ``ignore``.

        An example of a prefix is ``L01``; an item can be a list such as ``N,L010``. An empty ``select`` selects
        all rules. Raises InputError for a prefix with which no id in ``known`` begins. ``groups`` maps names, which can
        replace prefixes, to several rules each.
        """
        chosen, ignored = _rule_id_prefixes(select, groups), _rule_id_prefixes(ignore, groups)
        for option, prefixes in (("--select", chosen), ("--ignore", ignored)):
            for prefix in prefixes:
                if not any(name.startswith(prefix) for name in known):
                    raise InputError(
                        f"{option} {prefix}: no rule has an id that begins with {prefix}; "
                        "run `activemq-fleet rule` for all ids"
                    )
        return cls(chosen, ignored)

    def includes_rule(self, rule_id: str) -> bool:
        """Return whether the selection by id prefixes (``--select`` and ``--ignore``) includes a lint rule.

        The longer prefix takes precedence, as in ``--select N --ignore N010``.
        """
        selected_length = max((len(prefix) for prefix in self.select if rule_id.startswith(prefix)), default=-1)
        ignored_length = max((len(prefix) for prefix in self.ignore if rule_id.startswith(prefix)), default=-1)
        return selected_length > ignored_length if self.select else ignored_length < 0


def _rule_id_prefixes(values: Sequence[str], groups: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    words = (word.strip() for value in values for word in value.split(",") if word.strip())
    return tuple(name for word in words for name in groups.get(word.lower(), (word.upper(),)))


EVERY_RULE = RuleSelection()
