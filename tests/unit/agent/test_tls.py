"""Brokers that an agent trusts, and its errors for other brokers."""

from __future__ import annotations

import errno
import socket
import ssl
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from activemq_agent import agent_connection
from activemq_agent.agent_errors import ConfigError
from activemq_agent.config import AgentTlsSettings, Config
from activemq_agent.config_values import Endpoint, HostAndExpectedCertificateName
from activemq_agent.tls import RenewedTlsContext, explain_connection_failure, speaks_tls, tls_context

from .certificates import DAY, Authority, server, server_context
from .links import RecordingLog


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def handshake_outcome(tls: AgentTlsSettings, port: int, host: str = "127.0.0.1") -> str:
    """Return the TLS version of a handshake, or the reason for its failure."""
    try:
        plain = socket.create_connection(("127.0.0.1", port), 60)
        with plain, tls_context(tls).wrap_socket(plain, server_hostname=host) as wrapped:
            version = str(wrapped.version())
            wrapped.settimeout(3)
            with suppress(TimeoutError):
                wrapped.recv(10)  # with TLS 1.3, the client receives its rejection only now
            return version
    except OSError as error:
        return explain_connection_failure(error, Endpoint(host, port, tls=True), seconds=5)


def test_agent_trusts_broker_with_valid_certificate(authority: Authority) -> None:
    with server(server_context(authority.certificate("127.0.0.1"))) as port:
        assert handshake_outcome(AgentTlsSettings(ca=authority.ca), port) == "TLSv1.3"


def test_agent_refuses_broker_certificate_for_another_host_name(authority: Authority) -> None:
    with server(server_context(authority.certificate("other.example.com"))) as port:
        assert handshake_outcome(AgentTlsSettings(ca=authority.ca), port, "mq.example.com") == (
            f"the broker mq.example.com:{port} has a certificate that is not for mq.example.com: "
            "in mb.urls of agent.conf, write a host name that the certificate contains"
        )
        assert "not for 127.0.0.1" in handshake_outcome(AgentTlsSettings(ca=authority.ca), port)


def test_broker_address_may_present_only_certificate_of_its_expected_name(authority: Authority) -> None:
    names = (
        HostAndExpectedCertificateName("127.0.0.1", "mq.example.com"),
        HostAndExpectedCertificateName("127.0.0.2", "else.example.com"),
    )
    tls = AgentTlsSettings(ca=authority.ca, names=names)
    with server(server_context(authority.certificate("mq.example.com"))) as port:
        assert handshake_outcome(tls, port, "127.0.0.1") == "TLSv1.3"
        assert "not for 127.0.0.2" in handshake_outcome(tls, port, "127.0.0.2")
        assert "not for 127.0.0.3" in handshake_outcome(tls, port, "127.0.0.3")


def test_agent_refuses_expired_broker_certificate(authority: Authority) -> None:
    with server(server_context(authority.certificate("127.0.0.1", ends=-DAY))) as port:
        assert handshake_outcome(AgentTlsSettings(ca=authority.ca), port) == (
            f"the broker 127.0.0.1:{port} has a certificate that has expired: renew the certificate on the broker"
        )


def test_agent_refuses_broker_certificate_of_untrusted_authority(authority: Authority, tmp_path: Path) -> None:
    untrusted_authority = Authority(tmp_path, "foreign")
    expected = (
        "has a certificate from an authority that the agent does not trust: add the certificate of this authority to "
        "the file that tls.ca in agent.conf names"
    )
    with server(server_context(untrusted_authority.certificate("127.0.0.1"))) as port:
        assert handshake_outcome(AgentTlsSettings(ca=authority.ca), port) == f"the broker 127.0.0.1:{port} {expected}"
        # The system does not trust the authority either.
        assert handshake_outcome(AgentTlsSettings(), port) == f"the broker 127.0.0.1:{port} {expected}"


