"""Settings of pairs with a database of their own are alike; those with any other difference are not."""

from __future__ import annotations

from typing import Any

import pytest

from activemq_fleet.likeness import but_for_database, with_database
from activemq_fleet.settings import Settings, read_settings
from tests.unit.fuzz_inputs import BASE
from tests.unit.sound_variables import JDBC

RIGHT = {"ha": "shared-jdbc", "jdbc": JDBC, "users": [{"name": "ann", "password": "long enough"}]}


def settings_of(**said: Any) -> Settings:
    return read_settings("a-mq01-a", BASE | {f"activemq_{name}": value for name, value in (RIGHT | said).items()})


def with_url(url: str) -> Settings:
    return settings_of(jdbc=JDBC | {"url": url})


def test_settings_with_another_database_each_are_the_first_of_them() -> None:
    first = but_for_database(with_url("jdbc:x://db/1"))

    assert first.jdbc is not None
    assert [but_for_database(with_url(f"jdbc:x://db/{number}")) is first for number in range(2, 5)] == [True] * 3


@pytest.mark.parametrize(
    "change",
    [
        {"heap": "3g"},
        {"users": [{"name": "ann", "password": "long enough too"}]},
        {"broker_attributes": {"useJmx": "true"}},
        {"broker_attributes": {"useJmx": 1}},
        {"home": "/opt/activemq"},  # as by default, but said
        {"jdbc": JDBC | {"password": "another"}},
        {"jdbc": JDBC | {"jar": "/other.jar"}},
        {"ha": "shared-file"},
        {"network_password": "another"},
    ],
)
def test_settings_with_any_other_difference_are_others(change: dict[str, Any]) -> None:
    first = but_for_database(settings_of())

    assert but_for_database(settings_of(**change)) is not first


def test_settings_without_a_database_are_their_own() -> None:
    one, other = settings_of(ha="none", jdbc=None), settings_of(ha="none", jdbc=None)

    assert but_for_database(one) is one
    assert but_for_database(other) is other


def test_the_database_of_a_pair_comes_into_settings_that_were_read() -> None:
    other = JDBC | {"url": "jdbc:x://db/other"}

    assert with_database(settings_of(), other) == settings_of(jdbc=other)


def test_a_database_that_is_wrong_comes_into_no_settings() -> None:
    assert with_database(settings_of(), JDBC | {"url": "db"}) is None
