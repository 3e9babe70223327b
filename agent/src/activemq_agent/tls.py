"""TLS contexts for connections to brokers, and one-line explanations of connections that failed."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from activemq_agent.agent_errors import ConfigError, TlsFileError

if TYPE_CHECKING:
    from pathlib import Path

    from activemq_agent.config import AgentTlsSettings
    from activemq_agent.config_values import Endpoint
    from activemq_agent.logs import LogInterface

# OpenSSL's reasons for a response that is not TLS.
_NO_TLS_REASONS = {
    "WRONG_VERSION_NUMBER",
    "RECORD_LAYER_FAILURE",
    "UNEXPECTED_EOF_WHILE_READING",
    "PACKET_LENGTH_TOO_LONG",
}


class _Context(ssl.SSLContext):
    """An SSL context that expects in a certificate the name that ``names`` has for the host, else the host's name."""

    names: Mapping[str, str] = MappingProxyType({})

    def wrap_socket(  # type: ignore[override]  # a client passes only its socket and the host
        self, sock: socket.socket, *, server_hostname: str, do_handshake_on_connect: bool = True
    ) -> ssl.SSLSocket:
        name = self.names.get(server_hostname, server_hostname)
        return super().wrap_socket(sock, do_handshake_on_connect=do_handshake_on_connect, server_hostname=name)


def tls_context(tls: AgentTlsSettings) -> ssl.SSLContext:
    """Return an SSL context for connections to brokers, by the agent's TLS settings.

    It requires TLS 1.2 or later, and checks the broker's certificate and host name. Raises TlsFileError naming the key
    and the file that cannot be used.
    """
    try:
        context = _Context(ssl.PROTOCOL_TLS_CLIENT)  # checks certificate and name
        if tls.ca:
            context.load_verify_locations(cafile=str(tls.ca))
        else:
            context.load_default_certs()
    except OSError as error:  # ssl.SSLError is one
        raise _unusable_file_error("tls.ca", tls.ca, error) from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.names = {entry.host: entry.name for entry in tls.names}
    if tls.certificate:
        for key, path in (("tls.certificate", tls.certificate), ("tls.key", tls.key)):
            _check_readable(key, path)
        try:
            # An empty passphrase: without a passphrase OpenSSL would prompt on the terminal.
            context.load_cert_chain(str(tls.certificate), str(tls.key) if tls.key else None, password="")
        except OSError as error:
            raise _unusable_file_error("tls.certificate and tls.key", tls.certificate, error) from error
    return context


class RenewedTlsContext:
    """The SSL context for an agent's connections to brokers, which is created again when its files are replaced.

    So a renewed certificate is used from the next connection on. Raises TlsFileError for files that cannot be used.
    """

    def __init__(self, tls: AgentTlsSettings, log: LogInterface) -> None:
        self._tls = tls
        self._log = log
        self._file_states = _file_states(tls)
        self._unusable_file_states: list[tuple[int, int, int] | None] | None = None
        self._context = tls_context(tls)

    def current_context(self) -> ssl.SSLContext:
        """Return the SSL context for a new connection, by the present content of the agent's TLS files.

        If replaced files cannot be used, the previous context is returned, and the reason is logged once. Each call
        tries them again, because they can become usable without a change, such as on a network file system.
        """
        states = _file_states(self._tls)
        unusable_states = None
        if states != self._file_states:
            try:
                self._context = tls_context(self._tls)
                self._file_states = states
            except ConfigError as error:
                unusable_states = states
                if states != self._unusable_file_states:
                    self._log.error(
                        "the agent cannot use its replaced TLS files, and connects with their previous content: "
                        "correct the file that the field `reason` of this record names",
                        reason=str(error),
                    )
        self._unusable_file_states = unusable_states
        return self._context


def _file_states(tls: AgentTlsSettings) -> list[tuple[int, int, int] | None]:
    """Return inode, size and time of the last change of each TLS file; None for a file that cannot be found."""
    paths = (tls.ca or ssl.get_default_verify_paths().cafile, tls.certificate, tls.key)
    return [_file_state(path) for path in paths if path]


