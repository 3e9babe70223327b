# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Reads MBeans of a running broker without a JMX port, a restart, a JDK or another JVM.

This module requests over the JVM's attach socket that the JVM opens JMX for this machine, as ``jcmd PID
ManagementAgent.start_local`` does. The JVM reveals the address only over this socket.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import time
import typing
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from ..errors import NodeError
from ..masking import mask_and_shorten
from ..process.proc import (
    Process,
    gid_of_process,
    handles_sigquit,
    open_process_handle,
    proc_status_field_words,
    send_signal,
    uid_of_process,
)
from ..process.system_accounts import AccountError, SystemAccount, current_account, run_as
from .deadline_socket import DeadlineSocket
from .jmx import JmxError, MBeanServerConnection, object_name_properties

_DOMAIN = "org.apache.activemq"
_ATTACH_TIMEOUT = 5.0
_POLL_SECONDS = 0.05
_QUERY_TIMEOUT = 60.0
"""Seconds for all MBeans of a query together."""
_MAX_ANSWER_BYTES = 1 << 20
_ADDRESS = re.compile(r"^com\.sun\.management\.jmxremote\.localConnectorAddress=(.+)$", re.MULTILINE)


_T = typing.TypeVar("_T")
View = typing.Callable[[typing.Mapping[str, str]], typing.Sequence[str]]
"""Returns the attributes to read of an MBean, by the key properties of its name; empty to skip the MBean."""


def query_mbeans(
    process: Process, pattern: str, view: View, most: int | None = None, timeout: float = _QUERY_TIMEOUT
) -> list[dict[str, Any]]:
    """Query a broker's MBeans that match a pattern, over JMX; return one dict per MBean.

    A pattern is such as ``Type=Queue,*``. A dict has the key properties of the MBean's name, and those of the wanted
    attributes that it has. ``most``: how many MBeans are read at most; ``timeout``: seconds for everything together.
    Raises NodeError when the JVM refuses or does not answer in time.
    """
    return _run_as_account_of(process, timeout, _query_in_child, pattern, view, most)


def fetch_thread_dump(process: Process, timeout: float = _ATTACH_TIMEOUT) -> str:
    """Fetch a thread dump of a JVM, and return it as text.

    It is cut to 1 MiB. The JVM does not print it on its standard output. Raises NodeError when the JVM refuses or does
    not answer within ``timeout`` seconds.
    """
    return _run_as_account_of(process, timeout, _send_attach_command, "threaddump")


