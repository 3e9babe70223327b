"""Format findings for people and programs."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from activemq_fleet.cli.formats.report import CheckReport

__all__ = ["FORMATS", "CheckReport", "report_formatter"]

FORMATS = ("text", "json", "sarif", "github", "junit", "codeclimate")


def report_formatter(name: str) -> Callable[[CheckReport], str]:
    """Return the function that formats a check's report as ``text``, ``json`` or another format.

    The function is imported on first use.
    """
    module = import_module(f"activemq_fleet.cli.formats.{'text' if name == 'text' else 'programs'}")
    write: Callable[[CheckReport], str] = getattr(module, f"format_report_as_{name}")
    return write
