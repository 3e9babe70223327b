"""Find what the playbook ``site`` refuses (T030) or ignores (T042), and archives that are absent (T031).

``check`` reports a refusal as a warning, so that ``render`` still writes files; ``site`` stops with T030 before it
touches a host. Problems that only a host shows are not checked here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping

from pydantic import BaseModel, SecretStr

from activemq_fleet.findings import Finding
from activemq_fleet.settings.agent import pins_one_version
from activemq_fleet.topology import Agent, Broker, Fleet

RULE = "T030"
MISSING = "T031"
IGNORED = "T042"
# A requirement of pip: a name with extras or a version, or a name of this project, as opposed to a path of a wheel.
_REQUIREMENT = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]*\s*(\[[A-Za-z0-9,._ -]*\]|[<>~!=;@]).*|activemq[._-]+(fleet|agent)", re.IGNORECASE
)
_PLACEHOLDER_PREFIX = "missing-password-"
_MISSING_PASSWORD = re.compile(rf"{_PLACEHOLDER_PREFIX}([A-Za-z0-9._-]*[A-Za-z0-9_])")
_SOURCE_WITHOUT_ARCHIVE = {
    "none": "with activemq_install: none, the release must already be in activemq_home on each host",
    "package": "with activemq_install: package, the Debian package determines the release",
}
_ARCHIVE = re.compile(r"apache-activemq-(\d+\.\d+\.\d+)-bin\.(?:tar\.gz|zip)")


def site_playbook_refusal_findings(fleet: Fleet) -> Iterator[Finding]:
    """Yield a warning for each reason why the playbook ``site`` refuses a host (T030)."""
    for broker in fleet.brokers:
        for message, fix in _broker_refusals(broker):
            yield _refusal_finding(broker.host, message, fix)
    for agent in fleet.agents:
        for message, fix in _agent_refusals(agent):
            yield _refusal_finding(agent.host, message, fix)


def placeholder_of_missing_password(label: str) -> str:
    """Return the text that replaces a password in an inventory while the password file ``.secrets/LABEL`` is missing.

    An inventory that ``activemq-fleet adopt`` wrote has this value until the file exists.
    """
    return f"{_PLACEHOLDER_PREFIX}{label}"


def missing_archive_findings(fleet: Fleet) -> Iterator[Finding]:
    """Yield a warning for each missing release archive (T031).

    It is configured, and does not exist on this machine. This machine is perhaps not the controller.
    """
    for broker in fleet.brokers:
        archive = broker.settings.release_archive_path_or_url()
        if broker.settings.install in ("archive", "jars") and archive and _is_missing(archive):
            yield Finding(
                rule=MISSING,
                severity="warning",
                host=broker.host,
                message=f"activemq_archive is the file {archive}, which does not exist on the machine where this check "
                "runs",
                fix=f"copy the release archive to {archive} on this machine. If the `site` playbook runs on another "
                "machine, add a waiver of T031 to activemq_waivers",
                why="the `site` playbook installs the release from this file",
            )


def archive_unused_by_install_method_findings(fleet: Fleet) -> Iterator[Finding]:
    """Yield a warning for each ``activemq_archive`` that the playbook ``site`` does not install (T042).

    The reason is the value of ``activemq_install``.
    """
    for broker in fleet.brokers:
        settings = broker.settings
        values = {"activemq_archive": settings.archive, "activemq_archive_sha512": settings.archive_sha512}
        names = [variable for variable, value in values.items() if value is not None]
        if names and settings.install in ("none", "package"):
            is_one = len(names) == 1
            yield Finding(
                rule=IGNORED,
                severity="warning",
                host=broker.host,
                message=f"{' and '.join(names)} {'is' if is_one else 'are'} set, but activemq_install is "
                f"{settings.install}, so the `site` playbook ignores {'this variable' if is_one else 'both'}",
                fix="to install the release from the archive, set activemq_install: archive. Otherwise remove "
                + " and ".join(names),
                why=_SOURCE_WITHOUT_ARCHIVE[settings.install],
            )


def _is_missing(archive: str) -> bool:
    """Return whether an archive's file is absent; False for a URL, and for a relative path, which Ansible searches."""
    path = os.path.expanduser(archive)
    return "://" not in archive and os.path.isabs(path) and not os.path.exists(path)


def reports_site_playbook_refusal(finding: Finding) -> bool:
    """Return whether a finding reports that the playbook ``site`` refuses hosts (T030).

    Waived findings do not count.
    """
    return finding.rule == RULE and finding.waived is None


def _refusal_finding(host: str, message: str, fix: str) -> Finding:
    text = f"{message}, so the `site` playbook will fail"
    why = "the `site` playbook checks the whole inventory first, and stops before it changes a host"
    return Finding(rule=RULE, severity="warning", host=host, message=text, fix=fix, why=why)


