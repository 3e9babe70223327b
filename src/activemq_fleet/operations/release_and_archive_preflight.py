"""Refuse release directories and archives on hosts that do not hold the release of the inventory.

A directory that is named after a release but holds a different one is replaced: by ``site`` if no broker runs from
it, and otherwise by ``upgrade``, one node at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from activemq_fleet.deployment import BrokerFacts
from activemq_fleet.errors import ReleaseError, names_to_text
from activemq_fleet.node.state.evidence import MachineFacts
from activemq_fleet.operations.operation_decisions import OperationDecisionRequest, RefusalError
from activemq_fleet.releases import Release

_SHOWN_DIGITS = 12
"""The digits of a checksum that a message shows."""


def raise_for_release_line_changes(request: OperationDecisionRequest) -> None:
    """Raise RefusalError for brokers whose ``activemq_release`` is of another release line than the running release."""
    brokers = request.broker_facts_by_host
    # The administrator of the system's packages decides the release of a package.
    running = {
        host: machine.release for host, machine in request.evidence.items() if brokers[host].install != "package"
    }
    if changes := release_line_change_messages(running, {host: brokers[host].release.text for host in running}):
        raise RefusalError(
            "nothing was changed, because the playbook site does not change the release line (such as 5.18) of a "
            "running broker. Run the playbook upgrade for these hosts:",
            changes,
        )


def release_line_change_messages(
    running_by_host: Mapping[str, str | None], wanted_by_host: Mapping[str, str]
) -> list[str]:
    """Return a list of messages, one for each host whose running and wanted releases are of different release lines.

    Within a line (5.18.3 to 5.18.6) the formats of the store and of the files do not change, so a restart is enough.
    The next line may change a store permanently.
    """
    return [
        f"{host}: the broker runs {release}, but activemq_release is {wanted_by_host[host]}. Run the playbook upgrade, "
        "which changes one node of a pair at a time"
        for host, release in sorted(running_by_host.items())
        if release and release != wanted_by_host[host] and _release_line(release) != _release_line(wanted_by_host[host])
    ]


def _release_line(text: str) -> str:
    try:
        return Release.of(text).line
    except ReleaseError:
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedReleaseDirectory:
    """The installation directory of an ActiveMQ release on a host, as observed.

    ``release``, ``install``, ``archive`` and ``home`` are of the inventory. ``home_releases`` are those of the brokers'
    jars in the directory, ``home_processes`` those that have its files open, ``pid`` is the process of this host's
    broker and ``running`` its release. ``home_link`` is the
    path of the symbolic link to the directory, and ``has_home_link_conflict`` whether that path exists and is not a
    link. ``can_be_upgraded`` is false for a pure pair, and for a broker that systemd does
    not run, for which ``has_service`` is false, too.
    """

    host: str
    release: str
    install: str
    archive: str | None
    home: str
    home_exists: bool = False
    home_releases: tuple[str, ...] = ()
    home_processes: tuple[int, ...] = ()
    pid: int | None = None
    running: str | None = None
    can_be_upgraded: bool = True
    has_service: bool = True
    home_link: str | None = None
    has_home_link_conflict: bool = False

    @property
    def directory_holds_only_wanted_release(self) -> bool:
        """Whether a release directory holds exactly the release that the inventory requires, and no other release."""
        return self.home_releases == (self.release,)

    @property
    def release_directory_needs_archive(self) -> bool:
        """Whether the release of this directory is still to be installed, from the archive ``activemq_archive``."""
        return self.install in ("archive", "jars") and not self.directory_holds_only_wanted_release


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseArchive:
    """An archive of an ActiveMQ release, as observed on the controller.

    It has the releases whose jars the archive contains, and its SHA-512. A directory of jars has no SHA-512.
    ``problem`` is a sentence with the problem and the remedy if the archive cannot be read, else empty.
    """

    releases: tuple[str, ...] = ()
    sha512: str | None = None
    is_directory: bool = False
    problem: str = ""


def _observed_release_directory(broker: BrokerFacts, machine: MachineFacts) -> ObservedReleaseDirectory:
    """Return the observed release directory (installation) of a broker's host.

    The broker's facts and those of its machine are used.
    """
    return ObservedReleaseDirectory(
        host=broker.host,
        release=broker.release.text,
        install=broker.install,
        archive=broker.archive,
        home=broker.home,
        home_exists=machine.home_exists,
        home_releases=machine.home_releases,
        home_processes=machine.home_processes,
        pid=machine.pid,
        running=machine.release,
        can_be_upgraded=broker.service == "systemd" and not broker.needs_resync,
        has_service=broker.service == "systemd",
        home_link=broker.home_link,
        has_home_link_conflict=machine.has_home_link_conflict,
    )


def wrong_release_messages(
    homes: Sequence[ObservedReleaseDirectory], archives: Mapping[str, ReleaseArchive], *, upgrades: bool = False
) -> list[str]:
    """Return a message for each release directory or archive that does not hold the release the inventory requires.

    ``archives`` maps paths to the archives that the controller can read. With ``upgrades``, a directory from which the
    broker of the same host runs is no problem, because the upgrade replaces it.
    """
    problems = [(home.host, text) for home in homes for text in _directory_problems(home, upgrades)]
    problems += [
        (home.host, text)
        for home, archive in _archives_by_home(homes, archives)
        for text in _archive_release_problems(home, archive)
    ]
    return _lines_by_problem(problems)


def unusable_archive_messages(
    homes: Sequence[ObservedReleaseDirectory], archives: Mapping[str, ReleaseArchive], sha512: Mapping[str, str | None]
) -> list[str]:
    """Return a message for each release archive that cannot be read or has another checksum than its hosts require.

    ``archives`` maps paths to the archives that the controller can read. ``sha512`` maps hosts to
    ``activemq_archive_sha512``.
    """
    problems = [
        (home.host, f"activemq_archive: {problem}")
        for home, archive in _archives_by_home(homes, archives)
        if (problem := _archive_problem(home, archive, sha512.get(home.host)))
    ]
    return _lines_by_problem(problems)


def home_link_conflict_messages(homes: Sequence[ObservedReleaseDirectory]) -> list[str]:
    """Return a message for each path that must become the link to a release, but is a directory or a file."""
    return _lines_by_problem(
        [
            (
                home.host,
                f"{home.home_link} (activemq_home) exists and is not a symbolic link, so the playbook cannot link it "
                f"to {home.home}. Set activemq_home to a path that does not exist. Or stop all processes that run from "
                f"{home.home_link}, and rename it",
            )
            for home in homes
            if home.has_home_link_conflict
        ]
    )


def _archives_by_home(
    homes: Sequence[ObservedReleaseDirectory], archives: Mapping[str, ReleaseArchive]
) -> list[tuple[ObservedReleaseDirectory, ReleaseArchive]]:
    return [
        (home, archives[home.archive])
        for home in homes
        if home.release_directory_needs_archive and home.archive and home.archive in archives
    ]


def _lines_by_problem(problems: Sequence[tuple[str, str]]) -> list[str]:
    hosts_by_text: dict[str, list[str]] = {}
    for host, text in problems:
        hosts_by_text.setdefault(text, []).append(host)
    return [f"{names_to_text(hosts)}: {text}" for text, hosts in hosts_by_text.items()]


def _directory_problems(home: ObservedReleaseDirectory, upgrades: bool) -> Iterator[str]:
    if home.install == "none" and not home.home_exists and home.has_service:
        yield (
            f"the directory {home.home} (activemq_home) does not exist, and activemq_install: none installs no "
            f"release. Install ActiveMQ {home.release} there, set activemq_home to its directory, or set "
            "activemq_install to archive"
        )
    if home.directory_holds_only_wanted_release or not home.home_exists or home.install == "package":
        return
    difference = (
        f"the directory {home.home} {_content_text(home.home_releases)}, but activemq_release is {home.release}"
    )
    if home.install == "none":
        if home.home_releases:
            yield (
                f"{difference}. Install release {home.release} there, or set activemq_release to the release in this "
                "directory"
            )
        return
    others = [process for process in home.home_processes if process != home.pid]
    if others:
        yield (
            f"{difference}. The playbook cannot replace the release in this directory while process {others[0]} runs "
            "from it. Stop this process, and run the playbook again"
        )
    elif home.home_processes and not (home.can_be_upgraded and home.running not in (None, home.release)):
        yield (
            f"{difference}. The playbook cannot replace the release in this directory while the broker runs from it. "
            "Stop the broker, then run the playbook site"
        )
    elif home.home_processes and not upgrades:
        yield (
            f"{difference}. The broker runs from this directory. Run the playbook upgrade, which replaces the release "
            "node by node"
        )


def _archive_problem(home: ObservedReleaseDirectory, archive: ReleaseArchive, sha512: str | None) -> str:
    if sha512 and archive.sha512 and archive.sha512 != sha512.lower():
        return (
            f"the SHA-512 of {home.archive} is {archive.sha512[:_SHOWN_DIGITS]}…, but activemq_archive_sha512 is "
            f"{sha512.lower()[:_SHOWN_DIGITS]}…, so the archive may be damaged or replaced. Download the archive "
            "again, or correct activemq_archive_sha512"
        )
    if sha512 and archive.is_directory:
        return (
            f"{home.archive} is a directory of jars, so activemq_archive_sha512 cannot be compared with it. Remove "
            "activemq_archive_sha512 (or set it to null for these hosts), or set activemq_archive to a tar archive "
            "with this checksum"
        )
    return archive.problem


def _archive_release_problems(home: ObservedReleaseDirectory, archive: ReleaseArchive) -> Iterator[str]:
    if not archive.problem and archive.releases != (home.release,):
        yield (
            f"activemq_archive: {home.archive} {_content_text(archive.releases)}, but activemq_release is "
            f"{home.release}. Set activemq_archive to the archive of release {home.release}"
        )


def _content_text(releases: tuple[str, ...]) -> str:
    return f"contains ActiveMQ {' and '.join(releases)}" if releases else "contains no ActiveMQ jars"


def refusal_for_unusable_or_wrong_release_files(request: OperationDecisionRequest) -> RefusalError | None:
    """Return an error if release archives cannot be installed or release files are of an unexpected release, else None.

    ``options``: ``upgrades``, whether the run replaces directories from which brokers run.
    """
    brokers = request.broker_facts_by_host
    homes = [_observed_release_directory(brokers[host], machine) for host, machine in request.evidence.items()]
    required_archives = {
        (home.archive, home.install) for home in homes if home.release_directory_needs_archive and home.archive
    }
    inspections = {path: request.release_archive_facts(path, install) for path, install in required_archives}
    archives = {
        path: ReleaseArchive(**inspection) for path, inspection in inspections.items() if inspection is not None
    }
    sums = {host: broker.archive_sha512 for host, broker in brokers.items()}
    if unusable := unusable_archive_messages(homes, archives, sums):
        return RefusalError(
            "nothing was changed, because these release archives cannot be installed. Correct these errors, and run "
            "the playbook again:",
            unusable,
        )
    if conflicts := home_link_conflict_messages(homes):
        return RefusalError(
            "nothing was changed, because the link to the release cannot be created on these hosts. Correct these "
            "errors, and run the playbook again:",
            conflicts,
        )
    if problems := wrong_release_messages(homes, archives, upgrades=bool(request.options.get("upgrades"))):
        return RefusalError(
            "nothing was changed, because the brokers of these hosts would start with another release than "
            "activemq_release. Correct these errors, and run the playbook again:",
            problems,
        )
    return None
