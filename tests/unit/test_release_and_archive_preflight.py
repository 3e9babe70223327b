"""Directories, archives and running releases that prevent the installation of a release."""

from __future__ import annotations

from typing import Any

import pytest

from activemq_fleet.operations.release_and_archive_preflight import (
    ObservedReleaseDirectory,
    ReleaseArchive,
    release_line_change_messages,
    unusable_archive_messages,
    wrong_release_messages,
)

A, B = "orders-mq01-a", "orders-mq01-b"
PATH = "/srv/apache-activemq-bin.tar.gz"
HOME = "/opt/activemq-5.18.6"
RUNNING_FROM_OTHER_RELEASE: dict[str, Any] = {
    "home_exists": True,
    "home_releases": ("5.18.3",),
    "home_processes": (7,),
    "pid": 7,
    "running": "5.18.3",
}


def observed_directory(host: str = A, **more: Any) -> ObservedReleaseDirectory:
    return ObservedReleaseDirectory(
        host=host, **{"release": "5.18.6", "install": "archive", "archive": PATH, "home": HOME, **more}
    )


def preflight_messages(
    *directories: ObservedReleaseDirectory,
    archive: ReleaseArchive | None = None,
    sha512: str | None = None,
    upgrades: bool = False,
) -> list[str]:
    archives = {PATH: archive or ReleaseArchive(releases=("5.18.6",))}
    unusable = unusable_archive_messages(directories, archives, dict.fromkeys([A, B], sha512))
    return unusable or wrong_release_messages(directories, archives, upgrades=upgrades)


def test_installed_or_installable_release_is_no_problem() -> None:
    assert (
        preflight_messages(
            observed_directory(),
            observed_directory(B, home_exists=True, home_releases=("5.18.6",), home_processes=(3, 4)),
        )
        == []
    )


def test_absent_directory_is_error_if_no_release_is_installed() -> None:
    absent = observed_directory(install="none", home="/opt/activemq")
    (message,) = preflight_messages(absent)
    assert message.startswith(
        f"{A}: the directory /opt/activemq (activemq_home) does not exist, and activemq_install: "
    )
    assert preflight_messages(absent, upgrades=True) == [message]
    assert preflight_messages(observed_directory(install="none", home_exists=True)) == []
    assert preflight_messages(observed_directory(install="none", has_service=False)) == []


def test_hosts_with_same_wrong_archive_share_message() -> None:
    (message,) = preflight_messages(
        observed_directory(), observed_directory(B), archive=ReleaseArchive(releases=("5.18.3",))
    )
    assert message == (
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
        (ReleaseArchive(releases=()), "contains no ActiveMQ jars"),
        (ReleaseArchive(releases=("5.18.3", "5.18.6")), "contains ActiveMQ 5.18.3 and 5.18.6"),
        (ReleaseArchive(releases=("5.18.6",), sha512="b" * 128), f"the SHA-512 of {PATH} is bbbbbbbbbbbb…, but"),
        (ReleaseArchive(problem="is cut short", sha512="b" * 128), f"the SHA-512 of {PATH} is bbbbbbbbbbbb…, but"),
    ],
)
def test_unusable_archive_is_rejected(archive: ReleaseArchive, problem: str) -> None:
    (message,) = preflight_messages(observed_directory(), archive=archive, sha512="A" * 128)
    assert problem in message


def test_wrong_checksum_shows_expected_and_actual_digits_of_both_hosts() -> None:
    (message,) = preflight_messages(
        observed_directory(),
        observed_directory(B),
        archive=ReleaseArchive(releases=("5.18.6",), sha512="b" * 128),
        sha512="A" * 128,
    )
    assert message.startswith(
        f"{A}, {B}: activemq_archive: the SHA-512 of {PATH} is bbbbbbbbbbbb…, but activemq_archive_sha512 is "
        "aaaaaaaaaaaa…"
    )


def test_archive_is_ignored_if_release_is_installed() -> None:
    assert (
        preflight_messages(
            observed_directory(home_exists=True, home_releases=("5.18.6",)),
            archive=ReleaseArchive(releases=("5.18.3",)),
        )
        == []
    )
    assert preflight_messages(observed_directory(install="package"), archive=ReleaseArchive(releases=("5.18.3",))) == []


def test_directory_of_wrong_release_is_no_problem_if_unused() -> None:
    assert preflight_messages(observed_directory(home_exists=True, home_releases=("5.18.3",))) == []


def test_broker_running_from_wrong_release_requires_upgrade() -> None:
    (message,) = preflight_messages(observed_directory(**RUNNING_FROM_OTHER_RELEASE))
    assert message.startswith(
        f"{A}: the directory {HOME} contains ActiveMQ 5.18.3, but activemq_release is 5.18.6. The broker runs from "
        "this directory. "
    )
    assert "Run the playbook upgrade" in message
    assert preflight_messages(observed_directory(**RUNNING_FROM_OTHER_RELEASE), upgrades=True) == []


@pytest.mark.parametrize("more", [{"can_be_upgraded": False}, {"running": "5.18.6"}, {"running": None}])
@pytest.mark.parametrize("upgrades", [True, False])
def test_broker_that_cannot_be_upgraded_must_be_stopped(more: dict[str, Any], upgrades: bool) -> None:
    (message,) = preflight_messages(observed_directory(**{**RUNNING_FROM_OTHER_RELEASE, **more}), upgrades=upgrades)
    assert "Stop the broker, then run the playbook site" in message


@pytest.mark.parametrize("upgrades", [True, False])
def test_another_process_in_release_directory_must_be_stopped(upgrades: bool) -> None:
    (message,) = preflight_messages(
        observed_directory(**{**RUNNING_FROM_OTHER_RELEASE, "home_processes": (7, 9)}), upgrades=upgrades
    )
    assert "while process 9 runs from it. Stop this process" in message


def test_manually_installed_directory_must_contain_configured_release() -> None:
    (message,) = preflight_messages(observed_directory(install="none", home_exists=True, home_releases=("5.18.3",)))
    assert "set activemq_release to the release in this directory" in message


def test_change_of_release_line_requires_upgrade_and_patch_does_not() -> None:
    running = {"x-mq01-a": "5.17.6", "x-mq01-b": "5.18.2", "x-mq02-a": "5.18.3", "x-mq02-b": None}
    (problem,) = release_line_change_messages(running, dict.fromkeys(running, "5.18.3"))
    assert problem.startswith("x-mq01-a: the broker runs 5.17.6, but activemq_release is 5.18.3. ")
    assert "the playbook upgrade" in problem


def test_unknown_release_counts_as_different_release_line() -> None:
    assert release_line_change_messages({"x-mq01-a": "5.11.0.vendor-1"}, {"x-mq01-a": "5.11.4"})
    assert not release_line_change_messages({"x-mq01-a": "5.11.0.vendor-1"}, {"x-mq01-a": "5.11.0.vendor-1"})
