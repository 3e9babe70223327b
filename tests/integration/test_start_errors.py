"""Tests of the reason of a failed start: one line with the exception of the broker, from its log or its output."""

from __future__ import annotations

import re

import pytest

from activemq_fleet.node.log import broker_log
from tests.integration.single_brokers import OPENWIRE, BrokerSandbox, SandboxBroker, document
from tests.situations import further

RELEASES = ("5.5.1", *further("5.18.3"), "6.3.1")
KEY_STORE = '<sslContext><sslContext keyStore="file:{}" keyStorePassword="changed"/></sslContext>'
FACTORY = "-Djavax.xml.parsers.DocumentBuilderFactory=no.such.Factory"


def error_in_output(broker: SandboxBroker) -> str:
    error: str = broker_log.find_error_in_output((broker.data / "console.log").read_text().splitlines())
    return error


@pytest.mark.parametrize("release", RELEASES)
def test_unreadable_key_store_is_reported_by_deepest_cause(sandbox: BrokerSandbox, release: str) -> None:
    activemq_xml = document("refused", sandbox.address(1), KEY_STORE.format(sandbox.lab_paths.directory / "broken.ks"))
    (sandbox.lab_paths.directory / "broken.ks").write_bytes(b"no key store at all, whatever its name says")
    broker = sandbox.add_broker("refused", release, activemq_xml)

    assert broker.boot().fate == "refused", broker.output

    # 5.5 only prints the error.
    errors = [broker_log.last_logged_error(str(broker.data)), error_in_output(broker)]
    error_text = [error for error in errors if error]
    assert error_text
    # If a cause above the deepest one repeats it, with the file that requires the store, it replaces the deepest one.
    assert all(
        activemq_xml.endswith(": Invalid keystore format") and len(activemq_xml) < 900 for activemq_xml in error_text
    ), error_text


@pytest.mark.parametrize("release", RELEASES)
def test_port_in_use_is_reported_by_deepest_cause(sandbox: BrokerSandbox, release: str) -> None:
    first_broker = sandbox.add_broker("first", release, document("first", sandbox.address(1)))
    assert first_broker.boot().fate == "started", first_broker.output
    second_broker = sandbox.add_broker("second", release, document("second", sandbox.address(1)))

    assert second_broker.boot().fate == "refused", second_broker.output

    error_text = broker_log.last_logged_error(str(second_broker.data)) or error_in_output(second_broker)
    assert f"{sandbox.address(1)}" in error_text
    assert str(OPENWIRE) in error_text
    assert "Address already in use" in error_text


@pytest.mark.parametrize("release", RELEASES)
def test_failure_of_java_before_first_log_is_reported_by_deepest_cause(sandbox: BrokerSandbox, release: str) -> None:
    broker = sandbox.add_broker("early", release, document("early", sandbox.address(1)), options=[FACTORY])

    assert broker.boot().fate == "refused", broker.output

    error_text = broker_log.last_logged_error(str(broker.data)) or error_in_output(broker)
    assert re.search(r"no[./]such[./]Factory", error_text)
    assert " more" not in error_text


def test_unknown_java_option_is_reported_as_printed(sandbox: BrokerSandbox) -> None:
    broker = sandbox.add_broker("word", "6.3.1", document("word", sandbox.address(1)), options=["-XX:+NoSuchFlag"])

    assert broker.boot().fate == "refused", broker.output

    assert error_in_output(broker) == "Unrecognized VM option 'NoSuchFlag'"
