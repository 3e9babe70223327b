# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Injects a fault into the active broker of a host, and measures when a standby took over."""
# pylint: disable=ansible-bad-function # The package also runs without Ansible, which has no run_command there.

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from typing import Any
from xml.etree.ElementTree import ParseError

from ..config.broker_configuration import read_deployed_broker_settings
from ..config.versions import ConfigurationPaths
from ..errors import NodeError
from ..log import broker_log
from ..log.broker_run import UNKNOWN
from ..masking import mask_text
from ..process import held_by_process
from ..process.proc import Process, find_broker_process, is_still_running, open_process_handle, send_signal

_POLL_SECONDS = 0.2
_SIGNAL_TIMEOUT = 90
_SIGNALS = {"kill": signal.SIGKILL, "crash": signal.SIGKILL, "pause": signal.SIGSTOP, "stop": signal.SIGTERM}


def inject_fault(base: str, unit: str | None, act: str, recover_after: int) -> dict[str, Any]:
    """Inject a fault into the active broker of a host: kill, crash, stop or freeze it.

    This is done for a drill. Returns the time ``at`` by the host's clock (epoch seconds) and the ``pid``. If the drill
    is interrupted, the broker does not stay stopped or frozen: systemd starts or continues it after ``recover_after``
    seconds. Raises NodeError if the broker is not active.
    """
    layout = ConfigurationPaths(os.path.abspath(base))
    process = _find_active_broker(layout, unit)
    if unit and recover_after:
        _start_recovery_timer(unit, act, recover_after)
    injected_at = time.time()
    if unit and act == "stop":
        _run_systemctl("stop", unit)
    else:
        _send_signal(process, None if act == "crash" else unit, _SIGNALS[act])
    _wait_until_frozen_or_ended(layout, unit, process.pid, act)
    return {"at": injected_at, "pid": process.pid}


def resume_frozen_broker(base: str, unit: str | None) -> dict[str, Any]:
    """Resume the process of a broker that is stopped by SIGSTOP, by sending SIGCONT.

    Returns the time ``at``, and ``changed``, which is False if none was frozen.
    """
    process = find_broker_process(os.path.abspath(base), unit)
    was_frozen = process is not None and process.state == "T"
    if process is not None and was_frozen:
        _send_signal(process, unit, signal.SIGCONT)
    return {"at": time.time(), "changed": was_frozen}


def cancel_recovery_timer(unit: str) -> None:
    """Cancel the systemd timer that would start or resume a broker after an injected fault.

    It is the timer for the broker of ``unit``.
    """
    _run_systemctl("stop", f"{_timer_name(unit)}.timer", is_required=False)


def wait_for_logged_broker_start(base: str, timeout: float) -> float | None:
    """Wait until a broker has started, and return the time at which its log reports the start, in epoch seconds.

    The time is by the host's clock; None after ``timeout`` seconds without a start.
    """
    layout, deadline = ConfigurationPaths(os.path.abspath(base)), time.monotonic() + timeout
    while True:
        process = find_broker_process(layout.base)
        phase = broker_log.read_broker_phase(layout.data, process.start_time) if process else UNKNOWN
        if phase.name == "started" and phase.time:
            return broker_log.log_time_to_epoch_seconds(phase.time, time.time()) + phase.time.microsecond / 1e6
        if time.monotonic() > deadline:
            return None
        time.sleep(_POLL_SECONDS)


def _find_active_broker(layout: ConfigurationPaths, unit: str | None) -> Process:
    process = find_broker_process(layout.base, unit)
    if process is None:
        raise NodeError(
            "no fault was injected, because the broker of this host is not running: start the broker, and run "
            "the drill again"
        )
    phase = broker_log.read_broker_phase(layout.data, process.start_time)
    # A standby does not listen, and a client can write into the log.
    if process.state == "T" or (phase.name != "started" and not _is_listening(layout, process)):
        phase_text = mask_text(phase.message) or phase.name
        raise NodeError(
            f"no fault was injected, because the broker is not active at present ({phase_text}): "
            "check the broker with `activemq-fleet status`, and run the drill again"
        )
    return process


def _is_listening(layout: ConfigurationPaths, process: Process) -> bool:
    try:
        listeners = read_deployed_broker_settings(layout, layout.current_version_name()).listeners
    except (OSError, ParseError):
        return False
    return bool(
        held_by_process.process_account_listens_on_one_of(process.pid, [listener.address for listener in listeners])
    )


def _send_signal(process: Process, unit: str | None, number: signal.Signals) -> None:
    """Send a signal to all processes of the unit; without one to the process, or its group if it leads one (a lab)."""
    if unit:
        _run_systemctl("kill", f"--signal={number.name}", unit)
        return
    with contextlib.suppress(ProcessLookupError), open_process_handle(process) as handle:
        if os.getpgid(process.pid) == process.pid and is_still_running(process):
            os.killpg(process.pid, number)
        else:
            send_signal(handle, process, number)


def _wait_until_frozen_or_ended(layout: ConfigurationPaths, unit: str | None, pid: int, act: str) -> None:
    """Wait until the process is frozen or has ended. Raises NodeError after 90 s."""
    deadline = time.monotonic() + _SIGNAL_TIMEOUT
    while time.monotonic() < deadline:
        process = find_broker_process(layout.base, unit)
        if process is None or process.pid != pid or (act == "pause" and process.state == "T"):
            return
        time.sleep(0.05)
    raise NodeError(
        f"the drill sent a signal to process {pid}, but {_SIGNAL_TIMEOUT} s later the process was not "
        f"{'frozen' if act == 'pause' else 'terminated'}. Run ps -o stat= -p {pid} on this host: if the state is D, "
        "the process waits for its storage, so check the mount. Then repeat the drill"
    )


def _timer_name(unit: str) -> str:
    return f"{unit.rpartition('.')[0] or unit}-fleet-drill"


def _start_recovery_timer(unit: str, act: str, seconds: int) -> None:
    recovery_command = ["kill", "--signal=SIGCONT", unit] if act == "pause" else ["start", unit]
    cancel_recovery_timer(unit)
    command = [
        "systemd-run",
        "--collect",
        f"--unit={_timer_name(unit)}",
        f"--on-active={seconds}",
        "systemctl",
        *recovery_command,
    ]
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if result.returncode:
        raise NodeError(
            f"no fault was injected, because systemd-run failed ({result.stderr.strip()[-200:]}): correct this error, "
            "and run the drill again"
        )


def _run_systemctl(*arguments: str, is_required: bool = True) -> None:
    result = subprocess.run(
        ["systemctl", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if result.returncode and is_required:
        raise NodeError(
            f"the command systemctl {' '.join(arguments)} failed on this host ({result.stderr.strip()[-200:]}): "
            f"check journalctl -u {arguments[-1]}"
        )
