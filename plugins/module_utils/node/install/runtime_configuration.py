# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Applies changes that a running broker's runtimeConfigurationPlugin accepts without a restart, and checks its log.

The plugin checks the modification time of activemq.xml. It applies the supported part of a change, and silently ignores
the rest. So a file with an unsupported change gets the time of its predecessor, and the plugin does not read it. The
plugin supports links that are added at the end, users, and entries of the authorization map. Before 5.19.8, and from
6.0.0 to 6.2.6, a changed or removed link whose password is a reference keeps running (apache/activemq#2123). The plugin
never checks properties files, so it does not detect a changed password.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from xml.etree import ElementTree

from ..config import pending_restart
from ..config.broker_configuration import elements_with_local_name, parse_property_entries
from ..config.configuration_archive import ConfigurationFile
from ..config.versions import ConfigurationPaths, InstalledVersion
from ..files.untrusted_paths import UntrustedPathError, open_file
from ..host_paths import ACTIVEMQ_XML, BROKER_LOG
from ..log.broker_log import parse_records
from ..process.proc import find_broker_process
from ..text_lines import split_lines

_CREDENTIALS = "conf/credentials.properties"
_TIMEOUT = 30.0
_SETTLING_SECONDS = 1.0  # an error is logged within milliseconds after the start of a change
_POLL_SECONDS = 0.25
_MAX_LOG_BYTES = 16 << 20
"""Maximum bytes of the log that are searched for the plugin's records of one change."""
_PLUGIN_PACKAGE = "org.apache.activemq.plugin."
_CHANGE_DETECTED = re.compile(r"change in .+ at: .+|No material change to configuration in .+")
_LINK_STARTED = re.compile(r"started new network connector: .+")
_CHANGED_GROUP = re.compile(r"changes to (\w+)")
_CHANGE_FAILED = re.compile(
    r"[Ff]ailed |Unexpected |No runtime support |No processor |cannot find |stopped and removed "
)


@dataclass(frozen=True)
class LiveChange:
    """A live change: a change of activemq.xml that a running broker can apply without a restart.

    The runtimeConfigurationPlugin applies it. ``links`` is the number of new network connectors; ``plugins``: whether
    accounts or permissions changed.
    """

    links: int
    plugins: bool
    period: float
    """Seconds between two checks of the file by the plugin (``checkPeriod``)."""


@dataclass(frozen=True)
class LogEndPosition:
    """The end of a broker's log file at some time (path, inode and size), to read only records written later."""

    path: str
    inode: int
    size: int


def live_change_of_configuration(
    layout: ConfigurationPaths,
    changed: Iterable[str],
    old: InstalledVersion | None,
    tree: Mapping[str, ConfigurationFile],
) -> LiveChange | None:
    """Return the change of activemq.xml that a new configuration makes, if the broker can apply it without a restart.

    Returns None if the change requires a restart, does not concern activemq.xml, or the broker does not run. Returns
    None also for a file that was changed by hand, because the broker runs with an unknown part of that change.
    ``changed``: the paths of the changed files. ``old``: the installed version. ``tree``: the new files by path.
    """
    if (
        old is None
        or ACTIVEMQ_XML not in tree
        or find_broker_process(layout.base) is None
        or pending_restart.read_pending_restart(layout) is not None
    ):
        return None
    paths_requiring_restart = {path for path in changed if pending_restart.restart_reasons([path], old, tree)}
    if not paths_requiring_restart <= {ACTIVEMQ_XML, _CREDENTIALS} or ACTIVEMQ_XML not in paths_requiring_restart:
        return None
    contents = {path: old.read_installed_file(path) for path in (ACTIVEMQ_XML, _CREDENTIALS)}
    for path, content in contents.items():
        if old.manifest.get(path) != (None if content is None else hashlib.sha256(content).hexdigest()):
            return None
    if not _are_passwords_unchanged(contents[_CREDENTIALS], tree.get(_CREDENTIALS)):
        return None
    return live_change_of_activemq_xml(contents[ACTIVEMQ_XML] or b"", tree[ACTIVEMQ_XML].content)


def _are_passwords_unchanged(old: bytes | None, new: ConfigurationFile | None) -> bool:
    before = dict(parse_property_entries((old or b"").decode("latin-1")))
    after = dict(parse_property_entries((new.content if new else b"").decode("latin-1")))
    return all(after.get(name, value) == value for name, value in before.items())


def live_change_of_activemq_xml(old: bytes, new: bytes) -> LiveChange | None:
    """Return the change between two contents of activemq.xml if a broker can apply it without a restart, else None.

    Returns None also if one of the files does not configure the runtimeConfigurationPlugin. Files without a difference
    have a live change without links and plugins. Pure.
    """
    try:
        before, after = _ParsedActivemqXml(old), _ParsedActivemqXml(new)
    except ElementTree.ParseError:
        return None
    if not before.period or before.rest != after.rest or before.links != after.links[: len(before.links)]:
        return None
    added = len(after.links) - len(before.links)
    return LiveChange(added, before.accounts != after.accounts, before.period)


class _ParsedActivemqXml:
    """An activemq.xml in parts: links and accounts, which the plugin supports, and the rest."""

    def __init__(self, data: bytes) -> None:
        root = ElementTree.fromstring(data)  # noqa: S314 -- the fleet's own file
        self.links: list[str] = []
        self.accounts: list[str] = []
        self.period = 0.0
        for plugin in elements_with_local_name(root, "runtimeConfigurationPlugin"):
            self.period = int(plugin.get("checkPeriod", "0")) / 1000
        for broker in elements_with_local_name(root, "broker"):
            for group in [child for child in broker if child.tag.rpartition("}")[2] == "networkConnectors"]:
                self.links += [_canonical_text(link) for link in group]
                broker.remove(group)
        for plugin in [
            *elements_with_local_name(root, "simpleAuthenticationPlugin"),
            *elements_with_local_name(root, "authorizationEntries"),
        ]:
            self.accounts.append(_canonical_text(plugin))
            plugin.clear()
        self.rest = _canonical_text(root)


def _canonical_text(element: ElementTree.Element) -> str:
    """Return the element as text, without regard to white space, comments and the order of attributes."""
    return ElementTree.canonicalize(ElementTree.tostring(element, encoding="unicode"), strip_text=True)


def trigger_configuration_reload(layout: ConfigurationPaths, version: str) -> None:
    """Make a running broker reload the activemq.xml of the installed configuration version ``version``.

    Touches the file, so that the runtimeConfigurationPlugin reads it.
    """
    os.utime(os.path.join(layout.directory(version), ACTIVEMQ_XML))


def suppress_configuration_reload(layout: ConfigurationPaths, version: str, previous: str | None) -> None:
    """Suppress the broker's reload of a new activemq.xml at runtime, by keeping the file's modification time.

    Sets the modification time to that of its predecessor, so that runtimeConfigurationPlugin ignores it. Used for a
    change that requires a restart, and of which the plugin would apply a part.
    """
    old = os.path.join(layout.directory(previous), ACTIVEMQ_XML) if previous else ""
    new = os.path.join(layout.directory(version), ACTIVEMQ_XML)
    try:
        with open(old, "rb") as file:
            if b"runtimeConfigurationPlugin" not in file.read():
                return
        old_mtime = os.stat(old).st_mtime_ns
        if os.stat(new).st_mtime_ns > old_mtime:
            os.utime(new, ns=(old_mtime, old_mtime))
    except FileNotFoundError:
        return


def log_end_position(layout: ConfigurationPaths) -> LogEndPosition:
    """Return the present end of a broker's log file (path, inode and size), to read only records written later.

    Inode and size are 0 if the file cannot be opened.
    """
    path = os.path.join(layout.data, BROKER_LOG)
    try:
        descriptor = open_file(path)
    except (OSError, UntrustedPathError):
        return LogEndPosition(path, 0, 0)
    status = os.fstat(descriptor)
    os.close(descriptor)
    return LogEndPosition(path, status.st_ino, status.st_size)


def wait_until_live_change_applied(since: LogEndPosition, live_change: LiveChange) -> bool:
    """Wait until a broker's log reports the result of a live change, and return whether the change was applied.

    Returns False if the change failed, or was not reported within 30 s after the broker's next check of the file.
    """
    deadline = time.monotonic() + live_change.period + _TIMEOUT
    while time.monotonic() < deadline:
        change_outcome = has_live_change_succeeded(_read_log_since(since), live_change)
        if change_outcome is False:
            return False
        if change_outcome:
            time.sleep(_SETTLING_SECONDS)
            return has_live_change_succeeded(_read_log_since(since), live_change) is True
        time.sleep(_POLL_SECONDS)
    return False


def has_live_change_succeeded(log_lines: Iterable[str], live_change: LiveChange) -> bool | None:
    """Return whether a configuration change succeeded, from lines of a broker's log; None if they report no result.

    True means that the change was applied, False that it failed. Only records of the plugin count, and no records of
    threads that serve a client. Pure.
    """
    seen, links, groups = False, 0, set()
    for record in parse_records(log_lines):
        if not record.logger.startswith(_PLUGIN_PACKAGE) or record.is_of_client_thread:
            continue
        if _CHANGE_FAILED.match(record.message):
            return False
        seen = seen or bool(_CHANGE_DETECTED.match(record.message))
        links += bool(_LINK_STARTED.match(record.message))
        changed = _CHANGED_GROUP.match(record.message)
        if changed:
            groups.add(changed[1])
    if seen and links >= live_change.links and ("Plugins" in groups or not live_change.plugins):
        return True
    return None


def _read_log_since(since: LogEndPosition) -> list[str]:
    """Return the log's lines after a position; if the log was rotated since then, also the end of the old file."""
    data = b""
    for path in (since.path + ".1", since.path):
        try:
            with os.fdopen(open_file(path), "rb") as file:
                status = os.fstat(file.fileno())
                if status.st_ino == since.inode:
                    file.seek(since.size)
                elif path != since.path:
                    continue
                data += file.read(_MAX_LOG_BYTES)
        except (OSError, UntrustedPathError):
            continue
    return split_lines(data.decode(errors="replace"))
