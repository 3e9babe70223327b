"""Rules N about wildcards in the names of destinations."""

from __future__ import annotations

from collections.abc import Iterator

from activemq_fleet.lint.document import Document, Problem
from activemq_fleet.lint.engine import rule

_WILDCARDS = "*>"
# The elements that name a destination in an attribute queue or topic.
_ELEMENTS_WITH_KIND_ATTRIBUTES = (
    "policyEntry",
    "authorizationEntry",
    "tempDestinationAuthorizationEntry",
    "filteredDestination",
    "filteredPersistenceAdapter",
    "filteredKahaDB",
    "redeliveryPolicy",
    "journalPersistenceAdapter",
)
# The attributes that name destinations, by element.
_NAME_ATTRIBUTES = {
    **dict.fromkeys(_ELEMENTS_WITH_KIND_ATTRIBUTES, ("queue", "topic")),
    **dict.fromkeys(("queue", "topic", "tempQueue", "tempTopic"), ("physicalName",)),
    **dict.fromkeys(("virtualTopic", "compositeQueue", "compositeTopic"), ("name",)),
}


@rule("N060", "warning")
def wildcard_inside_destination_name_part(document: Document) -> Iterator[Problem]:
    """A wildcard is next to other characters, such as in tmp_*: the broker treats it as an ordinary character.

    Why: an element is the text between two dots of a name. The wildcard * matches one whole element, and > matches all
        elements that follow. In tmp_* or orders> they are ordinary characters: the policy, permission or filter applies
        only to a destination with exactly this name.
    Fix: put the variable part of destination names into a separate element, such as tmp.*, and write orders.> for
        orders and all destinations below it.
    Source: DestinationFilter.parseFilter, DestinationMapNode and DestinationPath of the release tags

    Fires on 5.18.3::

        <policyEntry queue="tmp_*" memoryLimit="16 mb"/>

    Fires on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://a:61616)">
          <excludedDestinations><queue physicalName="orders.private>"/></excludedDestinations>
        </networkConnector>

    Silent on 5.18.3::

        <policyEntry queue="*.tmp.>" memoryLimit="16 mb"/>
    """
    for node in document.elements_with_tag_name(*_NAME_ATTRIBUTES):
        for attribute in _NAME_ATTRIBUTES[node.name]:
            for name in (node.literal_value(attribute) or "").split(","):
                path = name.strip().rpartition("//")[2].partition("?")[0]
                for part in path.split("."):
                    if len(part) > 1 and any(wildcard in part for wildcard in _WILDCARDS):
                        wildcard = next(wildcard for wildcard in _WILDCARDS if wildcard in part)
                        text = (
                            f"in {attribute} {path}, the {wildcard} of {part} is an ordinary character and not a "
                            "wildcard, because other characters are next to it"
                        )
                        yield node.problem(text, attribute, part, fix=_wildcard_fix(path, part))
                        break


def _wildcard_fix(path: str, part: str) -> str:
    """Return an instruction to replace a part of a destination name that contains a wildcard."""
    prefix = path.removesuffix(">")
    is_last = path.endswith(part) and part.endswith(">")
    if is_last and not any(wildcard in part[:-1] for wildcard in _WILDCARDS):
        return f"write {prefix}.> for {prefix} and all destinations below it"
    stem = part.rstrip(_WILDCARDS).rstrip("_-")
    example = f"such as {stem}.*" if stem.isalnum() else "such as orders.*"
    return f"put the variable part of the destinations' names into a separate element between dots, {example}"
