"""The controller's part of the playbook ``drill``: load from here, what was struck, and the end of it.

Everything is in one directory, so that each task of the playbook finds what the earlier ones left:
``drill.json`` (what was asked for), ``faults.json`` (what was struck), and what the generators leave.
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from activemq_fleet.drills import Conditions, DrillResult, Fault, Span, html_report, judge
from activemq_fleet.drills.judging import ATTEMPTS, lowest_rate, why_void
from activemq_fleet.drills.model import State
from activemq_fleet.errors import InputError, LabError
from activemq_fleet.lab.drill import candidates
from activemq_fleet.lab.drill_files import machine, phases, settle, spans
from activemq_fleet.lab.drill_load import load_spec, speaks_mqtt
from activemq_fleet.lab.drill_reach import refuse_unreachable
from activemq_fleet.lab.load_generator import specs_to_json
from activemq_fleet.lab.log_tail import LOG
from activemq_fleet.lab.loopback_overlay import MARK, for_clients
from activemq_fleet.operations.drill import refuse_production, schedule
from activemq_fleet.render.service import paths
from activemq_fleet.topology import Broker, Fleet

_START = 600.0
_END = 900.0
_A_FAULT = 600.0
_POLL = 0.3
_NEEDED = ("activemq_agent", "paho", "psutil", "structlog", "prometheus_client")


def check_programs() -> None:
    """Raises InputError for what the load needs and is not installed."""
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(f"the load of a drill needs {', '.join(missing)}: pip install 'activemq-fleet[lab]'")


def begin(
    fleet: Fleet,
    pairs: Sequence[str],
    allowed: Mapping[str, Any],
    options: Mapping[str, Any],
    directory: Path,
) -> dict[str, Any]:
    """Refuse what must not be drilled, decide the order, and put the pairs under load.

    ``allowed``: by group, what the variable says. ``options``: kills, what, rate, seed, and ``parent``,
    the process with which the load ends. Raises FleetError.
    """
    refuse_production({fleet.pairs[pair].group: allowed.get(fleet.pairs[pair].group) for pair in pairs})
    check_programs()
    what, faults, rate, seed = _read(options)
    for broker in (broker for pair in pairs for broker in fleet.pairs[pair].brokers):
        if broker.settings.service == "none" and not _is_lab(broker):
            raise InputError(f"{broker.host}: activemq_service is none, so nobody could start it again")
    every = [one for one in candidates(list(fleet.pairs.values())) if one.pair in pairs]
    fit = [one for one in every if one.ha != "pure" and speaks_mqtt(fleet.pairs[one.pair])]
    if every and not fit:
        raise InputError(
            "no pair can be drilled by the playbook: pure pairs and releases without a usable MQTT are drilled in "
            "the lab only (activemq-fleet lab drill)"
        )
    order = schedule(fit, faults, seed, what)
    chosen = list(dict.fromkeys(order))
    here = _as_dialled(fleet)
    specs = [load_spec(here, here.pairs[pair], rate) for pair in chosen]
    refuse_unreachable(specs)
    (directory / "drill.json").write_text(
        json.dumps({"order": order, "what": what, "rate": rate, "seed": seed, "target": options.get("target") or ""})
    )
    _launch(directory, specs_to_json(specs), len(order) * _A_FAULT, int(options["parent"]))
    return {"order": list(order), "pairs": chosen, "seed": seed, "where": _where(fleet)}


def _read(options: Mapping[str, Any]) -> tuple[Any, int, float, int]:
    what = str(options.get("what") or "kill")
    if what not in ("kill", "pause", "stop"):
        raise InputError(f"activemq_drill_what must be kill, pause or stop, not {what!r}")
    try:
        faults = int(options.get("kills") or 5)
        rate = float(options.get("rate") or 100.0)
        seed = int(options.get("seed") or random.SystemRandom().randrange(1, 1_000_000))
    except (TypeError, ValueError):
        raise InputError("activemq_drill_kills, activemq_drill_rate and activemq_drill_seed must be numbers") from None
    if not 1 <= faults <= 1000 or not 1 <= rate <= 2000:
        raise InputError("activemq_drill_kills must be 1 to 1000, and activemq_drill_rate 1 to 2000 events a second")
    return what, faults, rate, seed


def _is_lab(broker: Broker) -> bool:
    return any(option.startswith(MARK) for option in broker.settings.java_options)


def _where(fleet: Fleet) -> str:
    return "lab" if all(map(_is_lab, fleet.brokers)) else "hosts"


def _as_dialled(fleet: Fleet) -> Fleet:
    """In a lab names are the brokers' own affair: clients dial the addresses that these are bound to."""
    if _where(fleet) == "lab":
        return for_clients(fleet, {broker.host: broker.settings.bind for broker in fleet.brokers})
    return fleet


