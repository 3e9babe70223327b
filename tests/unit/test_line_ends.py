"""Only a newline ends a line, regardless of the characters that clients and other accounts put into names."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from activemq_fleet.node.install import runtime_configuration
from activemq_fleet.node.process import proc as processes
from tests.unit.attackers import STRANGER, requires_root
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
OTHER_ENDS = ("\v", "\f", "\r", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029")
DEADLINE = 120
"""Seconds after which a process counts as hung; it usually takes some milliseconds."""


@pytest.mark.parametrize("end", OTHER_ENDS)
def test_split_lines_splits_text_at_no_character_except_newline(end: str) -> None:
    from activemq_fleet.node.text_lines import split_lines

    assert split_lines(f"a{end}b\nc\n") == [f"a{end}b", "c"]


@pytest.mark.parametrize(
    ("text", "lines"), [("", []), ("\n", [""]), ("a", ["a"]), ("a\n", ["a"]), ("a\n\n", ["a", ""])]
)
def test_last_newline_of_text_begins_no_line(text: str, lines: list[str]) -> None:
    from activemq_fleet.node.text_lines import split_lines

    assert split_lines(text) == lines


def test_no_source_splits_text_at_other_line_ends() -> None:
    sources = [path for top in ("plugins", "src", "agent/src") for path in (ROOT / top).rglob("*.py")]
    assert len(sources) > 300
    offenders = [str(path) for path in sources if path.name != "text_lines.py" and ".splitlines(" in path.read_text()]
    assert offenders == [], (
        "these files call str.splitlines, which also splits inside names: call split_lines of text_lines instead"
    )


@pytest.mark.parametrize("end", OTHER_ENDS)
def test_record_of_rejected_login_is_no_proof_of_applied_live_change(tmp_path: Path, end: str) -> None:
    """ActiveMQ 5.18.3 writes this record after a rejected MQTT login whose user name contains other line ends."""
    log = tmp_path / "activemq.log"
    log.write_text("")
    status = log.stat()
    since = runtime_configuration.LogEndPosition(str(log), status.st_ino, status.st_size)
    forged = [
        f"x | INFO  | {text} | org.apache.activemq.plugin.RuntimeConfigurationBroker | main"
        for text in ("change in file at: now", "started new network connector: x", "changes to Plugins")
    ]
    name = end.join(["a", *forged, ""])
    record = (
        f"2026-11-27 10:00:00,001 | WARN  | Failed to add Connection id=c, clientId=c, User name [{name}] or password "
        "is invalid. | org.apache.activemq.broker.TransportConnection | ActiveMQ NIO Worker 3\n"
    )
    log.write_bytes(record.encode())

    lines = runtime_configuration._read_log_since(since)

    assert forged[2] in "".join(lines), "the lines that were read do not contain the forged name"
    change = runtime_configuration.LiveChange(links=1, plugins=True, period=1.0)
    assert runtime_configuration.has_live_change_succeeded(lines, change) is None


@requires_root
@pytest.mark.parametrize("end", ["\v", "\f", "\x1c"])
def test_name_of_process_does_not_change_its_account(end: str) -> None:
    """A process chooses its name, which the first line of /proc/PID/status contains."""
    name = f"{end}Uid:\t0\t0\t0".encode()
    rename = f"open('/proc/self/comm', 'wb').write({name!r}); import time; time.sleep({DEADLINE * 2})"
    child = subprocess.Popen(["/usr/bin/python3", "-c", rename], user=STRANGER, group=STRANGER, extra_groups=[])
    try:
        comm = Path(f"/proc/{child.pid}/comm")
        wait_until(lambda: comm.read_bytes() == name + b"\n", "the process has its new name", pause=0.02)
        assert processes.uid_of_process(child.pid) == STRANGER
    finally:
        child.kill()
        child.wait()


CGROUPS = Path("/sys/fs/cgroup")
HIERARCHIES = ((CGROUPS, "", "0::"), (CGROUPS / "unified", "", "0::"), (CGROUPS / "systemd", "name=systemd", "1:name="))


@requires_root
def test_name_of_cgroup_does_not_assign_process_to_unit() -> None:
    """An account with a user manager chooses names of cgroups, which /proc/PID/cgroup contains."""
    usable = [hierarchy for hierarchy in HIERARCHIES if os.access(hierarchy[0] / "cgroup.procs", os.W_OK)]
    if not usable:
        pytest.skip("this process cannot create a cgroup on this machine: run the test as root with writable cgroups")
    cgroup_root, kind, prefix = usable[0]
    unit = "line-ends.service"
    outer = cgroup_root / f"line-ends-{os.getpid()}\v{prefix}{'systemd:' if kind else ''}"
    child = None
    try:
        outer.mkdir()
        (outer / unit).mkdir()
        child = subprocess.Popen(["sleep", str(DEADLINE * 2)])
        (outer / unit / "cgroup.procs").write_text(str(child.pid))
        assert f"{outer.name}/{unit}" in Path(f"/proc/{child.pid}/cgroup").read_text()
        assert (kind, f"/{unit}") not in list(processes._cgroups(child.pid))
    finally:
        if child:
            child.kill()
            child.wait()
        for directory in (outer / unit, outer):
            if directory.exists():
                directory.rmdir()
