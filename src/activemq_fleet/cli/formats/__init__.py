"""Format findings for people and programs."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from activemq_fleet.cli.formats.report import Report

__all__ = ["FORMATS", "Report", "formatter"]

FORMATS = ("text", "json", "sarif", "github", "junit", "codeclimate")


def formatter(name: str) -> Callable[[Report], str]:
    """Return the function that formats a check's report as ``text``, ``json`` and so on; imported on first use."""
    module = import_module(f"activemq_fleet.cli.formats.{'text' if name == 'text' else 'programs'}")
    write: Callable[[Report], str] = getattr(module, f"to_{name}")
    return write
