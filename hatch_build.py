"""Add the Ansible collection to the wheel, next to the library that its plugins call.

This is a hook instead of a ``force-include`` in pyproject.toml, because an editable install would copy the included
files. The copy would shadow the checkout and become outdated. In development, ``dev-mode-dirs`` in pyproject.toml
makes the collection available.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

COLLECTION = "ansible_collections/activemq/fleet"
SCHEMAS = "build/schemas.zip"
"""The XML schemas of ActiveMQ's releases, which `make package` downloads before it builds the wheel."""
PARTS = ("extensions/molecule_kit", "galaxy.yml", "meta", "playbooks", "plugins", "roles")


class CollectionHook(BuildHookInterface[Any]):
    """A hook that maps each part of the collection to its path below ``site-packages``."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the collection to a standard wheel; ``version`` is "standard" or "editable"."""
        if version == "editable":
            return
        for part in PARTS:
            build_data["force_include"][str(Path(self.root, part))] = f"{COLLECTION}/{part}"
        if (schemas := Path(self.root, SCHEMAS)).exists():
            build_data["force_include"][str(schemas)] = "activemq_fleet/schemas.zip"
