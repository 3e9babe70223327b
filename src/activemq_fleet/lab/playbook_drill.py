"""Begin a drill for the playbook ``drill``, refuse pairs that must not be drilled, and write the report."""

from __future__ import annotations

import errno
import importlib.util
import json
import os
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from activemq_fleet.atomic_files import check_writable, write_file_atomically
from activemq_fleet.drills.model import DrillResult
from activemq_fleet.errors import InputError, names_to_text
from activemq_fleet.install_hint import install_hint
from activemq_fleet.lab.drill_run import DrillPlan, DrillRun, is_lab_broker
from activemq_fleet.lab.load_spec import supports_mqtt_agents
from activemq_fleet.node.state.fault_kinds import FAULT_KINDS, FaultKind
from activemq_fleet.operations.drill_steps import choose_pair_names_for_faults, raise_for_groups_that_forbid_drills
from activemq_fleet.reports.drill_page import drill_html_page
from activemq_fleet.topology import Fleet

NOTES = ("The playbook drill injected the faults. The test load ran on the Ansible controller.",)
_REQUIRED_PACKAGES = ("activemq_agent", "paho", "psutil", "structlog", "prometheus_client")


def _require_drill_packages() -> None:
    """Check that the Python packages for the load of a drill are installed, and raise InputError if one is not."""
    missing = [name for name in _REQUIRED_PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(
            f"the test load of a drill needs Python packages that are not installed ({', '.join(missing)}): "
            f"{install_hint('lab')}"
        )


def begin_drill_and_return_fault_sequence(
    fleet: Fleet,
    pairs: Sequence[str],
    allowed_by_group: Mapping[str, Any],
    options: Mapping[str, Any],
    directory: Path,
) -> dict[str, Any]:
    """Begin a drill (faults injected under load), and return which pair of brokers gets each of the faults, in order.

    Returns a dictionary: ``order`` (the name of the pair of each fault), ``seed`` (of the random choice), and
    ``where`` (``lab`` or ``hosts``). The function rejects pairs on which drills are forbidden, chooses the order of
    faults, and starts the load on the pairs.
    ``allowed_by_group`` maps each group to its value of ``activemq_drill_allowed``. ``options`` are kills, what, rate,
    seed and target, as the variables of the playbook have them. Raises FleetError.
    """
    raise_for_groups_that_forbid_drills(
        {fleet.pairs_by_name[pair].group: allowed_by_group.get(fleet.pairs_by_name[pair].group) for pair in pairs}
    )
    _require_drill_packages()
    fault_kind, faults, rate, seed = _read_options(options)
    for broker in (broker for pair in pairs for broker in fleet.pairs_by_name[pair].brokers):
        if broker.settings.service == "none" and not is_lab_broker(broker):
            raise InputError(
                f"{broker.host}: activemq_service is none, so the playbook drill cannot start the broker after a "
                "fault: set activemq_service: systemd, or choose another pair with activemq_target"
            )
    selected_pairs = [pair for pair in fleet.pairs_by_name.values() if pair.name in pairs]
    eligible = [pair for pair in selected_pairs if not pair.ha_profile.replicates and supports_mqtt_agents(pair)]
    if selected_pairs and not eligible:
        pure = [pair.name for pair in selected_pairs if pair.ha_profile.replicates]
        without_mqtt = [pair.name for pair in selected_pairs if not pair.ha_profile.replicates]
        causes = (
            ("activemq_ha: pure", pure),
            ("no MQTT connector that agents can use", without_mqtt),
        )
        reasons = [f"{names_to_text(names)} (with {cause})" for cause, names in causes if names]
        raise InputError(
            f"the playbook drill does not support the pairs {' and '.join(reasons)}. Test them in the lab with "
            "`activemq-fleet lab drill`, or set activemq_target to other pairs"
        )
    order = choose_pair_names_for_faults(fleet, eligible, faults, seed, fault_kind)
    plan = DrillPlan(order=order, what=fault_kind, rate=rate, seed=seed, target=str(options.get("target") or ""))
    # The parent of an Ansible worker is ansible-playbook. The load ends with this process.
    DrillRun.begin(plan, fleet, directory, os.getppid())
    return {"order": list(order), "seed": seed, "where": "lab" if all(map(is_lab_broker, fleet.brokers)) else "hosts"}


def _read_options(options: Mapping[str, Any]) -> tuple[FaultKind, int, float, int]:
    kind_text = str(options.get("what") or "kill")
    fault_kind = next((known for known in FAULT_KINDS if known == kind_text), None)
    if fault_kind is None:
        raise InputError(f"activemq_drill_what is {kind_text!r}: set it to one of {', '.join(FAULT_KINDS)}")
    faults = int(_read_number(options, "kills", 5, is_integer=True))
    rate = _read_number(options, "rate", 100.0)
    seed = int(_read_number(options, "seed", 0, is_integer=True)) or random.SystemRandom().randrange(1, 1_000_000)
    if not 1 <= faults <= 1000:
        raise InputError(f"activemq_drill_kills is {faults}: set it to a number from 1 to 1000")
    if not 1 <= rate <= 2000:
        raise InputError(f"activemq_drill_rate is {rate:g}: set it to 1 to 2000 events per second")
    return fault_kind, faults, rate, seed


def _read_number(options: Mapping[str, Any], name: str, default: float, *, is_integer: bool = False) -> float:
    value = options.get(name) or default
    try:
        return int(value) if is_integer else float(value)
    except (TypeError, ValueError, OverflowError):
        kind = "a whole number such as 5" if is_integer else "a number such as 100"
        raise InputError(f"activemq_drill_{name} is {str(value)[:60]!r}: set it to {kind}") from None


def require_writable_report_path(report: Path) -> None:
    """Raise InputError if a drill could not write its HTML report to this path, and its JSON data next to it.

    A drill checks this before its first fault. A missing directory of the report is created.
    """
    if not report.name:
        raise InputError(
            f"activemq_drill_report is {report}, which is a directory: set it to a file that ends in .html"
        )
    data = report.with_suffix(".json")
    if data == report:
        raise InputError(
            f"activemq_drill_report is {report}, but the drill writes its data as JSON to this file: set it to a file "
            "that ends in .html"
        )
    try:
        report.parent.mkdir(parents=True, exist_ok=True)
        check_writable(report)
        for path in (report, data):
            if path.is_dir():
                raise IsADirectoryError(errno.EISDIR, "it is a directory", str(path))
    except OSError as error:
        raise InputError(
            f"the report of the drill cannot be written to {error.filename} ({error.strerror}): set "
            "activemq_drill_report to a file in a directory that you may write to"
        ) from None


def write_drill_html_page_and_json(result: DrillResult, report: Path) -> None:
    """Write the report of a drill (faults injected under load) as an HTML page.

    The page's path is ``report``. The data are written as JSON next to it (suffix ``.json``).
    """
    write_file_atomically(report, drill_html_page(result).encode())
    write_file_atomically(report.with_suffix(".json"), json.dumps(result.to_dict(), indent=2).encode())
