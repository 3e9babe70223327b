"""Copy the logs of a lab's brokers and the journals of agents to ``DIR/HOST/…``, as the playbook ``collect`` does."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from activemq_fleet.lab.lab import Lab
from activemq_fleet.node.fence.shared_store import recent_store_copies_made_by_host
from activemq_fleet.node.host_paths import BROKER_LOG
from activemq_fleet.node.kahadb.risk_records import read_newest_risk_records_of_store
from activemq_fleet.render.broker_paths import guard_state_directory
from activemq_fleet.topology import Broker


def collect_logs(lab: Lab, agents: Mapping[str, tuple[Path, str]], directory: Path) -> None:
    """Collect the logs of a lab: copy the logs of brokers and the journals of agents into a directory.

    Operation records are also copied. The directory is emptied first. ``agents`` maps an agent's name to its state
    directory and the name of the pair that it connects to.
    """
    shutil.rmtree(directory, ignore_errors=True)
    for broker in lab.fleet.brokers:
        home = directory / broker.host
        home.mkdir(parents=True)
        for log in sorted(lab.log(broker.host).parent.glob(f"{BROKER_LOG}*")):
            shutil.copy2(log, home / log.name)
        with suppress(FileNotFoundError):
            shutil.copy2(lab.operations_file_path(broker.host), home)
        _write_host_facts(home, broker.group, broker.pair, broker)
    for name, (state, pair) in agents.items():
        home = directory / name
        (home / "agent").mkdir(parents=True)
        for journal in sorted((state / "agent").glob("*.jsonl*")):
            shutil.copy2(journal, home / "agent" / journal.name)
        _write_host_facts(home, lab.fleet.pairs_by_name[pair].group, pair)


def _write_host_facts(home: Path, group: str, pair: str, broker: Broker | None = None) -> None:
    known: dict[str, Any] = {"host": home.name, "timezone": _utc_offset(), "group": group, "pair": pair}
    if broker is not None:
        known["release"] = broker.release.text
        known["store"] = broker.shared_store_directory
        if broker.has_guard:
            known["generations"] = recent_store_copies_made_by_host(
                broker.store_directory, guard_state_directory(broker)
            )
        with suppress(OSError):
            known["risk_records"] = [
                record.to_dict() for record in read_newest_risk_records_of_store(broker.store_directory)
            ]
    (home / "host.json").write_text(json.dumps(known, indent=1), encoding="utf-8")


def _utc_offset() -> str:
    """Return the local clock's offset from UTC, such as ``+02:00``, which the lab's brokers also have."""
    offset = datetime.now().astimezone().strftime("%z")
    return f"{offset[:3]}:{offset[3:5]}"
