"""Unit tests connect to no other machine."""

from __future__ import annotations

import socket

import pytest


def test_unit_test_that_connects_to_another_machine_fails() -> None:
    with pytest.raises(pytest.fail.Exception, match=r"a unit test connects to 192\.0\.2\.1: replace the server"):
        socket.create_connection(("192.0.2.1", 80))
