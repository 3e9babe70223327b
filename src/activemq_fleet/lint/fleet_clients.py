"""C, S: what only the whole fleet shows of clients and security."""

from __future__ import annotations