def _missing_password_refusals(settings: BaseModel) -> Iterator[tuple[str, str]]:
    labels = sorted({match[1] for text in _texts_in(settings) for match in _MISSING_PASSWORD.finditer(text)})
    if labels:
        files = ", ".join(f".secrets/{label}" for label in labels)
        is_plural = len(labels) > 1
        yield (
            f"the inventory reads {'passwords' if is_plural else 'a password'} from {files} in the directory of the "
            f"inventory, but {'these files do' if is_plural else 'this file does'} not exist",
            f"write the password to {'each file' if is_plural else 'the file'}, or replace the reference to the file "
            "in the variable with a password that ansible-vault encrypts. If it is a default password of ActiveMQ, "
            "choose another password, and configure it in the clients, too",
        )


def _texts_in(value: object) -> Iterator[str]:
    """Yield all texts and secrets of a value; of settings, those of the variables that the inventory sets."""
    match value:
        case str():
            yield value
        case SecretStr():
            yield value.get_secret_value()
        case BaseModel():
            for name in value.model_fields_set:
                yield from _texts_in(getattr(value, name))
        case Mapping():
            for item in value.values():
                yield from _texts_in(item)
        case list() | tuple():
            for item in value:
                yield from _texts_in(item)


def _broker_refusals(broker: Broker) -> Iterator[tuple[str, str]]:
    settings = broker.settings
    yield from _missing_password_refusals(settings)
    archive, sha512 = settings.release_archive_path_or_url(), settings.release_archive_sha512()
    if settings.install == "archive" and not (archive and sha512):
        values = {"activemq_archive": archive, "activemq_archive_sha512": sha512}
        missing = [variable for variable, value in values.items() if not value]
        yield (
            f"activemq_install is archive, but {' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not set",
            "set activemq_archive to the release's apache-activemq-VERSION-bin.tar.gz (a path on the controller or a "
            "URL), and activemq_archive_sha512 to the checksum that Apache publishes next to it. If the release is "
            "already installed, set activemq_install: none",
        )
    elif (
        settings.install == "archive" and archive and (archive_release := _mismatched_archive_release(archive, broker))
    ):
        yield (
            f"activemq_archive is {archive}, an archive of release {archive_release}, but activemq_release is "
            f"{broker.release.text}",
            f"set activemq_archive and activemq_archive_sha512 to the archive of {broker.release.text} and its "
            f"checksum, or set activemq_release to {archive_release}",
        )
    elif settings.install == "jars" and (not archive or "://" in archive):
        yield (
            f"activemq_install is jars, but activemq_archive is {f'a URL: {archive}' if archive else 'not set'}",
            "set activemq_archive to a directory or a tar archive of jars on the controller",
        )
    # A program that installs and runs the brokers itself, such as the lab, also starts their guards.
    if broker.has_guard and settings.service != "systemd" and settings.install != "none":
        yield (
            f"activemq_fence is {settings.fence}, which requires activemq_service: systemd, but activemq_service is "
            f"{settings.service}",
            "set activemq_service to systemd, whose service unit starts the guard (the program that protects the "
            "store), or set activemq_fence to none",
        )
    for account in broker.accounts:
        # T008 and T015 report this for links and agents.
        if account.password is None and not broker.networked and account.variable == "activemq_network_password":
            yield (
                "activemq_network_username is set, but activemq_network_password is not set",
                "set activemq_network_password and encrypt it with ansible-vault, or remove activemq_network_username",
            )


def _mismatched_archive_release(archive: str, broker: Broker) -> str | None:
    """Return the release in the name of Apache's archive if it is not the broker's; None for other names."""
    match = _ARCHIVE.fullmatch(archive.rpartition("/")[2])
    return match[1] if match and match[1] != broker.release.text else None


def _agent_refusals(agent: Agent) -> Iterator[tuple[str, str]]:
    yield from _missing_password_refusals(agent.settings)
    package = agent.settings.agent_package or ""
    if agent.settings.agent_install and _REQUIREMENT.fullmatch(package) and not pins_one_version(package):
        yield (
            f"activemq_agent_package is {package!r}, a pip requirement without an exact version",
            "set an exact version, such as activemq-agent==1.0, or the path of a wheel",
        )
    if agent.settings.agent_install and re.fullmatch(r"activemq_fleet-[^/]*\.whl", package.rpartition("/")[2]):
        yield (
            f"activemq_agent_package is {package}, a wheel of activemq-fleet, which does not contain the agent",
            "set activemq_agent_package to the wheel activemq_agent-VERSION-py3-none-any.whl of a release "
            "(`make package` builds it in a checkout)",
        )
