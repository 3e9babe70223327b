"""Labs whose brokers ask for certificates: links that are let in and links that are not, and a drill. Real TLS."""

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
    """``activemq_tls`` of brokers that ask for a certificate: one key for all of them, which all trust."""
    key, trust, certificate = tmp_path / "key.p12", tmp_path / "trust.p12", tmp_path / "broker.der"

    def keytool(*words: str, store: Path) -> None:
        own = ("-alias", "broker", "-storetype", "PKCS12", "-keystore", str(store), "-storepass", PASSWORD)
        subprocess.run(["keytool", *words, *own], check=True, capture_output=True)

    names = ",".join(f"dns:{host}" for host in (*NORTH, *SOUTH))
    keytool("-genkeypair", "-keyalg", "RSA", "-dname", "CN=broker", "-ext", f"SAN={names}", store=key)
    keytool("-exportcert", "-file", str(certificate), store=key)
    keytool("-importcert", "-noprompt", "-file", str(certificate), store=trust)
    stores = {"keystore": str(key), "truststore": str(trust), "client_auth": True}
    return stores | {"keystore_password": PASSWORD, "truststore_password": PASSWORD}


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """The lab's directory; none of its processes is left."""
    yield tmp_path / "lab"
    activemq_fleet("lab", "down", "-i", str(tmp_path / "hosts.yml"), "--dir", str(tmp_path / "lab"))
    assert not processes_of(tmp_path / "lab")


def inventory(directory: Path, tls_of: dict[str, dict[str, Any]]) -> Path:
    """Two pairs, of which north links to south; ``tls_of`` a pair's first label."""
    common = {
        "activemq_release": "5.18.3",
        "activemq_network_username": "net",
        "activemq_network_password": "a secret",
        "activemq_links": [{"from": "north", "to": "south"}],
    }
    hosts = {host: tls_of.get(host.partition("-")[0], {}) for host in (*NORTH, *SOUTH)}
    path = directory / "hosts.yml"
    path.write_text(json.dumps({"all": {"vars": common, "hosts": hosts}}))
    return path


@in_every_situation
def test_a_link_that_is_not_let_in_fails_lab_up_with_the_brokers_own_reason(
    tmp_path: Path, tls: dict[str, Any], directory: Path
) -> None:
    trusting = [f"-Djavax.net.ssl.trustStore={tls['truststore']}", f"-Djavax.net.ssl.trustStorePassword={PASSWORD}"]
    hosts = inventory(tmp_path, {"south": {"activemq_tls": tls}, "north": {"activemq_java_options": trusting}})

    checked = activemq_fleet("check", "-i", str(hosts))
    assert checked.returncode == 1
    assert re.search(r"error N045 \S+ link north-mq01-to-south-mq01 cannot connect", checked.stdout)
    assert "N046" not in checked.stdout  # it has a trust store

    up = activemq_fleet("lab", "up", "-i", str(hosts), "--dir", str(directory))
    assert up.returncode == 1
    (line,) = [line for line in up.stderr.splitlines() if line.startswith("activemq-fleet: error: ")]
    assert f"{NORTH[0]}: link north-mq01-to-south-mq01 to {SOUTH[0]} is not up: the log of {SOUTH[0]} reports: " in line
    assert "Empty client certificate chain" in line


@in_every_situation
def test_the_same_link_with_a_certificate_comes_up(tmp_path: Path, tls: dict[str, Any], directory: Path) -> None:
    hosts = inventory(tmp_path, {name: {"activemq_tls": tls} for name in ("north", "south")})
    assert "N045" not in activemq_fleet("check", "-i", str(hosts)).stdout

    up = activemq_fleet("lab", "up", "-i", str(hosts), "--dir", str(directory), "--format", "json")
    assert up.returncode == 0, up.stderr
    bridges = {host["host"]: host["bridges"] for host in json.loads(up.stdout)}
    assert bridges[NORTH[0]] == ["south-mq01"]


@in_every_situation
def test_a_pair_that_asks_for_certificates_is_drilled_with_those_of_an_agent(
    tmp_path: Path, tls: dict[str, Any], directory: Path
) -> None:
    """The certificates name the hosts, and the lab's brokers listen on loopback addresses."""
    key, certificate, _ = pkcs12.load_key_and_certificates(Path(tls["keystore"]).read_bytes(), PASSWORD.encode())
    assert key
    assert certificate
    shown, trusted = tmp_path / "key.pem", tmp_path / "broker.pem"
    shown.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    shown.chmod(0o600)
    trusted.write_bytes(certificate.public_bytes(Encoding.PEM))
    hosts = inventory(tmp_path, {name: {"activemq_tls": tls} for name in ("north", "south")})
    content = json.loads(hosts.read_text())
    agent = {
        "activemq_agent_username": "till", "activemq_agent_password": "of-the-till",
        "activemq_agent_topics": ["till/#"], "activemq_agent_group": "south", "activemq_agent_tls_ca": str(trusted),
        "activemq_agent_tls_certificate": str(trusted), "activemq_agent_tls_key": str(shown),
    }  # fmt: skip
    content["all"]["children"] = {"activemq_agents": {"hosts": {"till-1.example.com": agent}}}
    hosts.write_text(json.dumps(content))

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