def _file_state(path: Path | str) -> tuple[int, int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_ctime_ns


def _check_readable(key: str, path: Path | None) -> None:
    try:
        if path:
            path.open("rb").close()
    except OSError as error:
        raise _unusable_file_error(key, path, error) from error


def _unusable_file_error(key: str, path: Path | None, error: OSError) -> TlsFileError:
    reason = error.strerror or str(error)
    if isinstance(error, ssl.SSLError):
        reason = {
            "KEY_VALUES_MISMATCH": "the key does not match the certificate: set tls.key to the key of this certificate",
            "BAD_DECRYPT": "the key has a passphrase: store the key without a passphrase",
        }.get(
            error.reason or "",
            f"the file is not a usable PEM file ({(error.reason or str(error)).replace('_', ' ').lower()}): replace it "
            "with a PEM file",
        )
    return TlsFileError(f"{key}: {path or 'the CA certificates of this host'}: {reason}")


def explain_connection_failure(error: BaseException, broker: Endpoint, *, seconds: float) -> str:
    """Return one line that explains why a connection to a broker failed, with the remedy.

    ``seconds`` is the timeout of the attempt.
    """
    peer = f"the broker {broker.host_port_text}"
    match error:
        case ssl.SSLCertVerificationError():
            return _describe_bad_certificate(error, peer, broker.host)
        case ssl.SSLError():
            return _describe_tls_error(error, peer)
        case TimeoutError() if "handshake" in str(error):
            return (
                f"{peer} did not answer the TLS handshake in {seconds:g} s: check the broker's process, and check that "
                "the port uses TLS"
            )
        case TimeoutError():
            return f"{peer} did not answer in {seconds:g} s: check the broker's process and the network"
        case ConnectionResetError() | BrokenPipeError() if broker.tls:
            return f"{peer} closed the connection during the TLS handshake: check that this port uses TLS"
        case socket.gaierror():
            return f"the host name of {peer} cannot be resolved ({error.strerror}): correct mb.urls or the DNS entry"
        case ConnectionRefusedError():
            return f"no process listens on {broker.host_port_text}: start the broker, or correct mb.urls"
    reason = getattr(error, "strerror", None) or error or type(error).__name__
    return f"the connection to {peer} failed: {reason}. Check the network and mb.urls"


def _describe_bad_certificate(error: ssl.SSLCertVerificationError, peer: str, host: str) -> str:
    match error.verify_code:  # OpenSSL's numbers: x509_vfy.h, X509_V_ERR_…
        case 9:
            return (
                f"{peer} has a certificate that is not valid yet: check the start date of the certificate, and the "
                "clock of this machine"
            )
        case 10:
            return f"{peer} has a certificate that has expired: renew the certificate on the broker"
        case 18 | 19 | 20 | 21:
            return (
                f"{peer} has a certificate from an authority that the agent does not trust: add the certificate of "
                "this authority to the file that tls.ca in agent.conf names"
            )
        case 62 | 64:
            return (
                f"{peer} has a certificate that is not for {host}: in mb.urls of agent.conf, write a host name that "
                "the certificate contains"
            )
    return f"{peer} has a certificate that is not valid ({error.verify_message}): replace the certificate on the broker"


def _describe_tls_error(error: ssl.SSLError, peer: str) -> str:
    reason = error.reason or str(error)
    if reason in _NO_TLS_REASONS or isinstance(error, ssl.SSLEOFError):
        return f"{peer} does not use TLS: remove ssl:// in mb.urls, or name the broker's TLS port"
    if reason in ("TLSV1_ALERT_PROTOCOL_VERSION", "UNSUPPORTED_PROTOCOL", "NO_PROTOCOLS_AVAILABLE"):
        return f"{peer} does not support TLS 1.2 or later, which the agent requires: enable TLS 1.2 on the broker"
    if reason.endswith(("CERTIFICATE_REQUIRED", "HANDSHAKE_FAILURE", "BAD_CERTIFICATE", "UNKNOWN_CA")):
        return (
            f"{peer} did not accept the agent's client certificate ({reason.replace('_', ' ').lower()}): set "
            "tls.certificate and tls.key in agent.conf to a certificate from an authority that the broker trusts"
        )
    return (
        f"{peer}: the TLS handshake failed ({reason.replace('_', ' ').lower()}): check the TLS settings of the broker"
    )


def speaks_tls(address: tuple[str, int], timeout: float) -> bool:
    """Return whether a server that speaks TLS answers at an address.

    An error message contains a hint about it. No certificate is checked, and no data is sent.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection(address, timeout) as plain, context.wrap_socket(plain):
            return True
    except ssl.SSLError as error:
        return error.reason not in _NO_TLS_REASONS and not isinstance(error, ssl.SSLEOFError)
    except OSError:
        return False
