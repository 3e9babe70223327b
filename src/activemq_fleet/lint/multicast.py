"""M: multicast."""

from __future__ import annotations
