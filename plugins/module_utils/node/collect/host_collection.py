# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Collects a host's evidence for ``activemq.fleet.collect``: reads, masks and packs it. It changes nothing on the host.

Small, important files come first, then logs and journals, newest first, up to the size limit. Files that cannot be
collected are listed, and the collection continues.
"""
# pylint: disable=ansible-bad-function # The package also runs without Ansible, which has no run_command there.

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import Any

from .. import masking
from ..config.versions import ConfigurationPaths, InstalledVersion, read_installed_configuration
from ..errors import NodeError
from ..host_paths import COLLECTED_CONFIGURATION, OPERATIONS_FILE
from ..log.log_file_names import is_broker_log_path, is_date_directory, is_similar_to_broker_log
from ..masking import KnownSecrets
from ..printable import count_with_noun
from ..process.proc import (
    Process,
    boot_id,
    find_broker_process,
    read_proc_file,
    read_process,
    seconds_since_boot,
    uid_of_broker_data_owner,
)
from ..state import machine, operation_record_file
from ..state.broker_state import gather_broker_state
from . import deployed_files, thread_dumps
from .broker_time_zone import broker_timezone
from .evidence_archive import NEWEST_ONLY, TIME_IS_OVER, EvidenceArchive, open_matching_files

ARGUMENTS: dict[str, dict[str, Any]] = {
    "archive": {"type": "path"},
    # The action plugin uses these three on the controller.
    "to": {"type": "path", "required": True},
    "state": {"type": "str", "choices": ["opened", "collected"], "default": "collected"},
    "about": {"type": "dict", "default": {}},
    "broker": {"type": "dict"},
    "agent": {"type": "dict"},
    "megabytes": {"type": "int", "default": 200},
    "seconds": {"type": "int", "default": 600},
    "days": {"type": "int", "default": 7},
    "dumps": {"type": "str", "choices": ["hung", "always", "never"], "default": "hung"},
}
_OTHER_LOGS = re.compile(r"(?:hs_err_pid|audit\.log|console\.log|wrapper\.log)")
_UNIT_FILE = re.compile(r"systemd/[^/]+\.(?:service|timer)")
_EVENT_JOURNAL = re.compile(r".*\.jsonl(?:\.\d+)?(?:\.gz)?")
# The fraction of the size limit that one journal of systemd may use.
_JOURNAL_SHARE = 8
_MAX_ENTRIES = 50_000
_MAX_UNREAD_LOGS = 100
_TIMEOUT = 60
_UNREAD_LOG = (
    "the name of the file is similar to that of a broker log, but audit does not read logs with this name. If the file "
    "contains records of the broker and is compressed, unpack it, or pack it with gzip. Rename it to "
    "activemq.log.NUMBER or activemq-YYYY-MM-DD-NUMBER.log in the data directory, with .gz if it is packed with gzip, "
    "and set filePattern in the logging configuration to activemq.log.%i or activemq-%d{yyyy-MM-dd}-%i.log"
)


def write_evidence_archive(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Write the archive of the evidence of a broker: its logs, files and facts.

    Returns the result of the module collect. Raises NodeError with one line when there can be no archive.
    """
    if parameters["megabytes"] < 1:
        raise NodeError(
            f"the option megabytes of the module collect is {parameters['megabytes']}, but must be at least 1: "
            "correct activemq_collect_megabytes"
        )
    if parameters.get("seconds", 600) < 1:
        raise NodeError(
            f"the option seconds of the module collect is {parameters['seconds']}, but must be at least 1: "
            "correct activemq_collect_timeout"
        )
    if parameters["days"] < 0:
        raise NodeError(
            f"the option days of the module collect is {parameters['days']}, but must be at least 0: "
            "correct activemq_collect_days"
        )
    bundle = EvidenceArchive(parameters["archive"], parameters["megabytes"] << 20, parameters.get("seconds", 600))
    collection = _HostCollection(bundle, parameters["days"], parameters["dumps"])
    try:
        facts = collection.run(parameters.get("broker"), parameters.get("agent"))
        bundle.make_readable_by_login_account()
    except OSError as error:
        path = error.filename or parameters["archive"]
        raise NodeError(
            f"the files of this host cannot be collected ({path}: {error.strerror or error}): correct this error, and "
            "run the playbook collect again"
        ) from None
    finally:
        bundle.close()
    summary = {"facts": facts, "left_out": bundle.left_out, "notes": collection.notes}
    masked_summary = {name: masking.mask_json_value(value, collection.known) for name, value in summary.items()}
    size = os.path.getsize(parameters["archive"])
    return {"changed": False, "files": bundle.files, "bytes": size, **masked_summary}


