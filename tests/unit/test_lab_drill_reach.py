"""Check before the load of a drill whether this machine can connect to the MQTT connectors of the brokers."""

from __future__ import annotations

import itertools
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from activemq_fleet.errors import InputError
from activemq_fleet.lab.agent_load_generator import TwoAgentLoadSpec
from activemq_fleet.lab.agent_process import _log_line_text
from activemq_fleet.lab.drill_reach import require_nodes_reachable_by_load
from tests.unit.agent.certificates import Authority, server, server_context
from tests.waiting import PATIENCE, within

NOWHERE = "nowhere.invalid:1883"


def serve(server: socket.socket, *answers: bytes) -> None:
    """Send each answer to one connection, and the last answer to all further ones, until the server is closed."""
    with suppress(OSError):
        for answer in itertools.chain(answers, itertools.repeat(answers[-1])):
            connection, _ = server.accept()
            with connection:
                connection.recv(1024)
                connection.sendall(answer)


@contextmanager
def mqtt_server(*answers: bytes) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, args=(server, *answers), daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def mqtt_address() -> Iterator[str]:
    """Yield an address where a server accepts MQTT connections."""
    with mqtt_server(b"\x20\x02\x00\x00") as address:
        yield address


@pytest.fixture
def closing_address() -> Iterator[str]:
    """Yield an address where a server accepts and closes connections, as a proxy for a missing host does."""
    with mqtt_server(b"") as address:
        yield address


@pytest.fixture
def unused_address() -> str:
    """Return an address where no process listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def silent_address() -> Iterator[str]:
    """Yield an address that does not answer, because its queue of connections is full."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        name = server.getsockname()
        waiting = []
        for _ in range(4):
            client = socket.socket()
            client.setblocking(False)
            client.connect_ex(name)
            waiting.append(client)
        yield f"127.0.0.1:{name[1]}"
        for client in waiting:
            client.close()


def spec(*addresses: str, name: str = "orders-mq01", **options: str) -> TwoAgentLoadSpec:
    keys = {"mb.urls": ",".join(addresses), **options}
    return TwoAgentLoadSpec(name=name, topic="t", filters=("t/#",), rate=1, publisher=keys, subscriber=keys)


def input_error_text(*specs: TwoAgentLoadSpec) -> str:
    with pytest.raises(InputError) as caught:
        require_nodes_reachable_by_load(specs, timeout=1)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_drill_accepts_pair_whose_standby_refuses_connections(mqtt_address: str, unused_address: str) -> None:
    require_nodes_reachable_by_load(
        [spec(mqtt_address, unused_address), spec(unused_address, mqtt_address, name="orders-mq02")]
    )


def test_drill_error_about_pair_without_listener_names_host_and_port(unused_address: str) -> None:
    message = input_error_text(spec(unused_address))
    assert f"cannot open MQTT at {unused_address} (connection refused)" in message
    assert "run the playbook on another machine" in message


def test_drill_refuses_node_whose_name_cannot_be_resolved(mqtt_address: str) -> None:
    assert f"{NOWHERE} (the host name cannot be resolved)" in input_error_text(spec(mqtt_address, NOWHERE))


def test_drill_refuses_server_that_closes_connections_without_answer(closing_address: str, unused_address: str) -> None:
    assert f"{closing_address} (the server closes the connection without an answer" in input_error_text(
        spec(closing_address, unused_address)
    )
    assert (
        f"{closing_address} (does not use TLS: remove ssl:// in mb.urls, or name the broker's TLS port)"
        in input_error_text(spec(f"ssl://{closing_address}"))
    )


def test_drill_checks_server_that_closes_first_connection_again() -> None:
    with mqtt_server(b"", b"\x20\x02\x00\x00") as address:
        require_nodes_reachable_by_load([spec(address)], timeout=5)
    with mqtt_server(b"", b"\x20\x02\x00\x05") as address:
        assert "brokers reject the login of its test load" in input_error_text(spec(address))


@pytest.mark.parametrize("code", [3, 4, 5])
def test_drill_error_about_rejected_login_names_user_and_no_password(unused_address: str, code: int) -> None:
    with mqtt_server(bytes([0x20, 2, 0, code])) as address:
        keys = {"mb.username": "till", "mb.password": "canary-wrong"}
        message = input_error_text(spec(address, unused_address, **keys))
        rejected = f"{address} (the broker rejects the user 'till' or its password"
        assert f"brokers reject the login of its test load: {rejected}" in message
        assert "activemq_agent_password" in message
        assert "canary" not in message
        assert f"{address} (the broker rejects a client without a login" in input_error_text(spec(address))


def test_drill_checks_login_of_load_over_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    context = server_context(authority.certificate("127.0.0.1"))
    for return_code, reason in ((0, ""), (5, "the broker rejects the user 'till' or its password")):
        with server(context, response=bytes([0x20, 2, 0, return_code])) as port:
            keys = {"mb.username": "till", "mb.password": "wrong", "tls.ca": str(authority.ca)}
            tls_spec = spec(f"ssl://127.0.0.1:{port}", **keys)
            if reason:
                assert reason in input_error_text(tls_spec)
            else:
                require_nodes_reachable_by_load([tls_spec], timeout=5)


def test_drill_reports_certificate_that_agents_do_not_trust(tmp_path: Path) -> None:
    other_directory = tmp_path / "other"
    other_directory.mkdir()
    with server(server_context(Authority(tmp_path).certificate("127.0.0.1"))) as port:
        message = input_error_text(
            spec(f"ssl://127.0.0.1:{port}", **{"tls.ca": str(Authority(other_directory, "stranger").ca)})
        )
    assert "has a certificate from an authority that the agent does not trust" in message


def test_drill_reports_host_that_does_not_answer(mqtt_address: str, silent_address: str) -> None:
    assert f"{silent_address} (the broker sent no answer within 1 s)" in within(
        PATIENCE, lambda: input_error_text(spec(mqtt_address, silent_address))
    )


def test_drill_error_names_four_unreachable_addresses_and_counts_others() -> None:
    message = input_error_text(*(spec(f"pair{number}.invalid:1883", name=f"p{number}") for number in range(7)))
    assert "pair3.invalid:1883" in message
    assert "and 3 more" in message


def test_json_log_line_of_agent_is_converted_to_plain_text() -> None:
    line = '{"event": "connection lost", "broker": "a:1883", "reason": "refused the login", "level": "warning"}'
    assert _log_line_text(line) == "connection lost: a:1883: refused the login"
    assert _log_line_text("no JSON") == "no JSON"
