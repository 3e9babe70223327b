"""Lays down a broker's files as ``activemq.fleet.configure`` does: the same code, the same tree."""

from __future__ import annotations

import importlib
from typing import Any

from activemq_fleet.deployment import files_of
from activemq_fleet.errors import LabError
from activemq_fleet.lab.loopback_overlay import Software
from activemq_fleet.render import service
from activemq_fleet.topology import Broker

_UTILS = "ansible_collections.activemq.fleet.plugins.module_utils"


def install(broker: Broker, software: Software) -> str:
    """Put the broker's rendered files in force, if they are not, and return their version's name.

    Raises LabError when the disk refuses, or when the collection is not beside the library.
    """
    archive = collection_module("install.configuration_archive")
    installer = collection_module("install.configuration_install")
    vendor = collection_module("install.vendor_files")
    tree: dict[str, Any] = vendor.vendor_files(software.home) if software.whole else {}
    for path, file in files_of(broker).items():
        tree[path] = archive.File(file.content, file.mode, file.masked, file.hidden)
    base = service.paths(broker).base
    try:
        return str(installer.install(base, tree, installer.Owners()).version)
    except archive.InstallError as error:
        raise LabError(f"{broker.host}: its files cannot be installed: {error}") from None
    except OSError as error:
        where = error.filename or base
        raise LabError(f"{broker.host}: its files cannot be installed: {where}: {error.strerror or error}") from None


def collection_module(name: str) -> Any:
    """A module of the collection's ``module_utils``. Raises LabError when the collection is not beside the library."""
    try:
        return importlib.import_module(f"{_UTILS}.{name}")
    except ImportError as error:
        raise LabError(
            f"the collection activemq.fleet is not beside its library ({error}): "
            "pip install activemq-fleet, or make setup in a checkout"
        ) from None
