"""Serve the UNIX socket on which the running agent accepts events and requests, only from processes of its user.

A request is one line of JSON, and so is its answer. A caller may send many requests before it reads an answer:

    {"op": "publish", "topic": "a/b", "payload": "text", "id": "optional", "timeout": 900}  ->  {"id": "..."}
    {"op": "status"}                                                                        ->  {...}
    {"op": "requeue", "ids": ["..."]} or {"op": "requeue", "all": true}                     ->  {"requeued": 2}

``payload_base64`` is for bytes that are not text. The answer to a failed request is {"error": ..., "code": ...}. The
codes are ``full`` (no room: retry later), ``refused`` and ``bad`` (a retry does not help), ``stopping`` (the agent
accepts no more events), ``busy`` (too many callers) and ``failed`` (an error of the disk, or a bug). Each caller has a
separate thread, so that a caller that dies, stalls or sends invalid data does not delay the others.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any

from activemq_agent.agent_errors import AgentError, OutboxFullError, RequestRefusedError
from activemq_agent.agent_topics import BARRIER, CANARY, is_barrier_topic, is_canary_topic
from activemq_agent.store.outbox import is_valid_event_timeout

if TYPE_CHECKING:
    from activemq_agent.logs import LogInterface
    from activemq_agent.store import Store

CALLERS = 128
"""Largest number of open connections; a further caller gets the answer ``busy``."""
LONGEST = 16 << 20
"""Largest number of bytes of a request."""
SLOW = 30.0
"""Seconds within which a caller must read an answer."""

_LONGEST_PATH = 107  # sun_path of unix(7), without the final NUL


class _InvalidRequestError(RequestRefusedError):
    """An error for a request to the control socket that has a bad form or values of a wrong type."""

    code = "bad"


class _AgentStoppingError(AgentError):
    """An error for an event that was sent to the control socket while the agent was stopping."""

    code = "stopping"


class LocalRequestServer:
    """The server of requests from local programs, which publish events and query the status over the control socket.

    It runs from ``start`` to ``close``. It calls ``on_accepted`` after accepting events. Raises AgentError if the
    socket cannot be created. An existing socket file is replaced, so the caller must hold the lock of the state
    directory.
    """

    def __init__(
        self,
        path: Path,
        store: Store,
        status: Callable[[], dict[str, Any]],
        *,
        log: LogInterface,
        on_accepted: Callable[[], None] = lambda: None,
    ) -> None:
        self._path, self._store, self._status, self._log, self._on_accepted = path, store, status, log, on_accepted
        self.stopping = False
        """Set to refuse new events; the agent still answers other requests."""
        self.refused = 0
        """Events refused because the outbox was full."""
        self._callers: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._closed = False
        self._listener = _open_listener(path)
        self.thread = threading.Thread(target=self._accept_connections, name="control", daemon=True)

    def start(self) -> None:
        """Start the server of the agent's control socket.

        A thread accepts connections and answers requests.
        """
        self.thread.start()

    def close(self) -> None:
        """Close the server of the agent's control socket, with all connections.

        The socket file is removed.
        """
        self._closed = True
        with contextlib.suppress(OSError):
            self._path.unlink()
        with self._lock:
            for open_socket in (self._listener, *self._callers):
                with contextlib.suppress(OSError):
                    open_socket.shutdown(socket.SHUT_RDWR)
        if self.thread.is_alive():
            self.thread.join(5.0)
        self._listener.close()

    def _accept_connections(self) -> None:
        while not self._closed:
            try:
                caller, _ = self._listener.accept()
            except OSError as error:
                if self._closed:
                    return  # type: ignore[unreachable] # another thread closes
                self._log.warning(
                    "the agent cannot accept a connection to its control socket, for the reason in the field "
                    "`reason`, and tries again. If this record repeats, increase LimitNOFILE of the agent's service "
                    "unit",
                    path=str(self._path),
                    reason=str(error),
                )
                threading.Event().wait(0.1)  # no file descriptor is free: other connections must close first
                continue
            caller.settimeout(SLOW)
            with self._lock:
                is_limit_reached = len(self._callers) >= CALLERS
                if not is_limit_reached:
                    self._callers.add(caller)
            if is_limit_reached:
                with contextlib.suppress(OSError), caller:
                    reason = (
                        f"the agent rejected the connection, because all {CALLERS} connections to its socket are in "
                        "use: send the request again later"
                    )
                    caller.sendall(_encode_answer({"error": reason, "code": "busy"}))
                continue
            threading.Thread(target=self._serve_caller, args=(caller,), name="control-caller", daemon=True).start()

    def _serve_caller(self, caller: socket.socket) -> None:
        try:
            with caller:
                self._answer_requests(caller)
        except OSError:
            pass  # the caller disconnected: confirmed events are accepted, and other events may be accepted
        except Exception as error:  # noqa: BLE001 -- an error of one caller must not stop the agent
            self._log.error(
                "the agent closed a connection to its control socket after an internal error. This is a bug of the "
                "agent: report it with the field `reason`",
                reason=repr(error),
            )
        finally:
            with self._lock:
                self._callers.discard(caller)

    def _answer_requests(self, caller: socket.socket) -> None:
        """Answer a caller's requests until it disconnects; requests that arrive together share a transaction."""
        received = bytearray()
        while not self._closed:
            caller.settimeout(None)
            data = caller.recv(1 << 16)
            if not data:
                return
            caller.settimeout(SLOW)
            searched = len(received)
            received += data
            end = received.rfind(b"\n", searched) + 1
            if end:
                lines, received = bytes(received[:end]).split(b"\n")[:-1], received[end:]
                caller.sendall(b"".join(map(_encode_answer, self._process_lines(lines))))
            if len(received) > LONGEST:
                error = (
                    f"the agent rejected the request, because the request has more than {LONGEST} bytes: send a "
                    "smaller payload"
                )
                caller.sendall(_encode_answer({"error": error, "code": "bad"}))
                return

    def _process_lines(self, lines: list[bytes]) -> list[dict[str, Any]]:
        begun_requests = [self._begin_request(line) for line in lines if line.strip()]
        answers = [self._wait_for_answer(begun_request) for begun_request in begun_requests]
        if any("id" in answer for answer in answers):
            self._on_accepted()
        return answers

    def _begin_request(self, line: bytes) -> Future[str] | dict[str, Any]:
        """Begin to process a request; return its answer, or for an event the future of its id."""
        try:
            request = _parse_request(line)
            match request.get("op"):
                case "publish":
                    return self._accept_event(request)
                case "status":
                    return self._status()
                case "requeue":
                    return {"requeued": self._store.requeue_expired_events(_requested_ids(request))}
            raise _InvalidRequestError(
                "the request to the agent has no valid key op: set it to publish, status or requeue"
            )
        except Exception as error:  # noqa: BLE001 -- every request gets an answer
            return self._failure_answer(error)

    def _accept_event(self, request: dict[str, Any]) -> Future[str]:
        if self.stopping:
            raise _AgentStoppingError(
                "the agent is stopping and accepts no more events: publish this event again after the agent has started"
            )
        topic, event_id, timeout = request.get("topic"), request.get("id"), request.get("timeout")
        if not isinstance(topic, str) or not isinstance(event_id, str | None):
            raise _InvalidRequestError(
                "the request to the agent has a topic or id that is not text: write both as JSON strings"
            )
        if timeout is not None and (
            isinstance(timeout, bool) or not isinstance(timeout, int | float) or not is_valid_event_timeout(timeout)
        ):
            raise _InvalidRequestError(
                "the request to the agent has no valid timeout: write a number of seconds above 0"
            )
        if is_canary_topic(topic) or is_barrier_topic(topic):
            raise RequestRefusedError(
                f"the topic {topic[:80]!r} of the event is reserved for the test messages of agents, so no subscriber "
                f"would handle the event: choose a topic without the levels {CANARY} and {BARRIER}"
            )
        return self._store.accept_event_later(topic, _decode_payload(request), event_id=event_id, timeout=timeout)

    def _wait_for_answer(self, begun_request: Future[str] | dict[str, Any]) -> dict[str, Any]:
        if isinstance(begun_request, dict):
            return begun_request
        try:
            return {"id": begun_request.result()}
        except Exception as error:  # noqa: BLE001 -- every request gets an answer
            return self._failure_answer(error)

    def _failure_answer(self, error: Exception) -> dict[str, Any]:
        """Return the answer to a request that failed."""
        if not isinstance(error, AgentError):
            self._log.error(
                "the agent failed to carry out a request from its control socket, because of an internal error. This "
                "is a bug of the agent: report it with the field `reason`",
                reason=repr(error),
            )
            text = f"internal error {type(error).__name__}: {error}. This is a bug of the agent: report it with its log"
            return {"error": text, "code": AgentError.code}
        self.refused += isinstance(error, OutboxFullError)
        return {"error": str(error), "code": error.code}


