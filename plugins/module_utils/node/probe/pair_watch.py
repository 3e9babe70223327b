# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Probes the addresses of a pair repeatedly, and summarizes when each address answered."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from xml.etree.ElementTree import ParseError

from ..config.broker_configuration import read_deployed_broker_settings, scheme_host_and_port
from ..config.probe_account import Login
from ..config.versions import ConfigurationPaths
from ..errors import NodeError
from ..masking import mask_text
from ..process.proc import uid_of_broker_data_owner
from . import connector_probe
from .broker_connection import ExpectedBroker


@dataclass(frozen=True)
class PairProbeRound:
    """One round of probes of two brokers' addresses: its times, and the address that answered.

    The brokers are a pair, one of which takes over when the other one fails. The address is None if none answered.
    ``began`` and ``ended`` are seconds since the epoch.
    """

    began: float
    ended: float
    address: str | None


def watch_which_address_answers(
    addresses: list[str],
    base: str | None,
    seconds: float,
    interval: float,
    timeout: float,
    flag: str | None,
    ca_file: str | None = None,
    first_within: float | None = None,
) -> dict[str, Any]:
    """Watch which address of a pair of brokers answers, by repeated probes, and return a summary as a dictionary.

    It is the result of ``summarize_answers_and_interruptions`` for an Ansible module, with the ``last`` answer of each
    address, in which secrets are masked. A listener on this machine must belong to the account of the broker in
    ``base``. For a broker of another host only the account of probes is used, over TLS only if the certificate is
    verified by ``ca_file`` or the system's certificates. The probes are ``interval`` seconds apart and end after
    ``seconds``. The file ``flag`` is created after the first answer; the probes end early if it is removed. Raises
    NodeError for an address or a configuration that cannot be read, and if no address answers in the first
    ``first_within`` seconds.
    """
    targets = {text: _parse_address(text) for text in addresses}
    login = _read_login(base) if base else Login()
    expected = ExpectedBroker(uid_of_broker_data_owner(os.path.abspath(base)) if base else None, ca_file=ca_file)
    last: dict[str, str] = {}
    rounds: list[PairProbeRound] = []
    began, answered = time.monotonic(), False
    # The probes do not end during an interruption, whose duration would then be unknown.
    while time.monotonic() < began + seconds and not (
        answered and flag and rounds[-1].address and not os.path.lexists(flag)
    ):
        before = rounds[-1].address if rounds else None
        rounds.append(_probe_addresses(targets, login, expected, timeout, before, last))
        if rounds[-1].address and not answered:
            answered = True
            if flag:
                os.close(os.open(flag, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600))
        if first_within is not None and not answered and time.monotonic() > began + first_within:
            raise NodeError(_no_answer_message(first_within, last))
        time.sleep(interval)
    return {**summarize_answers_and_interruptions(rounds), "last": last}


def _no_answer_message(seconds: float, last: Mapping[str, str]) -> str:
    details = "; ".join(f"{address}: {detail}" for address, detail in sorted(last.items()))
    return f"no node completed a round trip of a test message within {seconds:g} s ({details})"


def _parse_address(text: str) -> tuple[str, tuple[str, int]]:
    parts = scheme_host_and_port(text)
    if not parts or not parts[1]:
        raise NodeError(
            f"the option addresses has the value {text!r}, which is not an address: write it like "
            "mqtt://orders-mq01-a.example.com:1883"
        )
    scheme, host, port = parts
    return scheme, (host, port)


def _read_login(base: str) -> Login:
    """Return the account of probes at the broker of a directory, or another account where it has none."""
    layout = ConfigurationPaths(os.path.abspath(base))
    try:
        deployed = read_deployed_broker_settings(layout, layout.current_version_name())
        return deployed.probe_login if deployed.probe_login.username else deployed.login
    except (OSError, ParseError) as error:
        raise NodeError(
            f"the configuration below {layout.base} cannot be read ({error}): run the playbook site again"
        ) from None


def _probe_addresses(
    targets: dict[str, tuple[str, tuple[str, int]]],
    login: Login,
    expected: ExpectedBroker,
    timeout: float,
    before: str | None,
    last: dict[str, str],
) -> PairProbeRound:
    """Probe the addresses of a pair until one answers, beginning with the address ``before`` that answered last."""
    began = time.time()
    for text in sorted(targets, key=lambda text: text != before):
        scheme, address = targets[text]
        answer = connector_probe.probe_connector(scheme, address, login, timeout, expected=expected)
        last[text] = mask_text(answer.detail)
        if answer.answered:
            return PairProbeRound(began, time.time(), text)
    return PairProbeRound(began, time.time(), None)


def summarize_answers_and_interruptions(rounds: Iterable[PairProbeRound]) -> dict[str, Any]:
    """Summarize rounds of probes of brokers: the time spans in which each address answered, and the interruptions.

    The interruptions are ``gaps``, and the longest of them is ``longest`` in seconds. Pure. An interruption lasts from
    the end of the last answer to the end of the next answer, so it is never shorter than the interruption that a client
    observes.
    """
    spans: list[dict[str, Any]] = []
    gaps: list[dict[str, Any]] = []
    answered: PairProbeRound | None = None
    first_silent: PairProbeRound | None = None
    probe_round: PairProbeRound | None = None
    trips = 0
    for probe_round in rounds:
        if probe_round.address is None:
            first_silent = first_silent or probe_round
            continue
        trips += 1
        if first_silent:
            gaps.append(
                _interruption(
                    answered.ended if answered else first_silent.began, probe_round.ended, answered, probe_round.address
                )
            )
        if first_silent or not spans or spans[-1]["address"] != probe_round.address:
            spans.append({"address": probe_round.address, "began": _utc_time_text(probe_round.began), "trips": 0})
        spans[-1].update(ended=_utc_time_text(probe_round.ended), trips=spans[-1]["trips"] + 1)
        answered, first_silent = probe_round, None
    if first_silent and probe_round:
        gaps.append(
            _interruption(answered.ended if answered else first_silent.began, probe_round.ended, answered, None)
        )
    return {"trips": trips, "spans": spans, "gaps": gaps, "longest": max([gap["seconds"] for gap in gaps], default=0.0)}


def _interruption(began: float, ended: float, before: PairProbeRound | None, after: str | None) -> dict[str, Any]:
    return {
        "began": _utc_time_text(began),
        "ended": _utc_time_text(ended),
        "seconds": round(ended - began, 3),
        "before": before.address if before else None,
        "after": after,
    }


def _utc_time_text(seconds: float) -> str:
    seconds_text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{seconds_text}.{int(seconds % 1 * 1000):03d}Z"
