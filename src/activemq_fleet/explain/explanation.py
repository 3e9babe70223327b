"""Declare the parts of an explanation: sections of entries, each entry with its reason and variable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from activemq_fleet.settings.host_settings import PREFIX, HostSettings
from activemq_fleet.topology import Broker, Fleet

Origin = Literal["inventory", "default"]
NONE = "none"
"""The label, and without a reason also the text, of the only entry of an empty section."""


@dataclass(frozen=True, slots=True)
class HostStatement:
    """A statement about a host: an entry of the explanation of the host.

    ``why`` is the statement's reason in a few words; ``details`` are further lines, such as a URI. ``variable`` is the
    variable that decides the value; ``origin``: whether the inventory or a default sets the variable. ``data`` holds
    the statement's values for programs.
    """

    label: str
    text: str
    why: str = ""
    details: tuple[str, ...] = ()
    variable: str = ""
    origin: Origin | None = None
    severity: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the entry (a statement about a host) as a dictionary for JSON."""
        names = ("label", "text", "why", "details", "variable", "origin", "data")
        return {name: getattr(self, name) for name in names} | {"variable": self.variable or None}


@dataclass(frozen=True, slots=True)
class ExplanationSection:
    """A section of the explanation of a host: a titled list of statements.

    ``name`` is for programs and never changes, ``title`` is for people; ``intro`` precedes the entries. ``stacked``
    entries have their label on a separate line, for long names and URIs.
    """

    name: str
    title: str
    entries: tuple[HostStatement, ...]
    intro: str = ""
    stacked: bool = False


@dataclass(frozen=True, slots=True)
class HostExplanation:
    """The explanation of a host, or of the message route from it to another host: statements with reasons, in sections.

    ``kinds`` are broker, agent and balancer, of which a host may be several.
    """

    host: str
    kinds: tuple[str, ...]
    title: str
    sections: tuple[ExplanationSection, ...]

    def section(self, name: str) -> ExplanationSection:
        """Return the section with the given name of the text that the command ``explain`` prints about a host.

        The method raises KeyError if the explanation has no such section.
        """
        for section in self.sections:
            if section.name == name:
                return section
        raise KeyError(name)

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation of a host as a dictionary for JSON.

        Its keys are ``{host, kinds, title, sections}``.
        """
        sections = [
            {
                "name": section.name,
                "title": section.title,
                "intro": section.intro,
                "entries": [e.to_dict() for e in section.entries],
            }
            for section in self.sections
        ]
        return {"host": self.host, "kinds": self.kinds, "title": self.title, "sections": sections}


def variable_entry(settings: HostSettings, name: str, label: str, text: str, **more: Any) -> HostStatement:
    """Return a HostStatement about a setting of a host that the variable ``activemq_NAME`` determines.

    The statement has the variable and its origin: the inventory or the default.
    """
    origin: Origin = "inventory" if name in settings.model_fields_set else "default"
    return HostStatement(label, text, variable=PREFIX + name, origin=origin, **more)


def is_only_pair_in_group(fleet: Fleet, broker: Broker) -> bool:
    """Return whether the pair of a broker is the only pair in its group.

    A broker without a peer counts as a pair.
    """
    return all(other.name_in_links == broker.name_in_links for other in fleet.brokers if other.group == broker.group)


def broker_or_pair_noun(broker: Broker) -> str:
    """Return the noun for a broker: ``broker``, or ``pair`` if it has a peer.

    Texts about links and routes use the noun.
    """
    return "pair" if broker.ha_profile.has_peer else "broker"


def pair_count(fleet: Fleet, group: str) -> int:
    """Return the number of broker pairs in a group of the fleet."""
    return next(len(fleet_group.pairs) for fleet_group in fleet.groups if fleet_group.name == group)
