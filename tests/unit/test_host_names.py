"""Names that a machine cannot resolve, with a resolver that responds, fails or hangs."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from activemq_fleet.node.state.host_names import unresolvable_host_names

KNOWN, UNKNOWN, SLOW, INVALID = "known.example.com", "unknown.example.com", "slow.example.com", "a..example.com"


@pytest.fixture
def requested_names(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Install a resolver that resolves one name, hangs for another, and records each name."""
    names: list[str] = []
    finished = threading.Event()

    def resolve(name: str, *_unused: object, **_more: object) -> list[object]:
        names.append(name)
        if name == SLOW:
            finished.wait()
        if name == INVALID:
            raise UnicodeError("label empty or too long")
        if name != KNOWN:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return []

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    yield names
    finished.set()


def test_host_names_that_do_not_resolve_are_returned_once_in_order(requested_names: list[str]) -> None:
    assert unresolvable_host_names([UNKNOWN, KNOWN, INVALID, UNKNOWN]) == [UNKNOWN, INVALID]
    assert sorted(requested_names) == sorted([UNKNOWN, KNOWN, INVALID])


def test_ip_addresses_are_not_resolved(requested_names: list[str]) -> None:
    assert unresolvable_host_names(["192.0.2.7", "2001:db8::7", "[2001:db8::7]"]) == []
    assert requested_names == []


@pytest.mark.usefixtures("requested_names")
def test_host_name_that_resolves_too_slowly_is_unresolved_at_time_limit() -> None:
    # The resolver answers only after the test, so that the call returns at its limit or never.
    assert unresolvable_host_names([SLOW, KNOWN], timeout=2.0) == [SLOW]
