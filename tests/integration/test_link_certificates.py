"""Links over TLS between real brokers: which end refuses which certificate, and what ``lab up`` and ``status`` say.

One broker dials others whose certificate is sound, has ended, names another host or is of another authority. Some of
them dial in their turn, as does a broker without a certificate.
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

from activemq_fleet.errors import LinksDownError
from activemq_fleet.lab.lab import Lab
from tests.integration.conftest import LabOf
from tests.integration.traffic import numbered_bodies, send_across
from tests.integration.waiting import PATIENCE, until
from tests.situations import further
from tests.support.lab_status import read_lab_status
from tests.unit.agent.certificates import DAY, Authority

PASSWORD = b"only-of-this-test"
LINKS = (
    ("hub", "sound"),
    ("sound", "hub"),
    ("hub", "ended"),
    ("hub", "misnamed"),
    ("hub", "foreign"),
    ("ended", "hub"),
    ("misnamed", "hub"),
    ("foreign", "sound"),
    ("bare", "sound"),
)
"""From which broker to which."""
NO_CERTIFICATE = "Empty client certificate chain"
UNKNOWN, ENDED = "unable to find valid certification path", "validity check failed"
MISNAMED = "No subject alternative DNS name matching misnamed-mq01-a.example.com found"
REFUSED = {
    ("hub", "ended"): ("hub", ENDED),
    ("hub", "foreign"): ("hub", UNKNOWN),
    ("ended", "hub"): ("hub", ENDED),
    ("foreign", "sound"): ("sound", NO_CERTIFICATE),  # Java shows none that the other end would not trust
    ("bare", "sound"): ("sound", NO_CERTIFICATE),
}
"""The links that no release lets up: which end refuses the other one, and its words."""
VERIFIED = {("hub", "misnamed"): ("hub", MISNAMED)}
"""What only releases refuse that compare the certificate's name with the host's (socket.verifyHostName)."""


def host(name: str) -> str:
    return f"{name}-mq01-a.example.com"


def tls_of(directory: Path, certificate: Path, trusted: Authority) -> dict[str, Any]:
    """``activemq_tls`` with stores of a certificate, whose file also has its key, and of the authority to trust."""
    pem, protection = certificate.read_bytes(), serialization.BestAvailableEncryption(PASSWORD)
    key = serialization.load_pem_private_key(pem, None)
    shown = x509.load_pem_x509_certificate(pem[pem.index(b"-----BEGIN CERTIFICATE") :])
    stores = {name: directory / f"{certificate.stem}.{name}" for name in ("keystore", "truststore")}
    stores["keystore"].write_bytes(
        pkcs12.serialize_key_and_certificates(b"broker", key, shown, None, protection)  # type: ignore[arg-type]
    )
    authority = pkcs12.PKCS12Certificate(x509.load_pem_x509_certificate(trusted.ca.read_bytes()), b"authority")
    stores["truststore"].write_bytes(pkcs12.serialize_java_truststore([authority], protection))
    passwords = dict.fromkeys(("keystore_password", "truststore_password"), PASSWORD.decode())
    return {name: str(path) for name, path in stores.items()} | passwords | {"client_auth": True}


def inventory(directory: Path, release: str) -> Path:
    ours, theirs = Authority(directory, "ours"), Authority(directory, "theirs")
    certificates = {
        "hub": ours.certificate(host("hub")),
        "sound": ours.certificate(host("sound")),
        "ended": ours.certificate(host("ended"), ends=-DAY),
        "misnamed": ours.certificate("elsewhere.example.com"),
        "foreign": theirs.certificate(host("foreign")),
    }
    hosts: dict[str, dict[str, Any]] = {
        host(name): {"activemq_tls": tls_of(directory, file, ours)} for name, file in certificates.items()
    }
    stores = hosts[host("hub")]["activemq_tls"]
    trusting = {"trustStore": stores["truststore"], "trustStorePassword": PASSWORD.decode()}
    hosts[host("bare")] = {
        "activemq_java_options": [f"-Djavax.net.ssl.{name}={value}" for name, value in trusting.items()]
    }
    stomp = {"name": "stomp", "scheme": "stomp", "port": 61613, "tls": False}
    common = {
        "activemq_release": release,
        "activemq_ha": "none",
        "activemq_topology": "none",
        "activemq_connectors": [{"name": "openwire", "scheme": "nio", "port": 61616}, stomp],
        "activemq_network_username": "net",
        "activemq_network_password": "a secret",
        "activemq_links": [{"from": one, "to": other} for one, other in LINKS],
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
    source = inventory(tmp_path, release)
    refused = REFUSED | (VERIFIED if verifies else {})

    checked = subprocess.run(
        [sys.executable, "-m", "activemq_fleet", "check", "-i", str(source)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.stdout.count("N045") == 1, checked.stdout  # stores are files of the hosts: it sees who has none
    assert "link bare-mq01-a-to-sound-mq01-a cannot connect" in checked.stdout

    lab = lab_of(source)
    with pytest.raises(LinksDownError) as raised:
        lab.up()
    lines = raised.value.lines
    print("\n".join(lines))
    for (one, other), (who, why) in refused.items():
        (line,) = [line for line in lines if f"{host(one)}: link {one}-mq01-a-to-{other}-mq01-a " in line]
        assert f"the log of {host(who)} reports: " in line
        assert why in line
    assert len(lines) == len(refused)

    for broker in lab.fleet.brokers:  # up has ended them
        lab.start(broker.host, wait=False)
    expected = {link: "down" if link in refused else "up" for link in LINKS}
    until(lambda: links(lab) == expected, PATIENCE, lambda: f"{expected}, and not {links(lab)}")
    reported_rules = {(finding.rule, finding.host) for finding in read_lab_status(lab).findings}
    assert {name for rule, name in reported_rules if rule == "bridge-down"} == {host(label) for label, _ in refused}
    assert ("certificate-ended", host("ended")) in reported_rules

    assert send_across(lab, host("hub"), host("sound"), "carried") == set(numbered_bodies("carried", 20))
    if verifies:
        dial_without_comparing_names(lab)
        expected |= dict.fromkeys(VERIFIED, "up")
        until(lambda: links(lab) == expected, PATIENCE, lambda: f"{expected}, and not {links(lab)}")


def dial_without_comparing_names(lab: Lab) -> None:
    """Let the first broker take the misnamed one's certificate, by the option of the URI that it dials."""
    lab.stop(host("hub"))
    file = lab.directory / "hosts" / host("hub") / "activemq/current/conf/activemq.xml"
    text, dialled = file.read_text(), f"ssl://{host('misnamed')}:61616"
    assert dialled in text
    file.write_text(text.replace(dialled, f"{dialled}?socket.verifyHostName=false"))
    lab.start(host("hub"))


def links(lab: Lab) -> dict[tuple[str, str], str]:
    """The state of each link, by the two names of its ends."""
    return {
        (row.host.partition("-")[0], link.to[0].partition("-")[0]): link.state
        for row in read_lab_status(lab).brokers
        for link in row.links
    }