def _run_as_account_of(process: Process, timeout: float, function: typing.Callable[..., _T], *arguments: Any) -> _T:
    """Return what ``function`` returns for a JVM, a deadline (monotonic seconds) and arguments, as the JVM's account.

    As root it runs in a child process, which is killed a second after the deadline.
    """
    uid, gid = _process_account(process)
    # Older JVMs answer only their own account, not even root.
    account = SystemAccount(uid, gid) if os.geteuid() == 0 else current_account()
    try:
        # Opened as root: a unit's user namespace hides its process from its own account outside (PrivateUsers=).
        root = os.open(f"/proc/{process.pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, ProcessLookupError):
        raise _ended_error(process) from None
    except OSError as error:
        raise NodeError(
            f"process {process.pid} of the broker cannot be inspected ({error.strerror}): set become: true for "
            "the task, or run it as the broker's account"
        ) from None
    deadline = time.monotonic() + timeout
    try:
        return run_as(account, function, _Jvm(process, root), deadline, *arguments, patience=timeout + 1)
    except AccountError as error:
        raise NodeError(f"process {process.pid}: {error}") from None
    finally:
        os.close(root)


@dataclass(frozen=True)
class _Jvm:
    """A broker's process, and a descriptor of its root directory."""

    process: Process
    root: int

    def attach_file_path(self, name_without_pid: str) -> str:
        """Return the path of a JVM's file for the attach protocol, in its /tmp directory, such as ``.java_pid42``.

        Its name is ``name_without_pid`` and the pid. Both the directory and the pid are those within the JVM's
        container.
        """
        pid_inside = (proc_status_field_words(self.process.pid, "NSpid") or [str(self.process.pid)])[-1]
        return f"/proc/self/fd/{self.root}/tmp/{name_without_pid}{pid_inside}"  # noqa: S108 -- the JVM's own name


def _query_in_child(jvm: _Jvm, deadline: float, pattern: str, view: View, most: int | None) -> list[dict[str, Any]]:
    process = jvm.process
    try:
        with closing(MBeanServerConnection(_local_jmx_url(jvm, deadline), _remaining_seconds(jvm, deadline))) as server:
            names_and_properties = [
                (name, object_name_properties(name)) for name in server.mbean_names(f"{_DOMAIN}:{pattern}")
            ]
            selected = [
                (name, properties, attribute_names)
                for name, properties in names_and_properties
                if (attribute_names := view(properties))
            ][:most]
            return [
                {**properties, **server.mbean_attributes(name, attributes)} for name, properties, attributes in selected
            ]
    except JmxError as error:
        raise NodeError(f"process {process.pid}: {error}") from None


def _local_jmx_url(jvm: _Jvm, deadline: float) -> str:
    """Return the JMX URL of a JVM that this machine can reach; make the JVM open it if necessary."""
    address_match = _ADDRESS.search(_send_attach_command(jvm, deadline, "agentProperties"))
    if not address_match:
        _send_attach_command(jvm, deadline, "jcmd", "ManagementAgent.start_local")
        address_match = _ADDRESS.search(_send_attach_command(jvm, deadline, "agentProperties"))
    if not address_match:
        raise NodeError(
            f"the JVM with process {jvm.process.pid} does not start its local JMX connector: check activemq.log for "
            "an error of JMX, and the options -Dcom.sun.management.jmxremote* of the process (ps -ww -p "
            f"{jvm.process.pid})"
        )
    return address_match[1].replace("\\", "").strip()


def _send_attach_command(jvm: _Jvm, deadline: float, *command_words: str) -> str:
    """Send one command over a JVM's attach socket, and return the answer's text, cut to 1 MiB.

    Raises NodeError if the JVM refuses or does not answer before the deadline.
    """
    pid, path = jvm.process.pid, jvm.attach_file_path(".java_pid")
    data = b"".join(word.encode() + b"\0" for word in ("1", *command_words, *[""] * (4 - len(command_words))))
    try:
        if not os.path.exists(path):
            _open_attach_socket(jvm, deadline, path)
        with socket.socket(socket.AF_UNIX) as plain:
            plain.settimeout(_remaining_seconds(jvm, deadline))
            plain.connect(path)
            with DeadlineSocket(plain, _remaining_seconds(jvm, deadline), _MAX_ANSWER_BYTES) as connection:
                connection.send(data)
                answer = connection.read_to_end()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise NodeError(
            f"the JVM with process {pid} cannot be queried over its attach socket ({reason}): check whether it hangs"
        ) from None
    code, _separator, text = answer.decode(errors="replace").partition("\n")
    if code.strip() != "0":
        reason = mask_and_shorten(" ".join(text[:5000].split()), 200)
        raise NodeError(
            f"the JVM with process {pid} rejects the attach command {command_words[0]} ({reason}): check whether a "
            f"Java option of the process (ps -ww -p {pid}) causes this error"
        )
    return text


def _remaining_seconds(jvm: _Jvm, deadline: float) -> float:
    """Return the seconds until a deadline. Raises NodeError after it."""
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        raise NodeError(
            f"the JVM with process {jvm.process.pid} did not answer over its attach socket in time: check whether "
            "this process hangs"
        )
    return remaining


def _open_attach_socket(jvm: _Jvm, deadline: float, path: str) -> None:
    """Make the JVM open its attach socket: it does so when it finds the file ``.attach_pid`` after SIGQUIT.

    Without the file the JVM prints a thread dump. The JVM also searches its working directory, but this is often the
    root of a unit, to which its account cannot write.
    """
    if not handles_sigquit(jvm.process.pid):
        raise NodeError(
            f"the JVM with process {jvm.process.pid} was not queried, because it does not catch SIGQUIT and would "
            "stop: remove -Xrs from its options"
        )
    trigger = jvm.attach_file_path(".attach_pid")
    os.close(os.open(trigger, os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600))
    try:
        with open_process_handle(jvm.process) as handle:
            send_signal(handle, jvm.process, signal.SIGQUIT)
        deadline = min(deadline, time.monotonic() + _ATTACH_TIMEOUT)
        while not os.path.exists(path) and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(trigger)


def _process_account(process: Process) -> tuple[int, int]:
    """Return the uid and gid of a process.

    Raises NodeError if it has ended or has more than one.
    """
    uid, gid = uid_of_process(process.pid), gid_of_process(process.pid)
    if uid is not None and gid is not None:
        return uid, gid
    if not os.path.exists(f"/proc/{process.pid}"):
        raise _ended_error(process)
    raise NodeError(
        f"process {process.pid} of the broker was not queried, because its real and effective accounts differ. "
        "Start the broker without a set-user-id program"
    )


def _ended_error(process: Process) -> NodeError:
    return NodeError(
        f"process {process.pid} of the broker was not queried, because the process has ended: start the broker, "
        "and run the command again"
    )
