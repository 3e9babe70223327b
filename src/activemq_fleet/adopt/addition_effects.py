"""Name the effect of what rendered files add to original ones, where it changes how a broker behaves."""

from __future__ import annotations

import re

# End of the path, text of the rendered value, effect. Defaults: the fields of the classes in the release tags.
_EFFECTS = (
    (r"/managementContext", r'createConnector="false"', "JMX no longer listens on port 1099"),
    (r"/@createConnector", r"false", "JMX no longer listens on port 1099"),
    (r"topic='>'\]", r'topicPrefetch="', "a topic consumer prefetches fewer messages than the default of 32,766"),
    (r"/@topicPrefetch", r"", "a topic consumer prefetches another number of messages"),
    (
        r"/@decreaseNetworkConsumerPriority",
        r"true",
        "local consumers get messages before bridges do, which is the default from 5.18 on",
    ),
    (r"/@networkConnectorStartAsync", r"true", "the broker starts without waiting for its links"),
    (
        r"networkBridgeFilterFactory|policyEntry\[.*\]",
        r'replayWhenNoConsumers="true"',
        "a message can return to the broker that it came from if it has no consumer here",
    ),
    (r"/ioExceptionHandler", r'ignoreNoSpaceErrors="false"', "the broker stops if the disk is full"),
    (r"/ioExceptionHandler", r"", "the broker handles errors of its store differently"),
    (r"/@schedulePeriodForDiskUsageCheck", r"", "the broker checks the free disk space regularly"),
    (r"/@userName", r"", "the bridge logs in"),
    (r"/plugins.*", r"", "the broker checks or changes what clients do"),
)


def effect_of_addition(path: str, rendered: str) -> str | None:
    """Return the effect of an attribute or element that rendered files add; None for one without a known effect."""
    for place, value, effect in _EFFECTS:
        if re.search(f"(?:{place})$", path) and value in rendered:
            return effect
    return None
