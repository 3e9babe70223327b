"""Findings, as people and machines want them: one function a format."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from activemq_fleet.cli.formats.report import Report

__all__ = ["FORMATS", "Report", "formatter"]

FORMATS = ("text", "json", "sarif", "github", "junit")


def formatter(name: str) -> Callable[[Report], str]:
    """The function of a format. Each is imported only when it is asked for."""
    module = import_module(f"activemq_fleet.cli.formats.{name}")
    write: Callable[[Report], str] = module.write
    return write
