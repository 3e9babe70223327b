"""Puts the Ansible collection into the wheel, beside the library that its plugins call.

A hook and not a plain ``force-include``, because an editable install would copy what is forced:
the copy would shadow the checkout and go stale. In development the collection is found through
``dev-mode-dirs`` (see pyproject.toml).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

COLLECTION = "ansible_collections/activemq/fleet"
SCHEMAS = "build/schemas.zip"
"""The XML schemas of ActiveMQ's releases: `make package` fetches them before it builds the wheel."""
PARTS = ("extensions/molecule_kit", "galaxy.yml", "meta", "playbooks", "plugins", "roles")


class CollectionHook(BuildHookInterface[Any]):
    """Maps each part of the collection to its place below ``site-packages``."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the collection to a real wheel; ``version`` is "standard" or "editable"."""
        if version == "editable":
            return
        for part in PARTS:
            build_data["force_include"][str(Path(self.root, part))] = f"{COLLECTION}/{part}"
        if (schemas := Path(self.root, SCHEMAS)).exists():
            build_data["force_include"][str(schemas)] = "activemq_fleet/schemas.zip"
