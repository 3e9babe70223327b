"""Client of the running agent's UNIX socket: each request and each answer is one line of JSON, answers in order."""

from __future__ import annotations

import base64
import contextlib
import errno
import json
import os
import socket
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

from activemq_agent.agent_errors import AgentError, OutboxFullError, RequestRefusedError

DEFAULT_SOCKET = Path("/var/lib/activemq-agent/agent.sock")
TIMEOUT = 60.0
"""Seconds to wait for an answer."""
AT_ONCE = 500
"""Largest number of requests without an answer on a connection."""
BYTES_AT_ONCE = 1 << 18
"""Largest number of bytes of requests without an answer. While the client writes requests it reads no answers, so the
answers must fit into the buffer of the socket. The agent writes one answer per read of a few KiB, and the buffer holds
about 280 writes."""

_ERROR_BY_CODE: dict[str, type[AgentError]] = {
    OutboxFullError.code: OutboxFullError,
    RequestRefusedError.code: RequestRefusedError,
    "bad": RequestRefusedError,
}


class Client:
    """A client of the running agent on this host, over the agent's UNIX socket.

    It is for use by one thread. Every method raises AgentError if no agent answers. The client is then closed, because
    a later answer would belong to an earlier request: use a new client.
    """

    def __init__(self, path: Path = DEFAULT_SOCKET, *, timeout: float = TIMEOUT) -> None:
        self._path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(timeout)
        try:
            self._socket.connect(str(path))
        except OSError as error:
            self._socket.close()
            raise _connection_error(path, error) from error
        self._answers = self._socket.makefile("rb")

    def publish(
        self, topic: str, payload: bytes | str, *, event_id: str | None = None, timeout: float | None = None
    ) -> str:
        """Publish an event by handing it to the running agent, and return its event id.

        When this returns, the event is on the agent's disk. With an ``event_id`` that was accepted before, the id is
        returned and nothing is accepted: after an error that leaves open what happened, publishing again with the same
        id is safe. ``timeout``: seconds until the event expires unsent. Raises OutboxFullError when the outbox is full,
        RequestRefusedError when the event can never be accepted, else AgentError.
        """
        return str(_checked_answer(self.call(_publish_request(topic, payload, event_id, timeout)))["id"])

    def publish_all(self, events: Sequence[tuple[str, bytes | str]]) -> list[str]:
        """Publish events by handing them to the running agent, and return their event ids.

        The events are (topic, payload) pairs. They are accepted in order, many per round trip. Raises the error of the
        first event that fails (OutboxFullError, RequestRefusedError, AgentError); events after it may have been
        accepted.
        """
        answers: list[dict[str, Any]] = []
        for batch in _split_into_batches(
            _encode_request(_publish_request(topic, payload, None, None)) for topic, payload in events
        ):
            answers += self._exchange_lines(batch)
        return [str(_checked_answer(answer)["id"]) for answer in answers]

    def status(self) -> dict[str, Any]:
        """Return the status of the running agent as a dictionary.

        It has the content that ``activemq-agent status --format json`` prints.
        """
        return _checked_answer(self.call({"op": "status"}))

    def requeue(self, ids: Sequence[str] | None = None) -> int:
        """Queue expired or unconfirmed events of the running agent again, so that it sends them; return their number.

        These are the events with the given ``ids``, or all expired events for None.
        """
        selection = {"all": True} if ids is None else {"ids": list(ids)}
        return int(_checked_answer(self.call({"op": "requeue", **selection}))["requeued"])

    def call(self, request: dict[str, Any]) -> dict[str, Any]:
        """Send a request to the running agent, and return its answer.

        The answer to a refused request has the keys ``error`` and ``code``.
        """
        return self._exchange_lines([_encode_request(request)])[0]

    def _exchange_lines(self, requests: Sequence[bytes]) -> list[dict[str, Any]]:
        """Send request lines to the running agent, and return its answers.

        Raises AgentError if a request gets no answer. The client is closed after every error, because a part of a
        request may have been sent, or an answer may arrive later.
        """
        if self._socket.fileno() < 0:
            raise AgentError(
                f"this client of the agent's socket {self._path} is closed, so the request was not sent: create a new "
                "client"
            )
        try:
            return self._send_and_receive_lines(requests)
        except (OSError, ValueError) as error:
            self.close()
            raise AgentError(
                f"the agent sent no answer over its socket {self._path} "
                f"({getattr(error, 'strerror', None) or error}), so it is not known whether the agent carried out the "
                "request. Check that activemq-agent status works. If the request published an event, publish this "
                "event again with the same --id, because the agent accepts each id only once. Without --id, the event "
                "may then be published twice"
            ) from error
        except BaseException:
            self.close()
            raise

    def _send_and_receive_lines(self, requests: Sequence[bytes]) -> list[dict[str, Any]]:
        answers: list[dict[str, Any]] = []
        # An agent with too many callers answers immediately, and does not read the request.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._socket.sendall(b"".join(requests))
        for _ in requests:
            line = self._answers.readline()
            if not line.endswith(b"\n"):
                raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
            answers.append(dict(json.loads(line)))
            if answers[-1].get("code") == "busy":
                return [answers[-1]] * len(requests)
        return answers

    def close(self) -> None:
        """Close the client's connection to the agent's socket."""
        self._answers.close()
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def publish(topic: str, payload: bytes | str, *, event_id: str | None = None, socket: Path = DEFAULT_SOCKET) -> str:
    """Publish one event by handing it to the running agent, and return its event id.

    This opens a new connection to the agent. When it returns, the event is on the agent's disk. Raises OutboxFullError,
    RequestRefusedError, or AgentError, as ``Client.publish`` does.
    """
    with Client(socket) as client:
        return client.publish(topic, payload, event_id=event_id)


def _publish_request(topic: str, payload: bytes | str, event_id: str | None, timeout: float | None) -> dict[str, Any]:
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


def _encode_request(request: dict[str, Any]) -> bytes:
    return json.dumps(request).encode() + b"\n"


def _split_into_batches(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Yield the request lines in batches of at most ``AT_ONCE`` lines and ``BYTES_AT_ONCE`` bytes, in their order."""
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


def _checked_answer(answer: dict[str, Any]) -> dict[str, Any]:
    if "error" in answer:
        raise _ERROR_BY_CODE.get(str(answer.get("code")), AgentError)(str(answer["error"]))
    return answer


def _connection_error(path: Path, error: OSError) -> AgentError:
    if isinstance(error, PermissionError):
        return AgentError(
            f"the current user may not connect to the agent's socket {path}: run the command as the user of the "
            "agent's service unit, or as root"
        )
    if isinstance(error, (FileNotFoundError, ConnectionRefusedError)):
        return AgentError(
            f"the agent is not running, because no process listens on its socket {path}: start the agent's service "
            "unit (systemctl start activemq-agent)"
        )
    return AgentError(
        f"the command cannot connect to the agent's socket {path} ({error.strerror or error}): check this path, and "
        "set the key socket of agent.conf to the socket of the running agent"
    )