class _HostCollection:
    """A collection of one host's evidence, with the known secrets of the host's files in ``known``."""

    def __init__(self, bundle: EvidenceArchive, days: int, dumps: str) -> None:
        self.bundle, self.days, self.dumps = bundle, days, dumps
        self.notes: list[str] = []
        self.known = masking.NO_SECRETS

    def run(self, broker: Mapping[str, Any] | None, agent: Mapping[str, Any] | None) -> dict[str, Any]:
        homes = []
        if broker:
            homes.append(ConfigurationPaths(os.path.abspath(broker["base"])))
        if agent:
            homes.append(ConfigurationPaths(f"{agent['config']}.d", agent["config"], ""))
        self.known = KnownSecrets(
            deployed_files.known_secrets([version for home in homes for version in _installed_versions(home)])
        )
        if self.known.word_like_secret_count:
            number = count_with_noun(self.known.word_like_secret_count, "secret")
            self.notes.append(
                f"the variables of this host contain {number} whose value is a short or common word. These words are "
                "masked only as values of password settings, so they may be readable elsewhere in the collected files. "
                "Search the collected files for these words before you share the files"
            )
        facts = _machine_facts()
        process = find_broker_process(homes[0].base, broker.get("unit")) if broker else None
        if broker:
            facts["broker"] = self._collect_broker(broker, homes[0], process)
        if agent:
            facts["agent"] = {"version": _current_version_name(homes[-1])}
        facts["timezone"] = broker_timezone(process)
        trees = [self._add_tree(home, COLLECTED_CONFIGURATION) for home in homes]
        deployed_files.add_deployed_file_status([tree for tree in trees if tree], self.bundle, COLLECTED_CONFIGURATION)
        for part, tree in zip([part for part in (broker, agent) if part], trees):
            if part.get("unit"):
                # The unit of a watchdog is next to the broker's unit.
                nearby_units = {
                    os.path.basename(path) for path in (tree.files if tree else ()) if _UNIT_FILE.fullmatch(path)
                }
                for unit in sorted({part["unit"], *nearby_units}):
                    self._collect_unit(unit)
        # Brokers of a lab have no units and share one machine: each has its records next to its base directory.
        is_lab = bool(broker) and not (broker or {}).get("unit")
        records = os.path.dirname(homes[0].base) if is_lab else operation_record_file.DIRECTORY if broker else ""
        self._add_logs(homes[0].data if broker else "", agent["state"] if agent else "", records)
        return facts

    def _add_tree(self, home: ConfigurationPaths, prefix: str) -> deployed_files.MaskedTree | None:
        directory_and_prefix = _directory_in_use(home)
        if directory_and_prefix is None:
            self.notes.append(
                f"no configuration was collected, because the directory {home.base} contains no configuration. Run "
                "the playbook site to install the configuration"
            )
            return None
        directory, prefix = directory_and_prefix[0], prefix + directory_and_prefix[1]
        tree = deployed_files.read_masked_tree(directory, self.known, self.bundle, prefix)
        deployed_files.add_tree(tree, self.bundle, prefix)
        return tree

    def _collect_broker(
        self, broker: Mapping[str, Any], home: ConfigurationPaths, process: Process | None
    ) -> dict[str, Any]:
        try:
            broker_state: dict[str, Any] = gather_broker_state(home.base, broker.get("unit"))
        except (NodeError, OSError) as error:
            self.notes.append(
                f"the collection does not contain the state of the broker in {home.base}, because the state "
                f"cannot be determined ({error}). Correct this error, and run the playbook collect again"
            )
            broker_state = {"state": None, "how": str(error)}
        broker_state.pop("changed", None)
        if process:
            self._collect_process(process, broker_state["state"])
        running = broker_state.get("previous")
        directory = home.directory(running) if running else ""
        if running and os.path.isdir(directory):
            self.notes.append(
                f"the broker in {home.base} still runs with configuration version {running}, not with the installed "
                f"version. The directory 'running' of this collection contains the files of version {running}"
            )
            tree = deployed_files.read_masked_tree(directory, self.known, self.bundle, "running/")
            deployed_files.add_tree(tree, self.bundle, "running/")
        for name, place in (("store", broker_state.get("store") or broker.get("store")), ("data", home.data)):
            if place:
                self._add_listing(name, place, uid_of_broker_data_owner(home.base))
        return broker_state

    def _collect_process(self, process: Process, state: str | None) -> None:
        status = read_proc_file(process.pid, "status") + read_proc_file(process.pid, "limits")
        command = masking.mask_command_line(process.command, self.known)
        self._add_text("process.txt", "\n".join([*command, "", status]))
        if self.dumps == "never" or (self.dumps == "hung" and state != "hung"):
            return
        self._add_text("threads/kernel.txt", thread_dumps.os_thread_states_text(process.pid))
        dumps = thread_dumps.take_thread_dumps(read_process(process.pid) or process)
        self.notes += dumps.notes
        for number, text in enumerate(dumps.texts, 1):
            self._add_text(f"threads/{number}.txt", text)

    def _add_listing(self, name: str, directory: str, account: int | None) -> None:
        """Add a list of the names, sizes and times of the entries of a directory, without contents, read as an account.

        ``find`` has a time limit, so that a share whose server is unreachable does not block the collection.
        """
        result = _run_command(["find", directory, "-xdev", "-printf", r"%s\t%TY-%Tm-%TdT%TTZ\t%y\t%P\0"], account)
        entries = [] if result is None else result.decode(errors="replace").split("\0")[:-1]
        if not entries:
            self.notes.append(
                f"the collection has no list of the files in {directory}, because find cannot read this directory. "
                "Check its mount and its permissions"
            )
            return
        if len(entries) > _MAX_ENTRIES:
            self.bundle.leave_out(f"{name}.txt", 0, f"the file lists only {_MAX_ENTRIES} of {len(entries)} entries")
        lines = sorted(entries[:_MAX_ENTRIES], key=lambda line: line.split("\t", 3)[3])
        self._add_text(f"listing/{name}.txt", "\n".join([directory, *lines, ""]))
        if name == "data":
            self._leave_out_unread_logs(entries)

    def _leave_out_unread_logs(self, entries: list[str]) -> None:
        """List the files as omitted whose names are only similar to that of a broker log.

        The first 100 files get one entry each, and the others share one entry with their number.
        """
        unread_logs = []
        for entry in entries:
            size, _time, kind, path = entry.split("\t", 3)
            if kind == "f" and is_similar_to_broker_log(path):
                unread_logs.append((path, int(size)))
        unread_logs.sort()
        for path, byte_count in unread_logs[:_MAX_UNREAD_LOGS]:
            self.bundle.leave_out(path, byte_count, _UNREAD_LOG)
        others = unread_logs[_MAX_UNREAD_LOGS:]
        if others:
            name = f"and {count_with_noun(len(others), 'more file')}"
            self.bundle.leave_out(name, sum(byte_count for _path, byte_count in others), _UNREAD_LOG)

    def _collect_unit(self, unit: str) -> None:
        if not shutil.which("systemctl"):
            return
        for name, command in (
            (f"units/{unit}", ["systemctl", "cat", "--no-pager", unit]),
            (f"units/{unit}.show", ["systemctl", "show", "--no-pager", unit]),
        ):
            text = _run_command(command)
            if text:
                self._add_text(name, text.decode(errors="replace"))
        command = ["journalctl", f"--unit={unit}", f"--since=-{self.days}d", "--output=short-iso-precise", "--utc"]
        journal, dropped = _run_and_keep_tail(
            [*command, "--no-pager"], self.bundle.limit // _JOURNAL_SHARE, self.bundle.remaining_seconds
        )
        if dropped:
            self.bundle.leave_out(f"journal/{unit}.log", dropped, NEWEST_ONLY)
        self._add_text(f"journal/{unit}.log", journal)

    def _add_logs(self, data: str, state: str, records: str) -> None:
        opened = open_matching_files(data, is_broker_log_path, "", self.bundle, is_date_directory) if data else []
        opened += (
            open_matching_files(data, lambda name: bool(_OTHER_LOGS.match(name)), "more/", self.bundle) if data else []
        )
        if state:
            journals = os.path.join(state, "agent")
            opened += open_matching_files(
                journals, lambda name: bool(_EVENT_JOURNAL.fullmatch(name)), "agent/", self.bundle
            )
        if records:
            opened += open_matching_files(records, lambda name: name == OPERATIONS_FILE, "", self.bundle)
        self.bundle.add_masked_logs(opened, lambda text: masking.mask_text(text, self.known))

    def _add_text(self, name: str, text: str) -> None:
        if text.strip() and self.bundle.is_time_over():
            self.bundle.leave_out(name, len(text), TIME_IS_OVER)
        elif text.strip():
            self.bundle.add_file(name, masking.mask_text(text, self.known).encode(errors="replace"))


