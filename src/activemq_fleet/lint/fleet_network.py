"""N, M: what only the whole fleet shows of its network."""

from __future__ import annotations
