# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Determines when certificates expire: that of a connector, and those of a PEM file.

Only the validity is read, from the certificate's DER (RFC 5280, 4.1); the signature is not verified.
"""

from __future__ import annotations

import calendar
import os
import ssl
import time
from collections.abc import Iterator

from ..config.broker_configuration import DeployedBrokerSettings
from ..files.untrusted_paths import (
    UntrustedPathError,
    open_directory,
    open_file_owned_by_directory_owner_or_root,
)
from ..printable import escape_unprintable
from ..process.proc import Process
from ..protocols import is_encrypted
from .broker_connection import connect_to_broker, expected_broker_of_process

_BEGIN, _END = b"-----BEGIN CERTIFICATE-----", b"-----END CERTIFICATE-----"
_MAX_BYTES = 1 << 20
_TIME_FORMATS = {0x17: "%y%m%d%H%M%SZ", 0x18: "%Y%m%d%H%M%SZ"}


def fetch_connector_certificate_expiry_times(
    deployed: DeployedBrokerSettings, process: Process, timeout: float
) -> list[dict[str, object]]:
    """Connect to each TLS connector of a broker, and return a list of dicts with the expiry times of the certificates.

    The dict of a connector has ``name``, ``ends`` and ``error``. ``ends`` is the expiry time of the certificate that it
    presents, in seconds since the epoch, or None if it is unknown, for the reason in ``error``. A connector that
    requires a certificate of its client presents its own certificate first only over TLS 1.3.
    """
    certificate_rows: list[dict[str, object]] = []
    expected = expected_broker_of_process(process)
    for listener in deployed.listeners:
        if is_encrypted(listener.scheme):
            try:
                connection = connect_to_broker(listener.scheme, listener.address, timeout, _MAX_BYTES, expected)
                with connection.exchange:
                    certificate_rows.append(
                        _certificate_row(
                            f"connector {listener.name}",
                            certificate_expiry_epoch_seconds(connection.peer_certificate()),
                        )
                    )
            except (OSError, ValueError) as error:
                certificate_rows.append(_certificate_row(f"connector {listener.name}", None, str(error)))
    return certificate_rows


def first_expiring_certificate(path: str, *, is_authority_bundle: bool = False) -> list[dict[str, object]]:
    """Return the certificate of a PEM file that expires first.

    The result is a list of one. It has ``name``, ``ends`` and ``error``. ``is_authority_bundle``: the file contains the
    certificates of trusted authorities. Of these, an expired one counts only if all have expired, because it does not
    prevent the verification with another one.
    """
    try:
        texts = list(_pem_texts(_read_certificate_file(path)))
        ends = [certificate_expiry_epoch_seconds(ssl.PEM_cert_to_DER_cert(text.decode("ascii"))) for text in texts]
        if is_authority_bundle:
            now = time.time()
            ends = [end for end in ends if end > now] or ends
        return [
            _certificate_row(path, min(ends))
            if ends
            else _certificate_row(path, None, "the file contains no certificate")
        ]
    except (OSError, UntrustedPathError, ValueError) as error:
        return [_certificate_row(path, None, str(error))]


def _read_certificate_file(path: str) -> bytes:
    """Return the content of a certificate file, which may be a link of root, such as those of certbot."""
    with open_directory(os.path.dirname(path)) as directory:
        descriptor = open_file_owned_by_directory_owner_or_root(
            directory, os.path.basename(path), check_link_targets=True
        )
    with os.fdopen(descriptor, "rb") as file:
        return file.read(_MAX_BYTES)


def _pem_texts(content: bytes) -> Iterator[bytes]:
    """Yield the certificates of a PEM file. The time grows with the size of the file."""
    position = 0
    while (begin := content.find(_BEGIN, position)) >= 0 and (end := content.find(_END, begin)) >= 0:
        position = end + len(_END)
        yield content[begin:position]


def _certificate_row(name: str, ends: float | None, error: str = "") -> dict[str, object]:
    return {"name": name, "ends": ends, "error": escape_unprintable(error)}


def certificate_expiry_epoch_seconds(der: bytes) -> float:
    """Return the expiry time of a DER certificate, in seconds since the epoch.

    Raises ValueError for other data.
    """
    try:
        (_tag, certificate), *_others = _der_elements(der)
        (_tag, body), *_others = _der_elements(certificate)
        # Version (tagged 0, and absent in version 1), serial number, algorithm, issuer, validity.
        parts = [content for tag, content in _der_elements(body) if tag != 0xA0]
        tag, text = list(_der_elements(parts[3]))[1]
        return float(calendar.timegm(time.strptime(text.decode("ascii"), _TIME_FORMATS[tag])))
    except (IndexError, KeyError, ValueError):
        raise ValueError(
            "the TLS certificate cannot be decoded: replace it (the certificate of a broker's connector is in the "
            "keystore of activemq_tls)"
        ) from None


def _der_elements(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield tag and content of the DER elements that follow one another in ``data``."""
    while data:
        tag, size, head_size = data[0], data[1], 2
        if size & 0x80:
            head_size += size & 0x7F
            size = int.from_bytes(data[2:head_size], "big")
        if head_size + size > len(data):
            raise ValueError("the certificate is truncated")
        yield tag, data[head_size : head_size + size]
        data = data[head_size + size :]
