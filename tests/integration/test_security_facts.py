"""What the rules about full stores and Jolokia rest on, seen on real brokers."""

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
from tests.integration.planted import STOMP, Ground, Planted, document, until
from tests.integration.waiting import PATIENCE
from tests.situations import fact_of_activemq, further

pytestmark = fact_of_activemq

MEGABYTE = "x" * (1 << 20)
SILENCE = 4.0  # seconds without a receipt: an idle machine gives one in a tenth of a second


def accepts(ground: Ground, messages: int) -> int:
    """How many messages of a megabyte the broker takes before a producer has to wait."""
    with suppress(StompTimeout), StompConnection((ground.address(1), STOMP), timeout=SILENCE) as producer:
        for taken in range(messages):
            try:
                producer.send("/queue/full", MEGABYTE)
            except StompTimeout:
                return taken
        return messages
    return 0


def fill(ground: Ground, broker: Planted) -> int:
    """Send until the broker says that its store is full; returns how many messages of a megabyte it took."""
    taken, deadline = 0, time.monotonic() + PATIENCE
    while "is Full" not in broker.output and time.monotonic() < deadline and taken < 100:
        taken += accepts(ground, 100 - taken)  # it ends as well where a busy machine keeps silent for a while
    return taken


def drain(ground: Ground) -> None:
    with StompConnection((ground.address(1), STOMP)) as consumer:
        consumer.subscribe("/queue/full", ack="auto")
        while consumer.receive(SILENCE):
            pass


@pytest.mark.parametrize(
    ("release", "limit", "comes_back"),
    [*further(("5.6.0", 16, False)), ("5.18.3", 16, False), *further(("5.18.3", 70, True))],
)
def test_a_store_below_one_journal_file_fills_up_once_and_for_all(
    tmp_path: Path, ground: Ground, release: str, limit: int, comes_back: bool
) -> None:
    store = (
        f'<persistenceAdapter><kahaDB directory="{tmp_path}/kahadb" cleanupInterval="1000" checkpointInterval="500"/>'
        "</persistenceAdapter>"
    )
    limits = f'<storeUsage><storeUsage limit="{limit} mb"/></storeUsage>'
    usage = f"<systemUsage><systemUsage>{limits}</systemUsage></systemUsage>"
    text = document("full", ground.address(1), store, usage)
    fires = bool(file_findings(text.encode(), Release.of(release), selection=RuleSelection(select=("C007",))))
    assert fires is not comes_back
    broker = ground.plant("full", release, text)
    assert broker.boot().fate == "started", broker.output
    assert 0 < fill(ground, broker) < 100, broker.output
    drain(ground)
    # Two clean-ups later: space comes back by whole files that are not written to any more.
    assert until(lambda: accepts(ground, 1) == 1, PATIENCE if comes_back else 3) is comes_back, broker.output


PORTS = {"shipped": (21861, 21661), "denied": (21862, 21662)}
EXEC = "<command>read</command>", "<command>read</command><command>exec</command>"
DENY = (
    "<deny>",
    "<deny><mbean><name>org.apache.activemq:type=Broker,brokerName=*</name><operation>add*</operation></mbean>",
)


@contextmanager
def console(directory: Path, home: Path, name: str, policy: str) -> Iterator[int]:
    """A broker of the distribution with its own console on loopback; yields the console's port."""
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
    """The end of what the brokers printed."""
    return {path.parent.name: path.read_text(errors="replace")[-3000:] for path in directory.glob("*/console.log")}


def call(port: int, operation: str) -> int:
    """What Jolokia answers to an operation of the broker's MBean; 0 where nobody answers."""
    url = f"http://127.0.0.1:{port}/api/jolokia/exec/org.apache.activemq:type=Broker,brokerName=localhost/{operation}"
    login = b64encode(b"admin:admin").decode()
    request = urllib.request.Request(
        url, headers={"Origin": f"http://localhost:{port}", "Authorization": f"Basic {login}"}
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 -- http to loopback
            return int(json.load(answer)["status"])
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def test_jolokia_asks_a_deny_only_for_commands_that_are_listed(tmp_path: Path) -> None:
    """Rule S007: addQueue stands for the operations that add something."""
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
        assert until(lambda: call(ports["shipped"], "addQueue/one") == 200, 180), logs(tmp_path)
        # Jolokia's own status of a refusal; before the console is up nobody answers, or 503 does.
        assert until(lambda: call(ports["denied"], "addQueue/one") == 403, 180), logs(tmp_path)
