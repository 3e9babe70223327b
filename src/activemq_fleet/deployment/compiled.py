"""Store the fleet that the module ``compile`` computed as JSON, for the later steps of the same playbook run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from activemq_fleet.deployment.facts import BrokerFacts


@dataclass(frozen=True, slots=True)
class PairAndGroupNamesOfAgent:
    """The names of the broker pair and of the group of pairs to which one failover agent belongs.

    Each is None for an agent without one.
    """

    pair: str | None
    group: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetFacts:
    """The facts about a fleet's brokers and agents that later steps of a playbook run need.

    The Ansible module ``compile`` computes it from the inventory. It has no secrets. ``brokers`` and ``agents`` are by
    inventory name. ``waivers`` are those in force. ``expected`` are the hosts that the play of compile was started
    with, unreachable ones included.
    """

    brokers: Mapping[str, BrokerFacts]
    agents: Mapping[str, PairAndGroupNamesOfAgent] = field(default_factory=dict)
    waivers: tuple[Mapping[str, Any], ...] = ()
    expected: tuple[str, ...] = ()

    def to_json(self) -> str:
        """Return the facts about a fleet's brokers and agents as JSON text.

        ``from_json`` reads it.
        """
        return json.dumps(
            {
                "brokers": [broker.as_dict() for broker in self.brokers.values()],
                "agents": {host: asdict(agent) for host, agent in self.agents.items()},
                "waivers": [dict(waiver) for waiver in self.waivers],
                "expected": self.expected,
            }
        )

    @classmethod
    def from_json(cls, text: str) -> FleetFacts:
        """Return the facts about a fleet's brokers and agents from the JSON text that ``to_json`` returned.

        Raises KeyError, TypeError, ValueError, ReleaseError.
        """
        compiled = json.loads(text)
        brokers = [BrokerFacts.from_mapping(mapping) for mapping in compiled["brokers"]]
        return cls(
            brokers={broker.host: broker for broker in brokers},
            agents={host: PairAndGroupNamesOfAgent(**agent) for host, agent in compiled["agents"].items()},
            waivers=tuple(compiled["waivers"]),
            expected=tuple(compiled["expected"]),
        )
