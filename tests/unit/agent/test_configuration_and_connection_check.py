"""The connection test of `check`, which prints one line per broker."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest

from activemq_agent import configuration_and_connection_check
from activemq_agent.agent_errors import ConfigError
from activemq_agent.cli import main
from activemq_agent.config import AgentTlsSettings
from activemq_agent.config_values import Endpoint, Password
from activemq_agent.configuration_and_connection_check import (
    effective_config_lines,
    raise_for_too_short_dedupe_period,
    try_brokers,
)
from activemq_agent.connecting import ConnectionSettings
from tests.situations import some_situations

from .certificates import DAY, Authority, server_context
from .logged import make_config
from .tiny_broker import TinyBroker

PATIENT = ConnectionSettings(connack_timeout=60, canary_timeout=60)
QUICK = ConnectionSettings(connack_timeout=3, canary_timeout=3)
"""The policy for a broker that does not answer. A broker that answers can be slow on a busy machine."""


def connection_test_line(
    directory: Path, port: int, *, tls: bool = False, ca: Path | None = None, policy: ConnectionSettings = PATIENT
) -> str:
    config = make_config(
        directory, urls=(Endpoint("127.0.0.1", port, tls=tls),), tls=AgentTlsSettings(ca=ca), policy=policy
    )
    (outcome,) = try_brokers(config)
    return outcome.connection_outcome_line


def test_connection_test_passes_if_broker_completes_round_trip(tmp_path: Path) -> None:
    with TinyBroker() as broker:
        line = connection_test_line(tmp_path, broker.port)
    assert re.fullmatch(
        rf"127.0.0.1:{broker.port}  connection test passed  \(TCP [\d.]+ ms, CONNACK [\d.]+ ms, round trip [\d.]+ ms\)",
        line,
    )


def test_connection_test_fails_on_port_without_listener(tmp_path: Path) -> None:
    with TinyBroker() as broker:
        pass
    assert connection_test_line(tmp_path, broker.port).endswith(
        f"connection test failed: no process listens on 127.0.0.1:{broker.port}: start the broker, or correct mb.urls"
    )


@some_situations(1)
@pytest.mark.parametrize(
    ("broker", "message"),
    [
        (TinyBroker(code=5), "rejected the login: Not authorized: check mb.username and mb.password in agent.conf"),
        (TinyBroker(code=3), "rejected the login: Server unavailable: check the broker's log activemq.log"),
        (
            TinyBroker(code=None),
            (
                "accepts TCP connections, but sends no CONNACK in 3 s: check the broker's process, and check "
                "that this port uses MQTT"
            ),
        ),
        (TinyBroker(grants=lambda _: False), "read and write this topic in the broker's ACL"),
        (TinyBroker(delivers=False), "and that the store is not full"),
    ],
    ids=["denied", "unavailable", "hung", "no right to read", "no right to write"],
)
def test_connection_test_fails_without_login_rights_or_delivery(
    tmp_path: Path, broker: TinyBroker, message: str
) -> None:
    with broker:
        line = connection_test_line(
            tmp_path, broker.port, policy=QUICK if "3 s" in message or "store" in message else PATIENT
        )
    assert "connection test failed: " in line
    assert line.endswith(message)


def test_connection_test_reports_rejected_login_without_advice_on_tls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(configuration_and_connection_check, "speaks_tls", lambda *_: True)
    with TinyBroker(code=5) as broker:
        line = connection_test_line(tmp_path, broker.port)
    assert line.endswith("rejected the login: Not authorized: check mb.username and mb.password in agent.conf")


class TestTls:
    def test_connection_test_passes_with_trusted_certificate(self, tmp_path: Path) -> None:
        authority = Authority(tmp_path)
        with TinyBroker(tls=server_context(authority.certificate("127.0.0.1"))) as broker:
            line = connection_test_line(tmp_path, broker.port, tls=True, ca=authority.ca)
        assert line.startswith(f"ssl://127.0.0.1:{broker.port}  connection test passed  (TLS ")

    def test_connection_test_names_cause_of_each_tls_error(self, tmp_path: Path) -> None:
        authority, untrusted_authority = Authority(tmp_path), Authority(tmp_path, "foreign")
        certificates = {
            "not for 127.0.0.1": authority.certificate("other.example.com"),
            "has expired": authority.certificate("127.0.0.1", ends=-DAY),
            "an authority that the agent does not trust": untrusted_authority.certificate("127.0.0.1"),
        }
        for message, certificate in certificates.items():
            with TinyBroker(tls=server_context(certificate)) as broker:
                line = connection_test_line(tmp_path, broker.port, tls=True, ca=authority.ca)
            assert message in line
            assert "connection test failed" in line
        with TinyBroker() as broker:
            line = connection_test_line(tmp_path, broker.port, tls=True, ca=authority.ca, policy=QUICK)
        assert line.endswith(
            f"the broker 127.0.0.1:{broker.port} does not answer the TLS handshake in 3 s: check the broker's "
            "process, and check that this port uses TLS"
        )

    def test_connection_test_without_tls_on_tls_port_names_ssl_address_to_write(self, tmp_path: Path) -> None:
        with TinyBroker(tls=server_context(Authority(tmp_path).certificate("127.0.0.1"))) as broker:
            line = connection_test_line(tmp_path, broker.port)
        assert line.endswith(f"has no ssl:// for this broker: write ssl://127.0.0.1:{broker.port} in mb.urls")


class TestDedupePeriod:
    def test_default_dedupe_period_is_accepted(self, tmp_path: Path) -> None:
        raise_for_too_short_dedupe_period(make_config(tmp_path))

    def test_dedupe_period_below_longest_delay_of_copies_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(
            ConfigError,
            match=r"the value 1 of the key dedupe.days .* up to 519300 s .*\. Set dedupe.days to at least 6\.01",
        ):
            raise_for_too_short_dedupe_period(make_config(tmp_path, dedupe_days=1))

    def test_dedupe_period_of_exactly_longest_delay_is_accepted(self, tmp_path: Path) -> None:
        raise_for_too_short_dedupe_period(
            make_config(tmp_path, dedupe_days=1, publisher_timeout=6400, offline_limit=80000)
        )
        with pytest.raises(ConfigError):
            raise_for_too_short_dedupe_period(
                make_config(tmp_path, dedupe_days=1, publisher_timeout=6401, offline_limit=80000)
            )


def test_password_is_masked_in_effective_agent_configuration(tmp_path: Path) -> None:
    printed_configuration = "\n".join(
        effective_config_lines(make_config(tmp_path, username="u", password=Password("hidden")))
    )
    assert "mb.password = ********" in printed_configuration
    assert "hidden" not in printed_configuration


class TestCommand:
    def run(self, directory: Path, *ports: int, extra: str = "") -> int:
        urls = ",".join(f"127.0.0.1:{port}" for port in ports)
        path = directory / "agent.conf"
        path.write_text(f"[agent]\nmb.urls = {urls}\nclient.id = a\nconnecting.connack.timeout = 0.5\n{extra}\n")
        return main(["--config", str(path), "check"])

    def test_agent_check_exits_0_if_any_broker_passes_connection_test(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with TinyBroker(code=3) as denying_broker, TinyBroker() as accepting_broker:
            assert self.run(tmp_path, denying_broker.port, accepting_broker.port) == 0
        lines = capsys.readouterr().out.splitlines()
        assert "  connection test failed: " in lines[-2]
        assert "  connection test passed  " in lines[-1]

    def test_agent_check_exits_1_if_no_broker_passes_connection_test(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with TinyBroker(code=5) as broker:
            assert self.run(tmp_path, broker.port) == 1
        assert "mb.publisher.timeout = 900" in capsys.readouterr().out

    def test_agent_check_exits_2_for_short_dedupe_period_before_it_connects(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(socket.socket, "connect", lambda *_: pytest.fail("the agent opened a connection"))
        assert self.run(tmp_path, 1, extra="dedupe.days = 1") == 2
        assert "the value 1 of the key dedupe.days" in capsys.readouterr().err
