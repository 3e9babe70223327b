"""``activemq_*`` variables: what each host may set, checked and typed.

``broker`` is imported when one of its names is first used, and pydantic with it: ``check --file``
needs ``sizes`` and ``default_credentials`` alone, and answers within half a second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from activemq_fleet.settings.broker import (
        DEFAULT_OPTIONS,
        KNOWN,
        NOT_SETTINGS,
        PREFIX,
        ConnectorSettings,
        FragmentSettings,
        LinkSettings,
        Settings,
        WaiverSettings,
        read_settings,
    )

__all__ = [
    "DEFAULT_OPTIONS",
    "KNOWN",
    "NOT_SETTINGS",
    "PREFIX",
    "ConnectorSettings",
    "FragmentSettings",
    "LinkSettings",
    "Settings",
    "WaiverSettings",
    "read_settings",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    from activemq_fleet.settings import broker

    return getattr(broker, name)
