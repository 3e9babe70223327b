"""``audit --follow``: the audit as a stream over logs and journals that grow."""

from __future__ import annotations
