"""Talks to the running agent: one request a line of JSON, one answer a line, in the order of the requests."""

from __future__ import annotations

import base64
import contextlib
import errno
import json
import socket
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from activemq_agent.errors import AgentError, Full, Refused

DEFAULT_SOCKET = Path("/var/lib/activemq-agent/agent.sock")
TIMEOUT = 60.0
"""Seconds to wait for an answer."""
AT_ONCE = 500
"""Requests that may be under way on a connection."""
BYTES_AT_ONCE = 1 << 18
"""The same in bytes: while they are written nobody reads the answers, which have to fit into the socket's buffer.
The agent answers with one write what it has read at once, a few KiB at least, and some 280 writes fit."""

_ERRORS: dict[str, type[AgentError]] = {"full": Full, "refused": Refused, "bad": Refused}


class Client:
    """A connection to the agent, for one thread. Every method raises AgentError if the agent is not there."""

    def __init__(self, path: Path = DEFAULT_SOCKET, *, timeout: float = TIMEOUT) -> None:
        self._path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(timeout)
        try:
            self._socket.connect(str(path))
        except OSError as error:
            self._socket.close()
            raise _not_there(path, error) from error
        self._answers = self._socket.makefile("rb")

    def publish(
        self, topic: str, payload: bytes | str, *, event_id: str | None = None, timeout: float | None = None
    ) -> str:
        """Hand an event over; returns its id once it is on the disk.

        With an id that was accepted before, that id is returned and nothing is accepted: after an error that
        leaves open what happened, asking again with the same id is safe. ``timeout``: seconds until it expires.
        Raises Full, Refused, or AgentError.
        """
        return str(_result(self.call(_publish(topic, payload, event_id, timeout)))["id"])

    def publish_all(self, events: Sequence[tuple[str, bytes | str]]) -> list[str]:
        """Hand events over in their order, many at a time; raises what the first one that fails raises.

        Those behind it may have been accepted.
        """
        answers: list[dict[str, Any]] = []
        for batch in _batches(_line(_publish(topic, payload, None, None)) for topic, payload in events):
            answers += self._exchange(batch)
        return [str(_result(answer)["id"]) for answer in answers]

    def status(self) -> dict[str, Any]:
        """How the agent is: the same as ``activemq-agent status --format json``."""
        return _result(self.call({"op": "status"}))

    def requeue(self, ids: Sequence[str] | None = None) -> int:
        """Send expired events again: those named, or all. Returns how many."""
        return int(
            _result(self.call({"op": "requeue", **({"all": True} if ids is None else {"ids": list(ids)})}))["requeued"]
        )

    def call(self, request: dict[str, Any]) -> dict[str, Any]:
        """One request, one answer, which may be an error."""
        return self._exchange([_line(request)])[0]

    def _exchange(self, requests: Sequence[bytes]) -> list[dict[str, Any]]:
        with self._explained():
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                self._socket.sendall(b"".join(requests))  # an agent with too many callers says so, and does not listen
            answers: list[dict[str, Any]] = []
            for _ in requests:
                line = self._answers.readline()
                if not line.endswith(b"\n"):
                    raise ConnectionResetError(errno.ECONNRESET, "the connection was closed")
                answers.append(dict(json.loads(line)))
                if answers[-1].get("code") == "busy":
                    return [answers[-1]] * len(requests)
            return answers

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError) as error:
            raise AgentError(
                f"{self._path}: the agent gave no answer ({getattr(error, 'strerror', None) or error}): whether the "
                "request was carried out is not known; publish again with the same --id"
            ) from error

    def close(self) -> None:
        """End the connection."""
        self._answers.close()
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def publish(topic: str, payload: bytes | str, *, event_id: str | None = None, socket: Path = DEFAULT_SOCKET) -> str:
    """``Client.publish`` on a connection of its own."""
    with Client(socket) as client:
        return client.publish(topic, payload, event_id=event_id)


def _publish(topic: str, payload: bytes | str, event_id: str | None, timeout: float | None) -> dict[str, Any]:
    request: dict[str, Any] = {"op": "publish", "topic": topic}
    try:
        request["payload"] = payload if isinstance(payload, str) else payload.decode()
    except UnicodeDecodeError:
        request["payload_base64"] = base64.b64encode(bytes(payload)).decode()  # type: ignore[arg-type]
    if event_id is not None:
        request["id"] = event_id
    if timeout is not None:
        request["timeout"] = timeout
    return request


def _line(request: dict[str, Any]) -> bytes:
    return json.dumps(request).encode() + b"\n"


def _batches(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    """The lines in their order, as many at a time as may be under way."""
    batch: list[bytes] = []
    size = 0
    for line in lines:
        if batch and (len(batch) == AT_ONCE or size + len(line) > BYTES_AT_ONCE):
            yield batch
            batch, size = [], 0
        batch.append(line)
        size += len(line)
    if batch:
        yield batch


def _result(answer: dict[str, Any]) -> dict[str, Any]:
    if "error" in answer:
        raise _ERRORS.get(str(answer.get("code")), AgentError)(str(answer["error"]))
    return answer


def _not_there(path: Path, error: OSError) -> AgentError:
    if isinstance(error, PermissionError):
        return AgentError(f"{path}: only the agent's user may talk to the agent: run this as that user")
    if isinstance(error, (FileNotFoundError, ConnectionRefusedError)):
        return AgentError(f"the agent is not running (nobody answers on {path}): start it")
    return AgentError(f"{path}: {error.strerror or error}")