def _launch(directory: Path, generators: str, longest: float, parent: int) -> None:
    descriptor = os.open(directory / "load.json", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(generators)
    with (directory / "load.log").open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "activemq_fleet.lab.load_generator", str(directory), str(longest), str(parent)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    deadline = time.monotonic() + _START
    while not (directory / "ready").exists():
        if process.poll() is not None or time.monotonic() > deadline:
            (directory / "stop").touch()
            raise LabError(f"the load could not be put on: {_said(directory)}")
        time.sleep(_POLL)


def _said(directory: Path) -> str:
    for name in ("failed", "load.log"):
        path = directory / name
        lines = path.read_text(errors="replace").split("\n") if path.exists() else []
        said = [line for line in lines if line.strip()]
        if said:
            return said[-1].strip()
    return "it gave no sign in time"


def _load(directory: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((directory / "drill.json").read_text())
    return content


def _faults(directory: Path) -> list[Fault]:
    path = directory / "faults.json"
    return [Fault(**data) for data in json.loads(path.read_text())] if path.exists() else []


def status(directory: Path, looks: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What was struck, and whose turn it is. The first ``looks`` are kept: the fleet as it was found."""
    drill, faults = _load(directory), _faults(directory)
    if "first" not in drill:
        drill |= {"first": {host: look["state"] for host, look in looks.items()}, "began": time.time()}
        (directory / "drill.json").write_text(json.dumps(drill))
    if (directory / "failed").exists():
        raise LabError(f"the load has ended: {_said(directory)}")
    number, left = _turn(drill["order"], faults)
    return {
        "turn": drill["order"][number - 1] if left else None,
        "number": number,
        "struck": sorted({fault.host for fault in faults}),
        "what": drill["what"],
    }


def _turn(order: Sequence[str], faults: Sequence[Fault]) -> tuple[int, bool]:
    """The number of the next fault, and whether there is one. A void one is repeated, a few times."""
    for number in range(1, len(order) + 1):
        mine = [fault for fault in faults if fault.number == number]
        if not any(fault.void is None for fault in mine) and len(mine) < ATTEMPTS:
            return number, True
    return len(order), False


def wait(directory: Path, pair: str, patience: float) -> dict[str, Any]:
    """Wait until a pair's agents have settled and enough flows; when it does not, the fault may be void."""
    rate, deadline = float(_load(directory)["rate"]), time.monotonic() + patience
    while True:
        now = _load_status(directory, pair)
        steady = bool(now.get("steady")) and min(now["accepted"], now["handled"]) >= lowest_rate(rate)
        if steady or time.monotonic() > deadline:
            return {"accepted": now.get("accepted", 0.0), "handled": now.get("handled", 0.0), "steady": steady}
        if (directory / "failed").exists():
            raise LabError(f"the load has ended: {_said(directory)}")
        time.sleep(_POLL)


def _load_status(directory: Path, pair: str) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads((directory / "status.json").read_text())[pair]
    except (OSError, ValueError, KeyError):
        return {}
    return found


def note(directory: Path, fault: Mapping[str, Any]) -> dict[str, Any]:
    """Write a fault down. ``fault``: the fields of ``Fault`` that the playbook knows."""
    drill, faults = _load(directory), _faults(directory)
    known = {field.name for field in fields(Fault)}
    void = why_void(float(fault["rate_accepted"]), float(fault["rate_handled"]), float(drill["rate"]))
    numbers = ("at", "takeover", "back", "rate_accepted", "rate_handled")
    given = {key: value for key, value in fault.items() if key in known and value not in (None, "")}
    given |= {key: float(given[key]) for key in numbers if key in given}
    given["number"] = int(given["number"])
    faults.append(Fault(**{**given, "void": void}))
    (directory / "faults.json").write_text(json.dumps([asdict(one) for one in faults]))
    return {"void": void}


def end(directory: Path, fleet: Fleet, skew: float) -> DrillResult:
    """End the load, settle every event and judge. Raises LabError when the load does not come to an end."""
    (directory / "stop").touch()
    deadline = time.monotonic() + _END
    while not any((directory / name).exists() for name in ("done", "failed")) and time.monotonic() < deadline:
        time.sleep(_POLL)
    drill, ended = _load(directory), time.time()
    began = float(drill.get("began", ended))
    accounts, faults = [], list[Fault]()
    for pair in dict.fromkeys(drill["order"]):
        struck = [fault for fault in _faults(directory) if fault.pair == pair]
        found, settled = settle(directory, pair, "MQTT", struck, skew=skew)
        accounts.append(found)
        faults += settled
    faults.sort(key=lambda fault: fault.at)
    verdict, reasons = judge(faults, accounts, len(drill["order"]))
    masters = {pair: fleet.pairs[pair].preferred_master for pair in dict.fromkeys(drill["order"])}
    return DrillResult(
        verdict=verdict,
        reasons=reasons,
        began=began,
        ended=ended,
        faults=tuple(faults),
        accounts=tuple(accounts),
        spans=tuple(_spans(drill, fleet, faults, began, ended)),
        conditions=Conditions(
            where="lab" if _where(fleet) == "lab" else "hosts",
            what=drill["what"],
            wanted=len(drill["order"]),
            rate=drill["rate"],
            seed=drill["seed"],
            target=drill["target"] or "the whole fleet",
            releases={pair: broker.release.text for pair, broker in masters.items()},
            profiles={pair: broker.settings.ha for pair, broker in masters.items()},
            protocols=dict.fromkeys(masters, "MQTT"),
            machine=machine(),
            notes=("Struck by the playbook drill; the load was on the controller.",),
        ),
    )


def _spans(
    drill: Mapping[str, Any], fleet: Fleet, faults: Sequence[Fault], began: float, ended: float
) -> Iterator[Span]:
    changes: dict[str, list[tuple[float, State]]] = {}
    for fault in faults:
        down: State = "hung" if fault.what == "pause" else "stopped"
        changes.setdefault(fault.host, []).append((fault.at, down))
        if fault.successor and fault.takeover is not None:
            changes.setdefault(fault.successor, []).append((fault.at + fault.takeover, "active"))
        if fault.back is not None and not _is_lab(fleet.broker(fault.host)):
            changes[fault.host].append((fault.at + fault.back, "standby" if fault.successor else "active"))
    for pair in dict.fromkeys(drill["order"]):
        for broker in fleet.pairs[pair].in_order:
            first = drill.get("first", {}).get(broker.host, "unknown")
            mine = changes.get(broker.host, []) + _logged(broker, began)
            yield from spans(pair, broker.host, first, mine, began, ended)


def _logged(broker: Broker, began: float) -> list[tuple[float, State]]:
    """What the log says, where it is on this machine."""
    log = Path(paths(broker).data, LOG)
    return phases(log.read_text(errors="replace"), began) if _is_lab(broker) and log.exists() else []


def write(result: DrillResult, report: Path) -> None:
    """The report, and its data beside it (``.json``)."""
    report.parent.mkdir(parents=True, exist_ok=True)
    report.write_text(html_report(result), encoding="utf-8")
    report.with_suffix(".json").write_text(json.dumps(result.to_dict(), indent=2), encoding="utf-8")
