"""Metrics over HTTPS with a real keystore, on real brokers of three release lines."""

from __future__ import annotations

import ssl
import subprocess
import urllib.error
import urllib.request
from base64 import b64encode
from pathlib import Path

import pytest

from activemq_fleet.lab.lab import Lab
from tests.integration.conftest import LabOf
from tests.integration.labs import write_inventory
from tests.integration.monitored import LOGIN, SECRET, further, has_prometheus, make_key, query_prometheus
from tests.integration.waiting import until

__all__ = ["has_prometheus"]
RELEASES = {"5.5.1": "old-mq01-a", "5.18.3": "mid-mq01-a", "6.3.1": "new-mq01-a"}


@further
def test_metrics_over_tls_are_scraped_and_require_login_and_ca(tmp_path: Path, lab_of: LabOf) -> None:
    lab = start_lab_with_metrics_tls(lab_of, tmp_path)
    all_up = 'count(up{job="activemq-brokers"} == 1) == 3'
    until(
        lambda: query_prometheus(lab, all_up),
        60,
        lambda: f"Prometheus scrapes all brokers: {query_prometheus(lab, 'up')}",
    )
    trusted = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
    login = {"Authorization": "Basic " + b64encode(f"{LOGIN}:{SECRET}".encode()).decode()}
    for broker in lab.fleet.brokers:
        address = f"{broker.settings.metrics_bind}:{broker.ports['metrics']}/metrics"
        assert "activemq_broker_messages" in fetch(f"https://{address}", login, trusted)
        with pytest.raises(urllib.error.HTTPError, match="401"):
            fetch(f"https://{address}", {}, trusted)
        wrong_login = {"Authorization": "Basic " + b64encode(f"{LOGIN}:wrong".encode()).decode()}
        with pytest.raises(urllib.error.HTTPError, match="401"):
            fetch(f"https://{address}", wrong_login, trusted)
        with pytest.raises(OSError, match=r"CERTIFICATE_VERIFY_FAILED"):
            fetch(f"https://{address}", login, ssl.create_default_context())
        with pytest.raises(OSError):  # noqa: PT011 -- the error of a broken connection varies
            fetch(f"http://{address}", login, None)


def start_lab_with_metrics_tls(lab_of: LabOf, directory: Path) -> Lab:
    """Start a lab whose brokers have metrics over TLS, with the same key for all their addresses."""
    key, ca_file = directory / "metrics.p12", directory / "ca.pem"
    key.touch()  # a lab keeps the TLS settings if the keystore is on this machine
    inventory = write_inventory(
        directory / "inventory",
        [f"{name}.example.com" for name in RELEASES.values()],
        ha="none",
        metrics_username=LOGIN,
        metrics_password=SECRET,
        metrics_tls={"keystore": str(key), "keystore_password": "changeit", "alias": "broker", "ca_file": str(ca_file)},
    )
    for release, name in RELEASES.items():
        variables = inventory.parent / "host_vars" / f"{name}.example.com.yml"
        variables.parent.mkdir(exist_ok=True)
        variables.write_text(f"activemq_release: {release}\n")
    lab = lab_of(inventory)
    lab.prepare(prometheus=True)
    addresses = [broker.settings.metrics_bind for broker in lab.fleet.brokers]
    make_key(key, days=30, names=[f"ip:{address}" for address in addresses])
    command = ["keytool", "-exportcert", "-rfc", "-alias", "broker", "-keystore", str(key), "-storepass", "changeit"]
    ca_file.write_bytes(subprocess.run(command, check=True, capture_output=True).stdout)
    lab.up(prometheus=True)
    return lab


def fetch(url: str, headers: dict[str, str], context: ssl.SSLContext | None) -> str:
    """Return the content of a URL; raise OSError, such as HTTPError, on failure."""
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 -- an address of the lab
    with urllib.request.urlopen(request, timeout=20, context=context) as response:  # noqa: S310
        return str(response.read().decode())
