"""Why a broker did not start, in one line with its own exception: from its log, and from what it printed."""

from __future__ import annotations

import re

import pytest

from activemq_fleet.node.log import broker_log
from tests.integration.planted import OPENWIRE, Ground, Planted, document
from tests.situations import further

RELEASES = ("5.5.1", *further("5.18.3"), "6.3.1")
KEY_STORE = '<sslContext><sslContext keyStore="file:{}" keyStorePassword="changed"/></sslContext>'
FACTORY = "-Djavax.xml.parsers.DocumentBuilderFactory=no.such.Factory"


def printed(broker: Planted) -> str:
    told: str = broker_log.find_error_in_output((broker.data / "console.log").read_text().splitlines())
    return told


@pytest.mark.parametrize("release", RELEASES)
def test_a_key_store_that_cannot_be_read_is_told_by_the_deepest_cause(ground: Ground, release: str) -> None:
    text = document("refused", ground.address(1), KEY_STORE.format(ground.layout.directory / "broken.ks"))
    (ground.layout.directory / "broken.ks").write_bytes(b"no key store at all, whatever its name says")
    broker = ground.plant("refused", release, text)

    assert broker.boot().fate == "refused", broker.output

    error_text = [
        text for text in (broker_log.last_logged_error(str(broker.data)), printed(broker)) if text
    ]  # 5.5 only prints it
    assert error_text
    # A cause above the deepest that repeats it, with the file that asked for the store, is taken in its place.
    assert all(text.endswith(": Invalid keystore format") and len(text) < 900 for text in error_text), error_text


@pytest.mark.parametrize("release", RELEASES)
def test_a_port_in_use_is_told_by_the_deepest_cause(ground: Ground, release: str) -> None:
    first = ground.plant("first", release, document("first", ground.address(1)))
    assert first.boot().fate == "started", first.output
    second = ground.plant("second", release, document("second", ground.address(1)))

    assert second.boot().fate == "refused", second.output

    error_text = broker_log.last_logged_error(str(second.data)) or printed(second)
    assert f"{ground.address(1)}" in error_text
    assert str(OPENWIRE) in error_text
    assert "Address already in use" in error_text


@pytest.mark.parametrize("release", RELEASES)
def test_what_ends_java_before_it_has_a_log_is_told_by_its_deepest_cause(ground: Ground, release: str) -> None:
    broker = ground.plant("early", release, document("early", ground.address(1)), options=[FACTORY])

    assert broker.boot().fate == "refused", broker.output

    error_text = broker_log.last_logged_error(str(broker.data)) or printed(broker)
    assert re.search(r"no[./]such[./]Factory", error_text)
    assert " more" not in error_text


def test_a_word_that_java_does_not_know_is_told_as_it_was_printed(ground: Ground) -> None:
    broker = ground.plant("word", "6.3.1", document("word", ground.address(1)), options=["-XX:+NoSuchFlag"])

    assert broker.boot().fate == "refused", broker.output

    assert printed(broker) == "Unrecognized VM option 'NoSuchFlag'"
