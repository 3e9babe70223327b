"""User names and passwords that releases or tutorials ship, which attackers try first."""

from __future__ import annotations

_DEFAULT_CREDENTIALS = frozenset({
    ("admin", "admin"),
    ("user", "user"),
    ("user", "password"),
    ("guest", "guest"),
    ("guest", "password"),
    ("system", "manager"),
    ("admin", "activemq"),
    ("admin", "password"),
})  # fmt: skip


def is_default_credential(username: str, password: str) -> bool:
    """Return whether releases ship this user name with this password, such as admin/admin or system/manager."""
    return (username, password) in _DEFAULT_CREDENTIALS
