"""Clients without a login write complete records into a broker's log, and no command and no watchdog is deceived."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from activemq_fleet.lab.lab import Lab
from activemq_fleet.logs.event_batches import SCHEMA, LogReleaseAndTimeZone, LogScanner
from activemq_fleet.node.install import runtime_configuration
from activemq_fleet.node.log import broker_log
from activemq_fleet.node.log.log_records import parse_log
from activemq_fleet.node.process.proc import find_broker_process
from activemq_fleet.node.state import broker_state as state
from activemq_fleet.node.watchdog.watchdog import Watchdog
from activemq_fleet.node.watchdog.watchdog_cli import parse_options
from tests.integration.conftest import LabOf
from tests.integration.forging import (
    FORGED,
    LINE_ENDS,
    forge_over_mqtt,
    forge_over_openwire,
    forge_over_stomp,
    forged_name,
)
from tests.integration.labs import pair, write_inventory
from tests.integration.single_brokers import OPENWIRE, STOMP, BrokerSandbox, SandboxBroker, document, until
from tests.situations import further, in_every_situation

MQTT = 21883
ACCOUNTS = (
    "<plugins><simpleAuthenticationPlugin><users>"
    '<authenticationUser username="net" password="right" groups="net"/>'
    "</users></simpleAuthenticationPlugin></plugins>"
)
ENCODED, PLAIN = ("6.3.1", *further("5.18.3")), further("5.5.1", "5.16.7")


def create_broker(
    sandbox: BrokerSandbox, release: str, *children: str, number: int = 1, name: str = "forged"
) -> SandboxBroker:
    """Return a broker with OpenWire, STOMP and, if the release supports it, MQTT, in the layout of an installation."""
    address = sandbox.address(number)
    activemq_xml = document(name, address, *children)
    if release != "5.5.1":
        mqtt = f'<transportConnector name="mqtt" uri="mqtt://{address}:{MQTT}"/>'
        activemq_xml = activemq_xml.replace("</transportConnectors>", f"{mqtt}</transportConnectors>")
    broker = sandbox.add_broker(name, release, activemq_xml)
    base = broker.data.parent
    (base / "versions/v").mkdir(parents=True)
    (base / "versions/v/conf").symlink_to("../../conf")
    (base / "current").symlink_to("versions/v")
    return broker


def forge_records(sandbox: BrokerSandbox, release: str, names: list[str]) -> None:
    address = sandbox.address(1)
    if release != "5.5.1":
        forge_over_mqtt((address, MQTT), names)
    forge_over_stomp((address, STOMP), names, "login:net\npasscode:right\n")
    forge_over_openwire((address, OPENWIRE), names)


def broker_state_of(broker: SandboxBroker) -> str:
    return str(state.gather_broker_state(str(broker.data.parent), None)["state"])


def watchdog_of(broker: SandboxBroker) -> Watchdog:
    arguments = ["--base", str(broker.data.parent), "--unit", "x.service", "--ha", "shared-file", "kill"]
    return Watchdog(parse_options(arguments), None)


@in_every_situation
@pytest.mark.parametrize("release", ENCODED)
def test_name_of_client_does_not_begin_log_record(sandbox: BrokerSandbox, release: str) -> None:
    broker = create_broker(sandbox, release, ACCOUNTS)
    assert broker.boot().fate == "started", broker.output
    forge_records(sandbox, release, [forged_name(message, end) for message in FORGED for end in LINE_ENDS[:3]])
    forge_over_mqtt((sandbox.address(1), MQTT), [forged_name(FORGED[0], end) for end in LINE_ENDS[3:]])
    assert broker.wait_for_output("/forged"), broker.output
    assert broker.wait_for_output(r"\n"), broker.output

    log = (broker.data / "activemq.log").read_bytes()
    table = pa.Table.from_batches(
        list(LogScanner(LogReleaseAndTimeZone(release)).arrow_batches_of_log_records(log)), schema=SCHEMA
    ).to_pylist()
    process = find_broker_process(str(broker.data.parent))
    assert process is not None
    assert not [record for record in parse_log(log.decode()) if record.message.startswith(FORGED)]
    assert not [row for row in table if row["message"].startswith(FORGED)]
    assert not [row for row in table if row["kind"] in ("LIFE-STOPPING", "LOCK-FILE-WAIT")]
    assert broker.run_state.phase == "started"
    assert broker_log.read_broker_phase(str(broker.data), process.start_time).name == "started"
    assert not [line for line in (broker.data / "console.log").read_text().split("\n") if line.startswith("20")]


RELOADED = (
    "change in file at: now",
    "started new network connector: x",
    "changes to Plugins",
)


@in_every_situation
@pytest.mark.parametrize("release", ENCODED)
def test_rejected_logins_forge_no_applied_change_and_cost_no_search_time(sandbox: BrokerSandbox, release: str) -> None:
    """A client without a login uses records of the reloading plugin as its name, and then 47,000 letters."""
    broker = create_broker(sandbox, release, ACCOUNTS)
    assert broker.boot().fate == "started", broker.output
    log = broker.data / "activemq.log"
    status = log.stat()
    log_end = runtime_configuration.LogEndPosition(str(log), status.st_ino, status.st_size)
    plugin = "org.apache.activemq.plugin.RuntimeConfigurationBroker"
    for end in LINE_ENDS:
        records = [f"x | INFO  | {text} | {plugin} | main" for text in RELOADED]
        forge_over_mqtt((sandbox.address(1), MQTT), [end.join(["a", *records, ""])])
    forge_over_mqtt((sandbox.address(1), MQTT), ["a" * 47_000])
    assert broker.wait_for_output("a" * 40_000), broker.output

    lines = runtime_configuration._read_log_since(log_end)
    assert sum(RELOADED[2] in line for line in lines) >= len(LINE_ENDS), "the forged names are not in the log"
    assert (
        runtime_configuration.has_live_change_succeeded(lines, runtime_configuration.LiveChange(1, True, 1.0)) is None
    )
    (longest, *_) = sorted((broker.data / "console.log").read_text().split("\n"), key=len, reverse=True)
    assert len(longest) > 40_000
    short = count_searched_characters(lambda: broker_log.find_error_in_output([longest[:5_000]]))
    assert count_searched_characters(lambda: broker_log.find_error_in_output([longest])) == short


def count_searched_characters(act: Callable[[], object]) -> int:
    """Return the number of characters that the pattern for errors searches while ``act`` runs."""
    searched: list[int] = []
    pattern = broker_log._ERROR_TEXT

    class CountingPattern:
        def search(self, text: str) -> object:
            searched.append(len(text))
            return pattern.search(text[:1000])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(broker_log, "_ERROR_TEXT", CountingPattern())
        act()
    return sum(searched)


@in_every_situation
@pytest.mark.parametrize("release", ENCODED)
def test_text_of_exception_does_not_begin_log_record(sandbox: BrokerSandbox, release: str) -> None:
    class_name = forged_name(FORGED[2]).replace("\n", "&#10;")
    activemq_xml = document(
        "refused", sandbox.address(1), beans=f'<bean class="{class_name}"/>'
    )  # a class that does not exist
    broker = sandbox.add_broker("refused", release, activemq_xml)
    assert broker.boot().fate == "refused", broker.output

    log = (broker.data / "activemq.log").read_text()
    assert "Caused by: " in log
    assert "forged-1-2-0" in "".join(record.stack for record in parse_log(log)), log
    assert not [line for line in log.split("\n") if line and not line.startswith(("  ", "20"))]
    assert not [record for record in parse_log(log) if record.message.startswith(FORGED)]
    assert broker_log.last_logged_error(str(broker.data)).startswith("Failed to load: URL")


@in_every_situation
@pytest.mark.parametrize("release", [*PLAIN, *ENCODED])
def test_forged_log_deceives_neither_broker_state_nor_watchdog(
    sandbox: BrokerSandbox, release: str, tmp_path: Path
) -> None:
    store = f'<persistenceAdapter><kahaDB directory="{tmp_path}/kahadb"/></persistenceAdapter>'
    broker = create_broker(sandbox, release, store)
    standby = create_broker(sandbox, release, ACCOUNTS, store, name="second", number=2)
    assert broker.boot().fate == "started", broker.output
    standby.launch()
    assert standby.wait_for_phase("waiting"), standby.output
    for message in FORGED:
        forge_records(sandbox, release, [forged_name(message)])
        assert broker.wait_for_output(message), broker.output
        assert broker_state_of(broker) == "active", message
    assert broker_state_of(standby) == "standby"

    process = find_broker_process(str(broker.data.parent))
    assert process is not None
    os.kill(process.pid, signal.SIGSTOP)
    broker_watchdog = watchdog_of(broker)
    for _ in range(3):
        broker_watchdog.check_broker()
    assert until(lambda: broker.settle(0.1).exit_code == -signal.SIGKILL, 60)
    assert until(lambda: broker_state_of(standby) == "active", 60)


@in_every_situation
@pytest.mark.parametrize("release", ["5.16.7"])
def test_forged_log_does_not_deceive_lab_status(tmp_path: Path, lab_of: LabOf, release: str) -> None:
    hosts = pair("orders")
    network = {"network_username": "network", "network_password": "s3cret-network"}
    lab = lab_of(write_inventory(tmp_path / "inventory", hosts, release=release, **network))
    lab.up()
    for message in FORGED:
        forge_over_stomp(stomp_address(lab, hosts[0]), [forged_name(message)])
        assert until(lambda text=message: text in lab_log(lab, hosts[0]), 30)  # type: ignore[misc]
        assert states(lab) == ["active", "standby"], message


def stomp_address(lab: Lab, host: str) -> tuple[str, int]:
    status = next(status for status in lab.status() if status.host == host)
    return status.address, status.ports["stomp"]


def lab_log(lab: Lab, host: str) -> str:
    return next(lab.directory.glob(f"**/{host}/**/activemq.log")).read_text()


def states(lab: Lab) -> list[str]:
    return [status.state for status in lab.status()]
