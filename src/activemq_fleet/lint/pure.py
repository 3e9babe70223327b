"""P: pure master/slave."""

from __future__ import annotations