def _machine_facts() -> dict[str, Any]:
    system = os.uname()
    return {
        "kernel": f"{system.sysname} {system.release} {system.machine}",
        "boot_id": boot_id(),
        "uptime": round(seconds_since_boot()),
        "clock_synchronised": machine.is_clock_synchronized(),
        "collected": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def _installed_versions(home: ConfigurationPaths) -> list[InstalledVersion]:
    """Return the installed versions of a configuration, the version in force first.

    The first version names the variable if two have the same value.
    """
    try:
        current = home.current_version()
    except NodeError:
        current = None
    others = [read_installed_configuration(home.directory(name)) for name in home.version_names()]
    return [version for version in (current, *others) if version]


def _current_version_name(home: ConfigurationPaths) -> str | None:
    try:
        name: str | None = home.current_version_name()
        return name
    except NodeError:
        return None


def _directory_in_use(home: ConfigurationPaths) -> tuple[str, str] | None:
    """Return the directory of a configuration in use and its path prefix in the archive; None without a directory."""
    name = _current_version_name(home)
    places = [(home.directory(name), "")] if name else [(home.current, ""), (os.path.join(home.base, "conf"), "conf/")]
    return next((place for place in places if os.path.isdir(place[0])), None)


def _run_command(command: list[str], account: int | None = None) -> bytes | None:
    """Return the standard output of a command, None if it fails. ``account``: the uid that root runs it as."""
    account_options: dict[str, Any] = {}
    if account and os.geteuid() == 0:
        entry = _account_entry(account)
        groups = os.getgrouplist(entry.pw_name, entry.pw_gid) if entry else []
        account_options = {"user": account, "group": entry.pw_gid if entry else account, "extra_groups": groups}
    try:
        environment = {**os.environ, "TZ": "UTC", "LC_ALL": "C"}
        result: subprocess.CompletedProcess[bytes] = subprocess.run(
            command, capture_output=True, timeout=_TIMEOUT, check=False, env=environment, cwd="/", **account_options
        )
        return result.stdout
    except (OSError, subprocess.SubprocessError):
        return None


def _account_entry(uid: int) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwuid(uid)
    except KeyError:
        return None


def _run_and_keep_tail(command: list[str], limit: int, seconds: float) -> tuple[str, int]:
    """Return the last ``limit`` bytes of a command's output, from the start of a line, and how many bytes came before.

    The command is killed after ``seconds``; its output until then is returned.
    """
    last_lines: deque[bytes] = deque()
    size = dropped = 0
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    except OSError:
        return "", 0
    timer = threading.Timer(min(max(1.0, seconds), threading.TIMEOUT_MAX), process.kill)
    timer.start()
    with process:
        for line in process.stdout or ():
            last_lines.append(line)
            size += len(line)
            while size > limit and last_lines:
                dropped_size = len(last_lines.popleft())
                size, dropped = size - dropped_size, dropped + dropped_size
    timer.cancel()
    return b"".join(last_lines).decode(errors="replace"), dropped
