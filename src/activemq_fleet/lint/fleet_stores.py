"""V, L, P: what only the whole fleet shows of releases, stores and locks."""

from __future__ import annotations
