"""Read values of XML attributes as Spring does; imports nothing of the project."""

from __future__ import annotations

_BOOLEANS = dict.fromkeys(("true", "on", "yes", "1"), True) | dict.fromkeys(("false", "off", "no", "0"), False)


def spring_boolean(text: str) -> bool | None:
    """Return the boolean that Spring reads from an attribute's text; None if Spring rejects the text.

    Source: CustomBooleanEditor of Spring
    """
    return _BOOLEANS.get(text.lower())