@pytest.mark.parametrize("response", [b"", b"\x20\x02\x00\x05", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_agent_reports_broker_port_without_tls(authority: Authority, response: bytes) -> None:
    with server(None, response=response) as port:
        problem = handshake_outcome(AgentTlsSettings(ca=authority.ca), port)
        assert not speaks_tls(("127.0.0.1", port), 5)
    assert problem in (
        f"the broker 127.0.0.1:{port} does not use TLS: remove ssl:// in mb.urls, or name the broker's TLS port",
        f"the broker 127.0.0.1:{port} closed the connection during the TLS handshake: check that this port uses TLS",
    )


def test_agent_detects_broker_port_with_tls(authority: Authority) -> None:
    with server(server_context(authority.certificate("other.example.com"))) as port:
        assert speaks_tls(("127.0.0.1", port), 5)


def test_agent_refuses_connection_below_tls_1_2(authority: Authority) -> None:
    assert tls_context(AgentTlsSettings()).minimum_version == ssl.TLSVersion.TLSv1_2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        outdated_server_tls = server_context(authority.certificate("127.0.0.1"), maximum_version=ssl.TLSVersion.TLSv1_1)
        outdated_server_tls.minimum_version = ssl.TLSVersion.TLSv1
    outdated_server_tls.set_ciphers("ALL:@SECLEVEL=0")
    with server(outdated_server_tls) as port:
        assert "does not support TLS 1.2 or later" in handshake_outcome(AgentTlsSettings(ca=authority.ca), port)


def test_agent_always_checks_host_name_of_broker_certificate(authority: Authority) -> None:
    for tls in (AgentTlsSettings(), AgentTlsSettings(ca=authority.ca)):
        context = tls_context(tls)
        assert (context.check_hostname, context.verify_mode) == (True, ssl.CERT_REQUIRED)


class TestClientCertificates:
    def test_client_certificate_is_sent_to_broker_that_requires_it(self, authority: Authority) -> None:
        server_tls = server_context(authority.certificate("127.0.0.1"))
        server_tls.verify_mode = ssl.CERT_REQUIRED
        server_tls.load_verify_locations(authority.ca)
        client_certificate = authority.certificate("agent-1")
        with server(server_tls) as port:
            assert (
                handshake_outcome(
                    AgentTlsSettings(ca=authority.ca, certificate=client_certificate, key=client_certificate), port
                )
                == "TLSv1.3"
            )

    def test_error_for_missing_client_certificate_names_settings_to_change(self, authority: Authority) -> None:
        server_tls = server_context(authority.certificate("127.0.0.1"))
        server_tls.verify_mode = ssl.CERT_REQUIRED
        server_tls.load_verify_locations(authority.ca)
        with server(server_tls) as port:
            assert handshake_outcome(AgentTlsSettings(ca=authority.ca), port).endswith(
                "did not accept the agent's client certificate (tlsv13 alert certificate required): set "
                "tls.certificate and tls.key in agent.conf to a certificate from an authority that the broker trusts"
            )

    @pytest.mark.parametrize("part", ["ca", "certificate", "key"])
    def test_error_names_setting_of_missing_or_invalid_certificate_file(
        self, authority: Authority, tmp_path: Path, part: str
    ) -> None:
        valid = authority.certificate("agent-1")
        (tmp_path / "bad").write_text("not PEM\n")
        for path, reason in (
            (tmp_path / "none", "No such file or directory"),
            (tmp_path / "bad", "the file is not a usable PEM file"),
        ):
            files: dict[str, Any] = {"ca": authority.ca, "certificate": valid, "key": valid, part: path}
            with pytest.raises(ConfigError) as caught:
                tls_context(AgentTlsSettings(**files))
            assert f"tls.{part}" in str(caught.value)
            assert reason in str(caught.value)

    def test_client_key_that_does_not_match_certificate_is_refused(self, authority: Authority) -> None:
        certificate, other_key = authority.certificate("agent-1"), authority.certificate("agent-2")
        with pytest.raises(ConfigError, match="the key does not match the certificate"):
            tls_context(AgentTlsSettings(certificate=certificate, key=other_key))

    def test_client_key_with_passphrase_is_refused_without_prompt(self, authority: Authority) -> None:
        encrypted_key = authority.certificate("agent-1", passphrase=b"secret")
        with pytest.raises(ConfigError, match=r"tls\.certificate and tls\.key: .*: "):
            tls_context(AgentTlsSettings(certificate=encrypted_key, key=encrypted_key))


class TestReplacedFiles:
    def test_replaced_authority_is_trusted_without_restart(self, tmp_path: Path) -> None:
        previous, renewed = Authority(tmp_path, "previous"), Authority(tmp_path, "renewed")
        ca = tmp_path / "ca.pem"
        ca.write_bytes(previous.ca.read_bytes())
        tls = RenewedTlsContext(AgentTlsSettings(ca=ca), RecordingLog())
        assert tls.current_context() is tls.current_context()
        with server(server_context(renewed.certificate("127.0.0.1"))) as port:
            ca.write_bytes(renewed.ca.read_bytes())
            plain = socket.create_connection(("127.0.0.1", port), 60)
            with plain, tls.current_context().wrap_socket(plain, server_hostname="127.0.0.1") as wrapped:
                assert wrapped.version() == "TLSv1.3"

    @pytest.mark.parametrize("part", ["ca", "certificate", "key"])
    def test_unusable_replaced_file_is_logged_once_and_previous_content_stays_in_use(
        self, authority: Authority, tmp_path: Path, part: str
    ) -> None:
        files: dict[str, Any] = {name: tmp_path / name for name in ("ca", "certificate", "key")}
        certificate = authority.certificate("agent-1")
        valid = {"ca": authority.ca, "certificate": certificate, "key": certificate}
        for name, path in files.items():
            path.write_bytes(valid[name].read_bytes())
        log = RecordingLog()
        tls = RenewedTlsContext(AgentTlsSettings(**files), log)
        previous = tls.current_context()
        files[part].unlink()
        assert tls.current_context() is tls.current_context() is previous
        ((_, fields),) = log.records
        assert str(files[part]) in fields["reason"]
        files[part].write_bytes(valid[part].read_bytes())
        assert tls.current_context() is not previous
        assert len(log.records) == 1

    def test_replaced_file_that_could_not_be_read_once_is_used_from_next_connection_on(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A network file system or too many open files can make a read fail, while the file does not change."""
        ca = tmp_path / "ca.pem"
        ca.write_bytes(Authority(tmp_path, "previous").ca.read_bytes())
        log = RecordingLog()
        tls = RenewedTlsContext(AgentTlsSettings(ca=ca), log)
        previous = tls.current_context()
        ca.write_bytes(Authority(tmp_path, "renewed").ca.read_bytes())
        with monkeypatch.context() as failing_reads:
            error = OSError(errno.EIO, "Input/output error")
            failing_reads.setattr(ssl.SSLContext, "load_verify_locations", Mock(side_effect=error))
            assert tls.current_context() is tls.current_context() is previous
        assert len(log.records) == 1
        renewed = tls.current_context()
        assert renewed is not previous
        assert tls.current_context() is renewed
        assert len(log.records) == 1


def test_connection_of_agent_uses_replaced_authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ca = tmp_path / "ca.pem"
    ca.write_bytes(Authority(tmp_path, "previous").ca.read_bytes())
    sessions = Mock()
    monkeypatch.setattr(agent_connection, "Session", sessions)
    config = Config(urls=(Endpoint("127.0.0.1", 1, tls=True),), client_id="host-1", tls=AgentTlsSettings(ca=ca))
    open_session = agent_connection._session_opener(config, "publisher", RecordingLog())
    for conn in (1, 2):
        open_session(0, conn, Mock())
    ca.write_bytes(Authority(tmp_path, "renewed").ca.read_bytes())
    open_session(0, 3, Mock())
    first, second, third = (call.kwargs["tls"] for call in sessions.call_args_list)
    assert first is second is not third


def test_agent_with_unusable_tls_file_is_started_again_by_systemd(tmp_path: Path) -> None:
    """The unit of the agent prevents a restart after exit code 2, but the file can become usable."""
    with pytest.raises(ConfigError) as caught:
        tls_context(AgentTlsSettings(ca=tmp_path / "none"))
    assert caught.value.exit_code == 1


def test_errors_of_failed_agent_connections_have_cause_and_remedy() -> None:
    broker = Endpoint("mq.example.com", 1883)
    messages = [
        explain_connection_failure(error, broker, seconds=5)
        for error in (
            TimeoutError("timed out"),
            ConnectionRefusedError(111, "Connection refused"),
            socket.gaierror(-2, "Name or service not known"),
            OSError(113, "No route to host"),
        )
    ]
    assert messages == [
        "the broker mq.example.com:1883 did not answer in 5 s: check the broker's process and the network",
        "no process listens on mq.example.com:1883: start the broker, or correct mb.urls",
        "the host name of the broker mq.example.com:1883 cannot be resolved (Name or service not known): "
        "correct mb.urls or the DNS entry",
        "the connection to the broker mq.example.com:1883 failed: No route to host. Check the network and mb.urls",
    ]
