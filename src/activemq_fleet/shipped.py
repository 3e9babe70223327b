"""What the releases ship, or every howto writes; each is tried first by whoever scans."""

from __future__ import annotations

PASSWORDS = frozenset({
    ("admin", "admin"),
    ("user", "user"),
    ("user", "password"),
    ("guest", "guest"),
    ("guest", "password"),
    ("system", "manager"),
    ("admin", "activemq"),
    ("admin", "password"),
})  # fmt: skip
"""Accounts, as (name, password)."""
