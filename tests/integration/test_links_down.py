"""Labs whose brokers require certificates, with real TLS: accepted links, rejected links, and a drill."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12

from tests.integration.labs import pair, processes_of
from tests.situations import in_every_situation

NORTH, SOUTH = pair("north"), pair("south")
PASSWORD = "only-of-this-test"


def activemq_fleet(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "activemq_fleet", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)


@pytest.fixture
def tls(tmp_path: Path) -> dict[str, Any]:
    """Return ``activemq_tls`` of brokers that require a certificate: they all use and trust the same key."""
    key, trust, certificate = tmp_path / "key.p12", tmp_path / "trust.p12", tmp_path / "broker.der"

    def keytool(*words: str, store: Path) -> None:
        options = ("-alias", "broker", "-storetype", "PKCS12", "-keystore", str(store), "-storepass", PASSWORD)
        subprocess.run(["keytool", *words, *options], check=True, capture_output=True)

    names = ",".join(f"dns:{host}" for host in (*NORTH, *SOUTH))
    keytool("-genkeypair", "-keyalg", "RSA", "-dname", "CN=broker", "-ext", f"SAN={names}", store=key)
    keytool("-exportcert", "-file", str(certificate), store=key)
    keytool("-importcert", "-noprompt", "-file", str(certificate), store=trust)
    stores = {"keystore": str(key), "truststore": str(trust), "client_auth": True}
    return stores | {"keystore_password": PASSWORD, "truststore_password": PASSWORD}


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """Yield the lab's directory; afterwards, stop the lab and check that no process remains."""
    yield tmp_path / "lab"
    activemq_fleet("lab", "down", "-i", str(tmp_path / "hosts.yml"), "--dir", str(tmp_path / "lab"))
    assert not processes_of(tmp_path / "lab")


def write_linked_inventory(directory: Path, tls_by_pair: dict[str, dict[str, Any]]) -> Path:
    """Write two pairs with a link from north to south; ``tls_by_pair`` has variables by the first label of a pair."""
    common = {
        "activemq_release": "5.18.3",
        "activemq_network_username": "net",
        "activemq_network_password": "a secret",
        "activemq_links": [{"from": "north", "to": "south"}],
    }
    hosts = {host: tls_by_pair.get(host.partition("-")[0], {}) for host in (*NORTH, *SOUTH)}
    path = directory / "hosts.yml"
    path.write_text(json.dumps({"all": {"vars": common, "hosts": hosts}}))
    return path


@in_every_situation
def test_lab_up_fails_with_reason_of_broker_that_rejects_link(
    tmp_path: Path, tls: dict[str, Any], directory: Path
) -> None:
    trust_options = [
        f"-Djavax.net.ssl.trustStore={tls['truststore']}",
        f"-Djavax.net.ssl.trustStorePassword={PASSWORD}",
    ]
    hosts = write_linked_inventory(
        tmp_path, {"south": {"activemq_tls": tls}, "north": {"activemq_java_options": trust_options}}
    )

    completed = activemq_fleet("check", "-i", str(hosts))
    assert completed.returncode == 1
    assert re.search(r"error N045 \S+ link north-mq01-to-south-mq01 cannot connect", completed.stdout)
    assert "N046" not in completed.stdout  # north has a trust store

    up = activemq_fleet("lab", "up", "-i", str(hosts), "--dir", str(directory))
    assert up.returncode == 1
    (line,) = [line for line in up.stderr.splitlines() if line.startswith("activemq-fleet: error: ")]
    assert f"{NORTH[0]}: link north-mq01-to-south-mq01 to {SOUTH[0]} is not up: the log of {SOUTH[0]} reports: " in line
    assert "Empty client certificate chain" in line


@in_every_situation
def test_link_with_certificate_is_established(tmp_path: Path, tls: dict[str, Any], directory: Path) -> None:
    hosts = write_linked_inventory(tmp_path, {name: {"activemq_tls": tls} for name in ("north", "south")})
    assert "N045" not in activemq_fleet("check", "-i", str(hosts)).stdout

    up = activemq_fleet("lab", "up", "-i", str(hosts), "--dir", str(directory), "--format", "json")
    assert up.returncode == 0, up.stderr
    bridges = {host["host"]: host["bridges"] for host in json.loads(up.stdout)}
    assert bridges[NORTH[0]] == ["south-mq01"]


@in_every_situation
def test_drill_of_pair_that_requires_certificates_uses_those_of_agent(
    tmp_path: Path, tls: dict[str, Any], directory: Path
) -> None:
    """The certificates name the hosts, and the lab's brokers listen on loopback addresses."""
    key, certificate, _ = pkcs12.load_key_and_certificates(Path(tls["keystore"]).read_bytes(), PASSWORD.encode())
    assert key
    assert certificate
    key_file, certificate_file = tmp_path / "key.pem", tmp_path / "broker.pem"
    key_file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    key_file.chmod(0o600)
    certificate_file.write_bytes(certificate.public_bytes(Encoding.PEM))
    hosts = write_linked_inventory(tmp_path, {name: {"activemq_tls": tls} for name in ("north", "south")})
    inventory_data = json.loads(hosts.read_text())
    agent = {
        "activemq_agent_username": "till", "activemq_agent_password": "of-the-till",
        "activemq_agent_topics": ["till/#"], "activemq_agent_group": "south",
        "activemq_agent_tls_ca": str(certificate_file), "activemq_agent_tls_certificate": str(certificate_file),
        "activemq_agent_tls_key": str(key_file),
    }  # fmt: skip
    inventory_data["all"]["children"] = {"activemq_agents": {"hosts": {"till-1.example.com": agent}}}
    hosts.write_text(json.dumps(inventory_data))

    drilled = activemq_fleet(
        "lab", "drill", "-i", str(hosts), "--dir", str(directory), "--target", "south", "--kills", "1", "--rate", "20"
    )
    assert drilled.returncode == 0, drilled.stderr
    assert drilled.stdout.startswith("Nothing was lost: 1 fault, ")
    lines = drilled.stderr.splitlines()
    (position,) = [position for position, line in enumerate(lines) if line.startswith("fault 1 of 1: kill ")]
    host = lines[position].split()[5].rstrip(":")
    assert " took over after " in lines[position]
    assert lines[position + 1].startswith(f"{host} is standby (")
