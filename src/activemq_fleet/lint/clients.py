"""C: clients, flow control, durability."""

from __future__ import annotations
