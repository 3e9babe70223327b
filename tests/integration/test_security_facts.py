"""Facts about real brokers on which the rules about full stores and Jolokia are based."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from activemq_fleet.artifacts import fetch_and_unpack_distribution, java_executable, load_schema
from activemq_fleet.lab.stomp import StompConnection, StompTimeout
from activemq_fleet.lint import RuleSelection, file_findings
from activemq_fleet.releases import Release
from tests.integration.single_brokers import STOMP, BrokerSandbox, SandboxBroker, document, until
from tests.integration.waiting import PATIENCE
from tests.situations import fact_of_activemq, further

pytestmark = fact_of_activemq

MEGABYTE = "x" * (1 << 20)
RECEIPT_TIMEOUT = 4.0  # seconds: an idle machine sends a receipt in a tenth of a second


def accepted_messages(sandbox: BrokerSandbox, messages: int) -> int:
    """Return how many messages of a megabyte the broker accepts before a producer must wait."""
    with suppress(StompTimeout), StompConnection((sandbox.address(1), STOMP), timeout=RECEIPT_TIMEOUT) as producer:
        for accepted in range(messages):
            try:
                producer.send("/queue/full", MEGABYTE)
            except StompTimeout:
                return accepted
        return messages
    return 0


def fill_store(sandbox: BrokerSandbox, broker: SandboxBroker) -> int:
    """Send until the broker reports that its store is full; return how many messages of a megabyte it accepted."""
    accepted, deadline = 0, time.monotonic() + PATIENCE
    while "is Full" not in broker.output and time.monotonic() < deadline and accepted < 100:
        # On a busy machine, this call may also return after a receipt that took too long.
        accepted += accepted_messages(sandbox, 100 - accepted)
    return accepted


def drain(sandbox: BrokerSandbox) -> None:
    with StompConnection((sandbox.address(1), STOMP)) as consumer:
        consumer.subscribe("/queue/full", ack="auto")
        while consumer.receive(RECEIPT_TIMEOUT):
            pass


@pytest.mark.parametrize(
    ("release", "limit", "recovers"),
    [*further(("5.6.0", 16, False)), ("5.18.3", 16, False), *further(("5.18.3", 70, True))],
)
def test_drained_store_accepts_messages_only_if_limit_exceeds_journal_file(
    tmp_path: Path, sandbox: BrokerSandbox, release: str, limit: int, recovers: bool
) -> None:
    store = (
        f'<persistenceAdapter><kahaDB directory="{tmp_path}/kahadb" cleanupInterval="1000" checkpointInterval="500"/>'
        "</persistenceAdapter>"
    )
    limits = f'<storeUsage><storeUsage limit="{limit} mb"/></storeUsage>'
    usage = f"<systemUsage><systemUsage>{limits}</systemUsage></systemUsage>"
    activemq_xml = document("full", sandbox.address(1), store, usage)
    fires = bool(file_findings(activemq_xml.encode(), Release.of(release), selection=RuleSelection(select=("C007",))))
    assert fires is not recovers
    broker = sandbox.add_broker("full", release, activemq_xml)
    assert broker.boot().fate == "started", broker.output
    assert 0 < fill_store(sandbox, broker) < 100, broker.output
    drain(sandbox)
    # Wait for two cleanups: space is freed by whole files that are no longer written to.
    assert until(lambda: accepted_messages(sandbox, 1) == 1, PATIENCE if recovers else 3) is recovers, broker.output


PORTS = {"shipped": (21861, 21661), "denied": (21862, 21662)}
EXEC = "<command>read</command>", "<command>read</command><command>exec</command>"
DENY = (
    "<deny>",
    "<deny><mbean><name>org.apache.activemq:type=Broker,brokerName=*</name><operation>add*</operation></mbean>",
)


@contextmanager
def console(directory: Path, home: Path, name: str, policy: str) -> Iterator[int]:
    """Start a broker of the distribution with a separate console on loopback; yield the port of the console."""
    port, openwire = PORTS[name]
    conf = directory / name / "conf"
    shutil.copytree(home / "conf", conf)
    xml = re.sub(
        r"(<transportConnectors>).*?(</transportConnectors>)",
        rf'\1<transportConnector name="openwire" uri="tcp://127.0.0.1:{openwire}"/>\2',
        (conf / "activemq.xml").read_text(),
        flags=re.DOTALL,
    )
    (conf / "activemq.xml").write_text(xml)
    (conf / "jetty.xml").write_text((conf / "jetty.xml").read_text().replace("8161", str(port)))
    (conf / "jolokia-access.xml").write_text(policy)
    base = directory / name
    options = [f"-Dactivemq.{key}={value}" for key, value in {"home": home, "base": base, "conf": conf}.items()]
    options += [f"-Dactivemq.data={base}/data", f"-Djolokia.conf=file:{conf}/jolokia-access.xml", "-Xmx200m"]
    command = [
        str(java_executable(17)),
        *options,
        "-jar",
        f"{home}/bin/activemq.jar",
        "start",
        f"xbean:file:{conf}/activemq.xml",
    ]
    with (base / "console.log").open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            yield port
        finally:
            process.kill()


def logs(directory: Path) -> dict[str, str]:
    """Return the end of the output of each broker."""
    return {path.parent.name: path.read_text(errors="replace")[-3000:] for path in directory.glob("*/console.log")}


def call_broker_operation(port: int, operation: str) -> int:
    """Return the status that Jolokia reports for an operation of the broker's MBean; 0 without an answer."""
    url = f"http://127.0.0.1:{port}/api/jolokia/exec/org.apache.activemq:type=Broker,brokerName=localhost/{operation}"
    login = b64encode(b"admin:admin").decode()
    request = urllib.request.Request(
        url, headers={"Origin": f"http://localhost:{port}", "Authorization": f"Basic {login}"}
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as response:  # noqa: S310 -- http to loopback
            return int(json.load(response)["status"])
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def test_jolokia_applies_deny_only_to_listed_commands(tmp_path: Path) -> None:
    """Rule S007: addQueue represents the operations that add an object."""
    release = Release.of("5.18.3")
    home = fetch_and_unpack_distribution(release)
    assert home is not None
    shipped = (home / "conf" / "jolokia-access.xml").read_text().replace(*DENY, 1)
    policies = {"shipped": shipped, "denied": shipped.replace(*EXEC)}
    xml, jetty = ((home / "conf" / name).read_bytes() for name in ("activemq.xml", "jetty.xml"))
    fires = {
        name: bool(
            file_findings(
                xml,
                release,
                schema=load_schema(release),
                other_files={"jetty.xml": jetty, "jolokia-access.xml": policy.encode()},
                selection=RuleSelection(select=("S007",)),
            )
        )
        for name, policy in policies.items()
    }
    assert fires == {"shipped": True, "denied": False}
    with ExitStack() as stack:
        ports = {name: stack.enter_context(console(tmp_path, home, name, policy)) for name, policy in policies.items()}
        assert until(lambda: call_broker_operation(ports["shipped"], "addQueue/one") == 200, 180), logs(tmp_path)
        # 403 is Jolokia's status of a refusal. Before the console is up, there is no answer, or the status is 503.
        assert until(lambda: call_broker_operation(ports["denied"], "addQueue/one") == 403, 180), logs(tmp_path)
