"""User names and passwords that releases, products or tutorials ship, which attackers try first."""

from __future__ import annotations

import re

_SHIPPED = frozenset({
    ("admin", "admin"),
    ("user", "user"),
    ("user", "password"),
    ("guest", "password"),
    ("system", "manager"),
    ("admin", "activemq"),
})  # fmt: skip
# Of other products, and of tutorials.
_WELL_KNOWN = frozenset({("guest", "guest"), ("admin", "password")})
_GUESSED = frozenset({
    "activemq", "admin", "amq", "broker", "changeit", "changeme", "default", "guest", "letmein", "manager",
    "marionette", "mcollective", "pass", "passw0rd", "password", "qwerty", "root", "secret", "test", "user", "welcome",
})  # fmt: skip
_FEW_DIGITS = re.compile(r"\d{1,6}")
_FINAL_DIGITS = re.compile(r"[\W_]?\d{1,4}$")
_SHORTEST = 4
# Placeholders, encrypted values, and what masks a value.
_HIDDEN = re.compile(r"[$#@%{<]|ENC\(|OBF:|CRYPT:|MD5:|([*xX.-])\1*$")


def is_default_credential(username: str, password: str) -> bool:
    """Return whether ActiveMQ or another product ships the given user name with the given password.

    An example is admin/admin.
    """
    return (username, password) in _SHIPPED or (username, password) in _WELL_KNOWN


def is_shipped_credential(username: str, password: str) -> bool:
    """Return whether an ActiveMQ release ships a user name with a password, such as system/manager."""
    return (username, password) in _SHIPPED


def is_guessable_credential(username: str, password: str) -> bool:
    """Return whether a password is easy to guess for the given user name.

    Such a password is the user name, a common word, or a few digits. A value that is empty, encrypted or a placeholder
    is none.
    """
    text = password.strip().lower()
    if not text or _HIDDEN.match(password.strip()):
        return False
    words = (text, _FINAL_DIGITS.sub("", text))
    is_word = not _GUESSED.isdisjoint(words) or username.strip().lower() in words
    return len(text) < _SHORTEST or bool(_FEW_DIGITS.fullmatch(text)) or is_word
