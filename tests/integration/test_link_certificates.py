"""Links over TLS between real brokers: rejected certificates by end, and the reports of ``lab up`` and ``status``.

A broker connects to others whose certificate is valid, has expired, names another host or is from another authority.
Some of them connect to other brokers, as does a broker without a certificate.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from activemq_fleet.errors import LabLinksDownError
from activemq_fleet.lab.lab import Lab
from tests.integration.conftest import LabOf
from tests.integration.traffic import numbered_bodies, send_across
from tests.integration.waiting import PATIENCE, until
from tests.situations import further
from tests.support.lab_status import read_lab_status
from tests.unit.agent.certificates import DAY, Authority

PASSWORD = b"only-of-this-test"
LINKS = (
    ("hub", "valid"),
    ("valid", "hub"),
    ("hub", "expired"),
    ("hub", "misnamed"),
    ("hub", "foreign"),
    ("expired", "hub"),
    ("misnamed", "hub"),
    ("foreign", "valid"),
    ("bare", "valid"),
)
"""Source and target broker of each link."""
NO_CERTIFICATE = "Empty client certificate chain"
UNKNOWN, EXPIRED = "unable to find valid certification path", "validity check failed"
MISNAMED = "No subject alternative DNS name matching misnamed-mq01-a.example.com found"
REFUSED = {
    ("hub", "expired"): ("hub", EXPIRED),
    ("hub", "foreign"): ("hub", UNKNOWN),
    ("expired", "hub"): ("hub", EXPIRED),
    # Java does not send a certificate that the other end would not trust.
    ("foreign", "valid"): ("valid", NO_CERTIFICATE),
    ("bare", "valid"): ("valid", NO_CERTIFICATE),
}
"""Links that no release establishes: the end that rejects the other one, and the text in its log."""
VERIFIED = {("hub", "misnamed"): ("hub", MISNAMED)}
"""Links that only releases reject that compare the certificate's name with the host's (socket.verifyHostName)."""


def host(name: str) -> str:
    return f"{name}-mq01-a.example.com"


def create_tls_settings(directory: Path, certificate: Path, trusted: Authority) -> dict[str, Any]:
    """Create the stores of a certificate and key in one file, and of the trusted authority; return ``activemq_tls``."""
    pem, protection = certificate.read_bytes(), serialization.BestAvailableEncryption(PASSWORD)
    key = serialization.load_pem_private_key(pem, None)
    presented = x509.load_pem_x509_certificate(pem[pem.index(b"-----BEGIN CERTIFICATE") :])
    stores = {name: directory / f"{certificate.stem}.{name}" for name in ("keystore", "truststore")}
    stores["keystore"].write_bytes(
        pkcs12.serialize_key_and_certificates(b"broker", key, presented, None, protection)  # type: ignore[arg-type]
    )
    authority = pkcs12.PKCS12Certificate(x509.load_pem_x509_certificate(trusted.ca.read_bytes()), b"authority")
    stores["truststore"].write_bytes(pkcs12.serialize_java_truststore([authority], protection))
    passwords = dict.fromkeys(("keystore_password", "truststore_password"), PASSWORD.decode())
    return {name: str(path) for name, path in stores.items()} | passwords | {"client_auth": True}


def write_tls_inventory(directory: Path, release: str) -> Path:
    ours, theirs = Authority(directory, "ours"), Authority(directory, "theirs")
    certificates = {
        "hub": ours.certificate(host("hub")),
        "valid": ours.certificate(host("valid")),
        "expired": ours.certificate(host("expired"), ends=-DAY),
        "misnamed": ours.certificate("elsewhere.example.com"),
        "foreign": theirs.certificate(host("foreign")),
    }
    hosts: dict[str, dict[str, Any]] = {
        host(name): {"activemq_tls": create_tls_settings(directory, file, ours)} for name, file in certificates.items()
    }
    stores = hosts[host("hub")]["activemq_tls"]
    trust_store = {"trustStore": stores["truststore"], "trustStorePassword": PASSWORD.decode()}
    hosts[host("bare")] = {
        "activemq_java_options": [f"-Djavax.net.ssl.{name}={value}" for name, value in trust_store.items()]
    }
    stomp = {"name": "stomp", "scheme": "stomp", "port": 61613, "tls": False}
    common = {
        "activemq_release": release,
        "activemq_ha": "none",
        "activemq_topology": "none",
        "activemq_connectors": [{"name": "openwire", "scheme": "nio", "port": 61616}, stomp],
        "activemq_network_username": "net",
        "activemq_network_password": "a secret",
        "activemq_links": [{"from": source, "to": target} for source, target in LINKS],
    }
    path = directory / "hosts.yml"
    path.write_text(json.dumps({"all": {"hosts": hosts, "vars": common}}))
    return path


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("release", "verifies"),
    further(
        *((release, True) for release in ("6.3.1", "5.18.3", "5.15.16")),
        *((release, False) for release in ("5.11.4", "5.8.0", "5.5.1")),
    ),
)
def test_wrong_certificate_of_link_is_refused_and_named_by_refusing_end(
    tmp_path: Path, lab_of: LabOf, release: str, verifies: bool
) -> None:
    inventory = write_tls_inventory(tmp_path, release)
    refused = REFUSED | (VERIFIED if verifies else {})

    completed = subprocess.run(
        [sys.executable, "-m", "activemq_fleet", "check", "-i", str(inventory)],
        capture_output=True,
        text=True,
        check=False,
    )
    # The stores are files on the hosts, so the check detects only missing settings.
    assert completed.stdout.count("N045") == 1, completed.stdout
    assert "link bare-mq01-a-to-valid-mq01-a cannot connect" in completed.stdout

    lab = lab_of(inventory)
    with pytest.raises(LabLinksDownError) as raised:
        lab.up()
    lines = raised.value.lines
    print("\n".join(lines))
    for (source, target), (rejecting_end, reason) in refused.items():
        (line,) = [line for line in lines if f"{host(source)}: link {source}-mq01-a-to-{target}-mq01-a " in line]
        assert f"the log of {host(rejecting_end)} reports: " in line
        assert reason in line
    assert len(lines) == len(refused)

    for broker in lab.fleet.brokers:  # lab up has stopped them
        lab.start(broker.host, wait=False)
    expected = {link: "down" if link in refused else "up" for link in LINKS}
    until(
        lambda: link_states(lab) == expected,
        PATIENCE,
        lambda: f"the states of the links are {expected}, not {link_states(lab)}",
    )
    reported_rules = {(finding.rule, finding.host) for finding in read_lab_status(lab).findings}
    assert {name for rule, name in reported_rules if rule == "bridge-down"} == {host(label) for label, _ in refused}
    assert ("certificate-ended", host("expired")) in reported_rules

    assert send_across(lab, host("hub"), host("valid"), "carried") == set(numbered_bodies("carried", 20))
    if verifies:
        disable_host_name_verification(lab)
        expected |= dict.fromkeys(VERIFIED, "up")
        until(
            lambda: link_states(lab) == expected,
            PATIENCE,
            lambda: f"the states of the links are {expected}, not {link_states(lab)}",
        )


def disable_host_name_verification(lab: Lab) -> None:
    """Make the first broker accept the certificate of the misnamed one with an option in the URI of its link."""
    lab.stop(host("hub"))
    file = lab.directory / "hosts" / host("hub") / "activemq/current/conf/activemq.xml"
    activemq_xml, uri = file.read_text(), f"ssl://{host('misnamed')}:61616"
    assert uri in activemq_xml
    file.write_text(activemq_xml.replace(uri, f"{uri}?socket.verifyHostName=false"))
    lab.start(host("hub"))


def link_states(lab: Lab) -> dict[tuple[str, str], str]:
    """Return the state of each link by the names of its two ends."""
    return {
        (row.host.partition("-")[0], link.to[0].partition("-")[0]): link.state
        for row in read_lab_status(lab).brokers
        for link in row.links
    }
