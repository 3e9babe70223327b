"""Which directories, archives and running releases keep a release from being installed."""

from __future__ import annotations

from typing import Any

import pytest

from activemq_fleet.operations.preflight import (
    ObservedReleaseDirectory,
    ReleaseArchive,
    release_line_change_messages,
    unusable_archive_messages,
    wrong_release_messages,
)

A, B = "orders-mq01-a", "orders-mq01-b"
PATH = "/srv/apache-activemq-bin.tar.gz"
HOME = "/opt/activemq-5.18.6"
RUNS: dict[str, Any] = {
    "home_exists": True,
    "home_releases": ("5.18.3",),
    "home_processes": (7,),
    "pid": 7,
    "running": "5.18.3",
}


def home(host: str = A, **more: Any) -> ObservedReleaseDirectory:
    return ObservedReleaseDirectory(
        host=host, **{"release": "5.18.6", "install": "archive", "archive": PATH, "home": HOME, **more}
    )


def lines(
    *homes: ObservedReleaseDirectory,
    archive: ReleaseArchive | None = None,
    sha512: str | None = None,
    upgrades: bool = False,
) -> list[str]:
    archives = {PATH: archive or ReleaseArchive(found=("5.18.6",))}
    unusable = unusable_archive_messages(homes, archives, dict.fromkeys([A, B], sha512))
    return unusable or wrong_release_messages(homes, archives, upgrades=upgrades)


def test_a_release_that_is_there_or_is_to_come_is_no_problem() -> None:
    assert lines(home(), home(B, home_exists=True, home_releases=("5.18.6",), home_processes=(3, 4))) == []


def test_absent_directory_is_an_error_if_no_release_is_installed() -> None:
    absent = home(install="none", home="/opt/activemq")
    (line,) = lines(absent)
    assert line.startswith(f"{A}: the directory /opt/activemq (activemq_home) does not exist, and activemq_install: ")
    assert lines(absent, upgrades=True) == [line]
    assert lines(home(install="none", home_exists=True)) == []
    assert lines(home(install="none", has_service=False)) == []


def test_hosts_with_one_wrong_archive_are_one_line() -> None:
    (line,) = lines(home(), home(B), archive=ReleaseArchive(found=("5.18.3",)))
    assert line == (
        f"{A}, {B}: activemq_archive: {PATH} contains ActiveMQ 5.18.3, but activemq_release is 5.18.6. Set "
        "activemq_archive to the archive of release 5.18.6"
    )


@pytest.mark.parametrize(
    ("archive", "problem"),
    [
        (
            ReleaseArchive(problem="the file x does not exist on the controller"),
            "the file x does not exist on the controller",
        ),
        (ReleaseArchive(found=()), "contains no ActiveMQ jars"),
        (ReleaseArchive(found=("5.18.3", "5.18.6")), "contains ActiveMQ 5.18.3 and 5.18.6"),
        (ReleaseArchive(found=("5.18.6",), sha512="b" * 128), f"the SHA-512 of {PATH} is bbbbbbbbbbbb…, but"),
        (ReleaseArchive(problem="is cut short", sha512="b" * 128), f"the SHA-512 of {PATH} is bbbbbbbbbbbb…, but"),
    ],
)
def test_an_archive_that_cannot_be_installed_is_refused(archive: ReleaseArchive, problem: str) -> None:
    (line,) = lines(home(), archive=archive, sha512="A" * 128)
    assert problem in line


def test_wrong_checksum_shows_expected_and_actual_digits_of_both_hosts() -> None:
    (line,) = lines(home(), home(B), archive=ReleaseArchive(found=("5.18.6",), sha512="b" * 128), sha512="A" * 128)
    assert line.startswith(
        f"{A}, {B}: activemq_archive: the SHA-512 of {PATH} is bbbbbbbbbbbb…, but activemq_archive_sha512 is "
        "aaaaaaaaaaaa…"
    )


def test_an_archive_is_not_asked_for_what_is_installed_already() -> None:
    assert lines(home(home_exists=True, home_releases=("5.18.6",)), archive=ReleaseArchive(found=("5.18.3",))) == []
    assert lines(home(install="package"), archive=ReleaseArchive(found=("5.18.3",))) == []


def test_a_directory_that_lies_is_replaced_where_nothing_runs_from_it() -> None:
    assert lines(home(home_exists=True, home_releases=("5.18.3",))) == []


def test_a_broker_that_runs_from_such_a_directory_is_left_to_upgrade() -> None:
    (line,) = lines(home(**RUNS))
    assert line.startswith(
        f"{A}: the directory {HOME} contains ActiveMQ 5.18.3, but activemq_release is 5.18.6. The broker runs from "
        "this directory. "
    )
    assert "Run the playbook upgrade" in line
    assert lines(home(**RUNS), upgrades=True) == []


@pytest.mark.parametrize("more", [{"can_be_upgraded": False}, {"running": "5.18.6"}, {"running": None}])
@pytest.mark.parametrize("upgrades", [True, False])
def test_a_broker_that_upgrade_would_not_touch_is_to_be_stopped(more: dict[str, Any], upgrades: bool) -> None:
    (line,) = lines(home(**{**RUNS, **more}), upgrades=upgrades)
    assert "Stop the broker, then run the playbook site" in line


@pytest.mark.parametrize("upgrades", [True, False])
def test_another_broker_that_runs_from_it_is_to_be_stopped_first(upgrades: bool) -> None:
    (line,) = lines(home(**{**RUNS, "home_processes": (7, 9)}), upgrades=upgrades)
    assert "while process 9 runs from it. Stop this process" in line


def test_what_the_user_installs_himself_must_be_the_release_as_soon_as_it_is_there() -> None:
    (line,) = lines(home(install="none", home_exists=True, home_releases=("5.18.3",)))
    assert "set activemq_release to the release in this directory" in line


def test_another_line_is_an_upgrade_and_another_patch_is_not() -> None:
    running = {"x-mq01-a": "5.17.6", "x-mq01-b": "5.18.2", "x-mq02-a": "5.18.3", "x-mq02-b": None}
    (problem,) = release_line_change_messages(running, dict.fromkeys(running, "5.18.3"))
    assert problem.startswith("x-mq01-a: the broker runs 5.17.6, but activemq_release is 5.18.3. ")
    assert "the playbook upgrade" in problem


def test_a_release_that_nobody_knows_is_another_line() -> None:
    assert release_line_change_messages({"x-mq01-a": "5.11.0.vendor-1"}, {"x-mq01-a": "5.11.4"})
    assert not release_line_change_messages({"x-mq01-a": "5.11.0.vendor-1"}, {"x-mq01-a": "5.11.0.vendor-1"})
