"""Format findings for people and machines, with one module for each format."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from activemq_fleet.cli.formats.report import Report

__all__ = ["FORMATS", "Report", "formatter"]

FORMATS = ("text", "json", "sarif", "github", "junit")


def formatter(name: str) -> Callable[[Report], str]:
    """Return the function that formats a report; the format's module is imported on demand."""
    module = import_module(f"activemq_fleet.cli.formats.{name}")
    write: Callable[[Report], str] = module.write
    return write