def _open_listener(path: Path) -> socket.socket:
    if len(os.fsencode(path)) > _LONGEST_PATH:
        raise AgentError(
            f"the path {path} of the agent's socket has more than {_LONGEST_PATH} bytes: set a shorter path with the "
            "key socket of agent.conf"
        )
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
        listener.bind(str(path))
        path.chmod(0o600)  # before listen, so that no process can connect earlier
        listener.listen(CALLERS)
    except OSError as error:
        listener.close()
        raise AgentError(
            f"the agent's socket {path} cannot be created ({error.strerror}): set the key socket of agent.conf to a "
            "path in a directory that the agent's user can write"
        ) from error
    return listener


def _parse_request(line: bytes) -> dict[str, Any]:
    try:
        request = json.loads(line)
    except (ValueError, RecursionError):
        raise _InvalidRequestError(
            "the request to the agent is not valid JSON: send one JSON object per line"
        ) from None
    if not isinstance(request, dict):
        raise _InvalidRequestError("the request to the agent is not a JSON object: send one JSON object per line")
    return request


def _decode_payload(request: dict[str, Any]) -> bytes:
    text, encoded = request.get("payload"), request.get("payload_base64")
    if (text is None) == (encoded is None) or not isinstance(text if encoded is None else encoded, str):
        raise _InvalidRequestError(
            "the request to the agent has no valid payload: set either payload or payload_base64, as text"
        )
    try:
        return str(text).encode() if encoded is None else base64.b64decode(encoded, validate=True)
    except ValueError:
        raise _InvalidRequestError(
            "the payload of the request to the agent is not valid: write Unicode text in payload, or base64 in "
            "payload_base64"
        ) from None


def _requested_ids(request: dict[str, Any]) -> list[str] | None:
    ids = request.get("ids")
    if request.get("all") is True and ids is None:
        return None
    if not isinstance(ids, list) or not ids or not all(isinstance(event_id, str) for event_id in ids):
        raise _InvalidRequestError(
            "the request requeue to the agent names no events: set its key ids to a list of event ids, or its key all "
            "to true"
        )
    return ids


def _encode_answer(answer: dict[str, Any]) -> bytes:
    return json.dumps(answer, default=str).encode() + b"\n"
