"""Expiry times of certificates."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from activemq_fleet.node.probe import certificates
from activemq_fleet.node.probe.certificates import certificate_expiry_epoch_seconds, first_expiring_certificate
from activemq_fleet.node.state.agent_status import gather_agent_status
from tests.unit.attackers import STRANGER, create_owned_directory, requires_root


def create_certificate(path: Path, days: int) -> None:
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=x", "-days", str(days)]
    subprocess.run([*command, "-keyout", "/dev/null", "-out", str(path)], check=True, capture_output=True)


@pytest.mark.parametrize("days", [12, 40_000])  # the second date is after 2049 and is encoded as GeneralizedTime
def test_expiry_time_of_certificate_is_read_from_pem_file(tmp_path: Path, days: int) -> None:
    creation_time = time.time()
    create_certificate(tmp_path / "c.pem", days)
    (certificate,) = first_expiring_certificate(str(tmp_path / "c.pem"))
    assert isinstance(certificate["ends"], (int, float))
    assert int(creation_time) <= certificate["ends"] - days * 86400 <= time.time()


def test_earliest_expiry_time_of_several_certificates_is_returned(tmp_path: Path) -> None:
    create_certificate(tmp_path / "a.pem", 30)
    creation_time = time.time()
    create_certificate(tmp_path / "b.pem", 3)
    (tmp_path / "both.pem").write_text((tmp_path / "a.pem").read_text() + (tmp_path / "b.pem").read_text())
    (certificate,) = first_expiring_certificate(str(tmp_path / "both.pem"))
    assert isinstance(certificate["ends"], (int, float))
    assert int(creation_time) <= certificate["ends"] - 3 * 86400 <= time.time()


@pytest.mark.parametrize(
    ("is_authority_bundle", "elapsed_days", "days"), [(False, 10, 3), (True, 0, 3), (True, 10, 30), (True, 90, 3)]
)
def test_expired_certificate_counts_unless_another_authority_is_valid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_authority_bundle: bool, elapsed_days: int, days: int
) -> None:
    creation_time = time.time()
    for number in (3, 30, 60):
        create_certificate(tmp_path / f"{number}.pem", number)
    (tmp_path / "all.pem").write_text("".join((tmp_path / f"{number}.pem").read_text() for number in (3, 30, 60)))
    later = time.time() + elapsed_days * 86400
    monkeypatch.setattr(certificates, "time", SimpleNamespace(time=lambda: later, strptime=time.strptime))
    (certificate,) = first_expiring_certificate(str(tmp_path / "all.pem"), is_authority_bundle=is_authority_bundle)
    assert isinstance(certificate["ends"], (int, float))
    assert int(creation_time) <= certificate["ends"] - days * 86400 <= time.time()


def test_expiry_time_of_certificate_is_read_through_link(tmp_path: Path) -> None:
    (tmp_path / "archive").mkdir()
    (tmp_path / "live").mkdir()
    create_certificate(tmp_path / "archive" / "fullchain1.pem", 30)
    (tmp_path / "live" / "fullchain.pem").symlink_to("../archive/fullchain1.pem")
    assert first_expiring_certificate(str(tmp_path / "live" / "fullchain.pem")) == [
        {
            "name": f"{tmp_path}/live/fullchain.pem",
            "ends": first_expiring_certificate(f"{tmp_path}/archive/fullchain1.pem")[0]["ends"],
            "error": "",
        }
    ]


@requires_root
def test_certificate_of_other_account_through_link_is_error(tmp_path: Path) -> None:
    data = create_owned_directory(tmp_path / "data")
    create_certificate(data / "certificate.pem", 30)
    os.chown(data / "certificate.pem", STRANGER, STRANGER)
    (tmp_path / "link.pem").symlink_to(data / "certificate.pem")
    (row,) = first_expiring_certificate(str(tmp_path / "link.pem"))
    assert row["ends"] is None
    assert f"{data}/certificate.pem belongs to " in str(row["error"])


@pytest.mark.parametrize("content", ["", "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n", None])
def test_file_without_certificate_has_error_and_no_expiry_time(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "c.pem").write_text(content)
    (certificate,) = first_expiring_certificate(str(tmp_path / "c.pem"))
    assert certificate["ends"] is None
    assert certificate["error"]


@pytest.mark.parametrize("der", [b"", b"\x30", b"\x30\x84\xff\xff\xff\xff", b"\x30\x03\x30\x01\x00"])
def test_invalid_der_certificate_is_refused(der: bytes) -> None:
    with pytest.raises(ValueError, match="the TLS certificate cannot be decoded"):
        certificate_expiry_epoch_seconds(der)


def test_agent_status_has_certificates_of_agent_and_of_its_authorities(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (3, 30):
        create_certificate(tmp_path / f"{number}.pem", number)
    (tmp_path / "all.pem").write_text("".join((tmp_path / f"{number}.pem").read_text() for number in (3, 30)))
    later = time.time() + 10 * 86400
    monkeypatch.setattr(certificates, "time", SimpleNamespace(time=lambda: later, strptime=time.strptime))
    path = str(tmp_path / "all.pem")
    status = gather_agent_status(
        {"config": str(tmp_path / "etc"), "state": str(tmp_path), "certificates": [path], "authorities": [path]}
    )
    assert [row["ends"] < later for row in status["certificates"]] == [True, False]
