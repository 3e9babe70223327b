"""The pair of attacks and drills, with a store that is filled beforehand."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from activemq_fleet.lab.lab import Lab
from activemq_fleet.node.fence.shared_store import current_store_directory
from activemq_fleet.node.timeouts import READY
from activemq_fleet.render.broker_paths import kahadb_directory_in_xml
from scripts.attacks.clients import MESSAGES_A_MEGABYTE, fill

HOSTS = ("store-mq01-a.example.com", "store-mq01-b.example.com")
PAIR = "store-mq01"


def write_inventory(directory: Path, release: str, fence: str, **variables: Any) -> Path:
    """Write the inventory of the pair to ``directory``/hosts.yml, and return the path."""
    content: Mapping[str, Any] = {
        "activemq_release": release,
        "activemq_fence": fence,
        "activemq_network_username": "network",
        "activemq_network_password": "s3cret-network",
        **variables,
    }
    path = directory / "hosts.yml"
    path.write_text(json.dumps({"all": {"hosts": {host: {} for host in HOSTS}, "vars": content}}), encoding="utf-8")
    return path


def start_filled(lab: Lab, release: str, megabytes: int, stores: Path | None = None) -> int:
    """Start the pair with ``megabytes`` of messages of 1 kB in its store; return the number of messages.

    The store is copied from ``stores`` if that directory contains a store of this release and size. Otherwise the store
    is filled, and copied to ``stores``.
    """
    kept = stores / f"{release}-{megabytes}mb" if stores else None
    if kept and kept.is_dir():
        shutil.copytree(kept, lab.directory / "stores" / PAIR)
        lab.up(timeout=READY)
        return megabytes * MESSAGES_A_MEGABYTE
    lab.up(timeout=READY)
    active = lab.wait_active(PAIR, READY)
    messages = fill(lab.addresses(active, "stomp")[0], lab.credentials(PAIR), megabytes)
    if kept:
        directory = current_store_directory(kahadb_directory_in_xml(lab.fleet.broker(active)))
        for host in (next(host for host in HOSTS if host != active), active):
            lab.stop(host)
        unfinished = kept.with_name(f"{kept.name}-unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        shutil.copytree(directory, unfinished, ignore=shutil.ignore_patterns("lock"))
        unfinished.rename(kept)
        lab.up(timeout=READY)
    return messages
