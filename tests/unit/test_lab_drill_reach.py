"""Before a drill puts load on: can this machine open the brokers' MQTT connectors?"""

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
from activemq_fleet.lab.agent_process import _plain
from activemq_fleet.lab.drill_reach import require_nodes_reachable_by_load
from tests.unit.agent.certificates import Authority, server, serving
from tests.waiting import PATIENCE, within

NOWHERE = "nowhere.invalid:1883"


def serve(server: socket.socket, *answers: bytes) -> None:
    """Answer each connection in turn, and all further ones as the last, until the server is closed."""
    with suppress(OSError):
        for answer in itertools.chain(answers, itertools.repeat(answers[-1])):
            connection, _ = server.accept()
            with connection:
                connection.recv(1024)
                connection.sendall(answer)


@contextmanager
def server_of(*answers: bytes) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, args=(server, *answers), daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def served() -> Iterator[str]:
    """An address at which MQTT is answered."""
    with server_of(b"\x20\x02\x00\x00") as address:
        yield address


@pytest.fixture
def taken() -> Iterator[str]:
    """An address at which connections are taken and ended, as by a proxy for a host that is not there."""
    with server_of(b"") as address:
        yield address


@pytest.fixture
def refused() -> str:
    """An address at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def silent() -> Iterator[str]:
    """An address that does not answer: its queue of connections is full."""
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


def spec(*addresses: str, name: str = "orders-mq01", **more: str) -> TwoAgentLoadSpec:
    keys = {"mb.urls": ",".join(addresses), **more}
    return TwoAgentLoadSpec(name=name, topic="t", filters=("t/#",), rate=1, publisher=keys, subscriber=keys)


def refusal(*specs: TwoAgentLoadSpec) -> str:
    with pytest.raises(InputError) as caught:
        require_nodes_reachable_by_load(specs, timeout=1)
    said = str(caught.value)
    assert "\n" not in said
    return said


def test_a_pair_whose_standby_refuses_can_be_drilled(served: str, refused: str) -> None:
    require_nodes_reachable_by_load([spec(served, refused), spec(refused, served, name="orders-mq02")])


def test_a_pair_of_which_nobody_listens_is_refused_by_host_and_port(refused: str) -> None:
    said = refusal(spec(refused))
    assert f"cannot open MQTT at {refused} (connection refused)" in said
    assert "run the playbook on another machine" in said


def test_a_node_to_which_the_load_could_not_move_is_refused(served: str) -> None:
    assert f"{NOWHERE} (the host name cannot be resolved)" in refusal(spec(served, NOWHERE))


def test_a_connection_that_is_taken_by_something_else_proves_nothing(taken: str, refused: str) -> None:
    assert f"{taken} (the server closes the connection without an answer" in refusal(spec(taken, refused))
    assert f"{taken} (does not use TLS: remove ssl:// in mb.urls, or name the broker's TLS port)" in refusal(
        spec(f"ssl://{taken}")
    )


def test_one_that_hangs_up_is_asked_again() -> None:
    with server_of(b"", b"\x20\x02\x00\x00") as address:
        require_nodes_reachable_by_load([spec(address)], timeout=5)
    with server_of(b"", b"\x20\x02\x00\x05") as address:
        assert "brokers reject the login of its test load" in refusal(spec(address))


@pytest.mark.parametrize("code", [3, 4, 5])
def test_a_login_that_a_broker_refuses_is_named(refused: str, code: int) -> None:
    with server_of(bytes([0x20, 2, 0, code])) as address:
        keys = {"mb.username": "till", "mb.password": "canary-wrong"}
        said = refusal(spec(address, refused, **keys))
        rejected = f"{address} (the broker rejects the user 'till' or its password"
        assert f"brokers reject the login of its test load: {rejected}" in said
        assert "activemq_agent_password" in said
        assert "canary" not in said
        assert f"{address} (the broker rejects a client without a login" in refusal(spec(address))


def test_the_login_is_tried_over_tls_too(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    context = serving(authority.certificate("127.0.0.1"))
    for code, says in ((0, ""), (5, "the broker rejects the user 'till' or its password")):
        with server(context, says=bytes([0x20, 2, 0, code])) as port:
            keys = {"mb.username": "till", "mb.password": "wrong", "tls.ca": str(authority.ca)}
            one = spec(f"ssl://127.0.0.1:{port}", **keys)
            if says:
                assert says in refusal(one)
            else:
                require_nodes_reachable_by_load([one], timeout=5)


def test_a_certificate_that_agents_do_not_accept_is_named(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    with server(serving(Authority(tmp_path).certificate("127.0.0.1"))) as port:
        said = refusal(spec(f"ssl://127.0.0.1:{port}", **{"tls.ca": str(Authority(other, "stranger").ca)}))
    assert "has a certificate from an authority that the agent does not trust" in said


def test_a_silent_host_is_named(served: str, silent: str) -> None:
    assert f"{silent} (the broker sent no answer within 1 s)" in within(PATIENCE, lambda: refusal(spec(served, silent)))


def test_a_line_names_four_and_counts_the_others() -> None:
    said = refusal(*(spec(f"pair{number}.invalid:1883", name=f"p{number}") for number in range(7)))
    assert "pair3.invalid:1883" in said
    assert "and 3 more" in said


def test_what_an_agent_logs_as_json_is_told_in_words() -> None:
    line = '{"event": "connection lost", "broker": "a:1883", "reason": "refused the login", "level": "warning"}'
    assert _plain(line) == "connection lost: a:1883: refused the login"
    assert _plain("no JSON") == "no JSON"
