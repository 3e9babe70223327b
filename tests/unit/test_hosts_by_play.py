"""Hosts of the plays of ``site``."""

from __future__ import annotations

from typing import Any

import pytest

from activemq_fleet.deployment import hosts_by_play_of_site_playbook
from tests.unit.fleets import fleet

BOTH = ["orders-mq01-a.example.com", "orders-mq01-b.example.com"]


@pytest.mark.parametrize(
    ("variables", "plays"),
    [
        ({}, {"configure", "prepare", "run", "share"}),
        ({"ha": "none"}, {"configure", "prepare", "run"}),
        ({"service": "none"}, {"configure", "prepare"}),
        ({"service": "none", "install": "none"}, {"configure"}),
    ],
)
def test_each_play_of_site_has_brokers_that_require_it(variables: dict[str, Any], plays: set[str]) -> None:
    brokers_by_play = hosts_by_play_of_site_playbook(fleet("orders-mq01", **variables))
    assert {name: hosts for name, hosts in brokers_by_play.items() if hosts} == dict.fromkeys(plays, BOTH)
