"""What only the machine shows."""

from __future__ import annotations
