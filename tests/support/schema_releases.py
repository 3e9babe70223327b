"""Releases whose schemas the tests of settings use."""

from __future__ import annotations

SCHEMA_RELEASES = ("5.5.1", "5.6.0", "5.7.0", "5.8.0", "5.9.1", "5.11.4", "5.16.7", "5.18.3", "6.3.1")
