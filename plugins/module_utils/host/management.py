# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Reads MBeans of a running broker without a JMX port, a restart or a JDK.

JMX is local to the process. The JVM is asked over its attach socket to open it for this machine
(what ``jcmd PID ManagementAgent.start_local`` does), and the release's own console command, from
the class path of the running broker, reads it.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator

from ..install.configuration_archive import InstallError
from .process import Process, account_of, group_of, process_handle, send_signal, status_field
from .system_accounts import Account, own_account, run_as

_WAIT = 10.0
_POLL = 0.05
_QUERY = 120
_LONGEST_ANSWER = 1 << 20
_ADDRESS = re.compile(r"^com\.sun\.management\.jmxremote\.localConnectorAddress=(.+)$", re.MULTILINE)
_VALUE = re.compile(r"([A-Z]\w*) = (.*)")
# Options that the console command must not inherit; with the broker's log4j it would write to the broker's log.
_DROPPED = re.compile(r"-agentlib:|-agentpath:|-javaagent:|-Xrun|-Dcom\.sun\.management\.|-Xm|-Xlog|-XX:|-Dlog4j")


def query_mbeans(process: Process, pattern: str, view: tuple[str, ...]) -> list[dict[str, str]]:
    """Return attributes of the broker's MBeans that match a pattern such as ``Type=Queue,*``, one dict per MBean.

    Raises InstallError when the JVM or the console command refuses.
    """
    uid, gid = _account(process)
    # Older JVMs answer nobody else, not even root, and the console command is a program of that account's choice.
    account = Account(uid, gid) if os.geteuid() == 0 else own_account()
    return run_as(account, _query, process, _java(process), pattern, view)


def _query(process: Process, java: list[str], pattern: str, view: tuple[str, ...]) -> list[dict[str, str]]:
    command = [*java, "query", "--jmxurl", _address(process), "--objname", pattern, "--view", ",".join(view)]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_QUERY,
            check=False,
            cwd="/",
            env={"PATH": os.environ.get("PATH", "/usr/bin:/bin")},
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise InstallError(f"the release's console command could not be run: {error}") from None
    if done.returncode or "Exception" in done.stdout or "ERROR" in done.stdout:
        said = " ".join((done.stderr or done.stdout).split())[:400]
        raise InstallError(f"the release's console command failed: {said}")
    return [found for found in _read(done.stdout) if view[0] in found]


def _read(text: str) -> Iterator[dict[str, str]]:
    """Yield one dict per MBean from ``Name = value`` lines, in which an empty line ends each MBean."""
    found: dict[str, str] = {}
    for line in [*text.splitlines(), ""]:
        match = _VALUE.fullmatch(line)
        if match:
            found[match[1]] = match[2]
        elif not line.strip() and found:
            yield found
            found = {}


def _java(process: Process) -> list[str]:
    """Return the running broker's own command line up to its verb, with a small heap and without agents and logs."""
    words = list(process.command)
    words = words[: words.index("start")]
    kept = [word for word in words[1:] if not _DROPPED.match(word)]
    java = os.readlink(f"/proc/{process.pid}/exe")
    return [
        java,
        "-Xmx64m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-Dlog4j.configuration=file:/dev/null",
        *kept,
    ]


def _address(process: Process) -> str:
    """Return the JMX URL that this machine can reach, after opening it in the JVM if need be."""
    found = _ADDRESS.search(_ask(process, "agentProperties"))
    if not found:
        _ask(process, "jcmd", "ManagementAgent.start_local")
        found = _ADDRESS.search(_ask(process, "agentProperties"))
    if not found:
        raise InstallError(f"process {process.pid} does not open its management view to this machine")
    return found[1].replace("\\", "").strip()


def _ask(process: Process, *words: str) -> str:
    """Send one command over the JVM's attach socket; return the answer's text.

    Raises InstallError if the JVM does not answer or refuses.
    """
    pid = process.pid
    inside = (status_field(pid, "NSpid") or [str(pid)])[-1]
    path = f"/proc/{pid}/root/tmp/.java_pid{inside}"
    data = b"".join(word.encode() + b"\0" for word in ("1", *words, *[""] * (4 - len(words))))
    answer = b""
    try:
        if not os.path.exists(path):
            _wake(process, inside, path)
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_WAIT)
            connection.connect(path)
            connection.sendall(data)
            while len(answer) < _LONGEST_ANSWER and (part := connection.recv(65536)):
                answer += part
    except OSError as error:
        raise InstallError(f"process {pid} cannot be asked over its attach socket: {error.strerror or error}") from None
    code, _, text = answer.decode(errors="replace").partition("\n")
    if code.strip() != "0":
        raise InstallError(f"process {pid} does not answer {words[0]}: {' '.join(text.split())[:200]}")
    return text


def _wake(process: Process, inside: str, path: str) -> None:
    """Make the JVM open its attach socket: it does so when it finds the file ``.attach_pid`` after SIGQUIT.

    Without the file the JVM would print its threads.
    """
    pid = process.pid
    flags = os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    trigger = f"/proc/{pid}/cwd/.attach_pid{inside}"
    try:
        os.close(os.open(trigger, flags, 0o600))
    except OSError:
        # A unit's working directory is often the root, which its account may not write to.
        trigger = f"/proc/{pid}/root/tmp/.attach_pid{inside}"
        os.close(os.open(trigger, flags, 0o600))
    try:
        with process_handle(process) as handle:
            send_signal(handle, process, signal.SIGQUIT)
        deadline = time.monotonic() + _WAIT
        while not os.path.exists(path) and time.monotonic() < deadline:
            time.sleep(_POLL)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(trigger)


def _account(process: Process) -> tuple[int, int]:
    """Return uid and gid of the process. Raises InstallError when it is gone or has more than one."""
    uid, gid = account_of(process.pid), group_of(process.pid)
    if uid is None or gid is None:
        raise InstallError(f"process {process.pid} is gone, or runs with more than one account: it is not asked")
    return uid, gid
