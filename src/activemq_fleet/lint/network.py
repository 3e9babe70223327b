"""N: the network as one file shows it."""

from __future__ import annotations
