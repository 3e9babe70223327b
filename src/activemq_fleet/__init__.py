"""The library of activemq.fleet: load, build, render, check and explain fleets of ActiveMQ Classic brokers.

The names in ``__all__`` are the public API; docs/python-api.md shows it. Each is imported from its module when it is
first used, so that ``import activemq_fleet`` takes about as long as an empty module, and nothing is loaded that a
program does not call. All modules below are private and change without notice, except ``activemq_fleet.lab.Lab``.
"""

from __future__ import annotations

from activemq_fleet._version import __version__ as __version__

TYPE_CHECKING = False  # Type checkers treat it as true. An import of typing would take longer than this module.
if TYPE_CHECKING:
    from activemq_fleet.adopt import adopt_files
    from activemq_fleet.errors import FleetError, InputError, ReleaseError, SettingsError
    from activemq_fleet.explain import explain_host
    from activemq_fleet.findings import Finding
    from activemq_fleet.inventory import load_fleet
    from activemq_fleet.lint.apply_repairs import FileRepair
    from activemq_fleet.releases import Release
    from activemq_fleet.render import render_fleet
    from activemq_fleet.routes import find_routes
    from activemq_fleet.status import FleetStatus, fleet_status
    from activemq_fleet.topology import Agent, Broker, Fleet, Group, Link, Pair, build_fleet
    from activemq_fleet.validation import check_fleet, lint_file, lint_links_between_files, repair_file

__all__ = [
    "Agent",
    "Broker",
    "FileRepair",
    "Finding",
    "Fleet",
    "FleetError",
    "FleetStatus",
    "Group",
    "InputError",
    "Link",
    "Pair",
    "Release",
    "ReleaseError",
    "SettingsError",
    "adopt_files",
    "build_fleet",
    "check_fleet",
    "explain_host",
    "find_routes",
    "fleet_status",
    "lint_file",
    "lint_links_between_files",
    "load_fleet",
    "render_fleet",
    "repair_file",
]

if not TYPE_CHECKING:  # a type checker would accept every name of a module with __getattr__
    _NAMES_BY_MODULE = {
        "adopt": ("adopt_files",),
        "errors": ("FleetError", "InputError", "ReleaseError", "SettingsError"),
        "explain": ("explain_host",),
        "findings": ("Finding",),
        "inventory": ("load_fleet",),
        "lint.apply_repairs": ("FileRepair",),
        "releases": ("Release",),
        "render": ("render_fleet",),
        "routes": ("find_routes",),
        "status": ("FleetStatus", "fleet_status"),
        "topology": ("Agent", "Broker", "Fleet", "Group", "Link", "Pair", "build_fleet"),
        "validation": ("check_fleet", "lint_file", "lint_links_between_files", "repair_file"),
    }
    _MODULE_BY_NAME = {name: module for module, names in _NAMES_BY_MODULE.items() for name in names}

    def __getattr__(name):
        """Import a name of the API from its module on first use."""
        if name not in _MODULE_BY_NAME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        attribute = getattr(import_module(f"{__name__}.{_MODULE_BY_NAME[name]}"), name)
        globals()[name] = attribute
        return attribute

    def __dir__():
        return sorted({*globals(), *__all__})
