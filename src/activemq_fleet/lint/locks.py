"""L: locks and the shared store."""

from __future__ import annotations
