"""List the files that the playbook ``collect`` wrote, and the hosts from which they come.

``DIR/HOST/activemq.log*`` and the other names of ``node.log.log_file_names``, ``DIR/HOST/agent/*.jsonl*``,
``DIR/HOST/journal/*.service.log*``, ``DIR/HOST/host.json``, ``DIR/HOST/operations.jsonl``. Listed and read through
Spark, so that DIR may be any path that Hadoop reads. Spark reads no file of no bytes; those are listed separately.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote

from activemq_fleet import InputError
from activemq_fleet.audit.evidence import DurableSubscriptionMessageLossRisk
from activemq_fleet.audit.omitted_files import HostLogFiles, MissingOrIncompleteFile, parse_omitted_files
from activemq_fleet.audit.operation_records import PlannedOperation, parse_planned_operations
from activemq_fleet.audit.result import AuditInputSummary, InputGap
from activemq_fleet.audit.unit_journals import LARGEST_UNIT_JOURNAL
from activemq_fleet.logs.decompression import is_compressed_file_name
from activemq_fleet.logs.zones import time_zone_of
from activemq_fleet.naming import Naming
from activemq_fleet.node.foreign_data import parse_untrusted_json
from activemq_fleet.node.host_paths import OPERATIONS_FILE
from activemq_fleet.node.log.log_file_names import is_broker_log_path, is_date_directory, is_similar_to_broker_log
from activemq_fleet.node.printable import escape_unprintable
from activemq_fleet.spark.input_directory import check_no_outside_links
from activemq_fleet.spark.paths import local_path, path_relative_to_root, uri_of, uri_with_escaped_wildcards
from activemq_fleet.spark.settings import temporary_settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FileKind = Literal["log", "journal", "unit_journal", "host", "operations", "unread_log", "other"]

HOST_FILE = "host.json"
_FILE_NAMES_PATTERN = f"{{*activemq*.log*,*.jsonl*,*.service.log*,{HOST_FILE}}}"
_HOST_FILES_PATTERN = f"{{{HOST_FILE},{OPERATIONS_FILE}}}"
_NO_LOG_MESSAGE = "no log of a broker or agent was collected from this host: run the playbook collect again"
_COLLECTED_DIRECTORIES = ("agent/", "configuration/", "journal/", "listing/", "more/", "running/", "threads/", "units/")
"""The directories that ``collect`` makes for files other than the logs of a broker."""
_LOG_KINDS = ("log", "unread_log")
_READ_KINDS = ("log", "journal", "unit_journal", "operations", "unread_log")
_EMPTY_GZIP_FILE = "the gzip file is empty, so its records are missing: collect it from the host again"
_UNREAD_LOG = (
    "the audit does not read this file, although its name is similar to that of a broker log. If it contains records "
    "of the broker, move them to HOST/activemq.log.NUMBER or HOST/activemq-YYYY-MM-DD-NUMBER.log, as text or packed "
    "with gzip. Otherwise remove the file"
)
_MAXIMUM_TEXT_LENGTH = 1000
"""Characters of a text in host.json."""
_MAXIMUM_RISKS = 100
_GENERATION_LIMIT = 10**9
"""No generation has this number, or a larger one."""
LARGEST_HOST_FILE = 1 << 24
"""Bytes of a host.json or operations.jsonl that is read."""
_TASKS_FROM, _NEVER = "spark.sql.sources.parallelPartitionDiscovery.threshold", str((1 << 31) - 1)


@dataclass(frozen=True, slots=True)
class AuditedHost:
    """A host whose logs are audited.

    It is described by its host.json, else by the inventory, else by its name alone. ``timezone`` is that of its logs'
    times, UTC where it is not known; ``release`` that of its broker. ``generations`` are number and time of those that
    its guard made of a fenced store. ``risks`` are the records in its store. ``problems`` are lines about the
    assumptions that were necessary. ``operations``: the planned work that its operations.jsonl records. ``agent``: the
    name in journals of the agent that the inventory has on it. ``state``: the state of its broker at the time
    ``collected``. ``unit``: the name of its broker's unit. ``omitted``: the files that ``collect`` did not bring
    completely.
    """

    host: str
    timezone: str = "UTC"
    release: str | None = None
    group: str | None = None
    pair: str | None = None
    store: str | None = None
    generations: tuple[tuple[int, float], ...] = ()
    risks: tuple[DurableSubscriptionMessageLossRisk, ...] = ()
    problems: tuple[str, ...] = ()
    operations: tuple[PlannedOperation, ...] = ()
    agent: str | None = None
    state: str | None = None
    collected: datetime | None = None
    unit: str | None = None
    omitted: tuple[MissingOrIncompleteFile, ...] = ()


@dataclass(frozen=True, slots=True)
class InputFile:
    """One input file of an audit, which was collected from a host.

    ``path`` is its URI, ``file`` its path below the host's directory, ``size`` its bytes on disk. ``compressed``:
    whether its name ends with .gz.
    """

    path: str
    host: str
    file: str
    kind: FileKind
    size: int
    compressed: bool


@dataclass(frozen=True, slots=True)
class AuditInputs:
    """The collected files that an audit of broker logs reads, and the hosts that they were collected from.

    The files are below the URI ``root``, sorted by host and name; the hosts are by name. ``problems`` are lines for the
    user about files and hosts. ``agent_hosts``: the inventory's hosts by the names of their agents. ``empty_files`` are
    the files of no bytes, which are not among ``files``.
    """

    root: str
    files: tuple[InputFile, ...]
    hosts: Mapping[str, AuditedHost]
    problems: tuple[str, ...]
    agent_hosts: Mapping[str, str] = field(default_factory=dict)
    empty_files: tuple[InputFile, ...] = ()

    def files_of_kind(self, kind: FileKind) -> tuple[InputFile, ...]:
        """Return the collected files of one kind, such as ``log`` or ``journal``, from the input of an audit.

        They are sorted by host and name.
        """
        return tuple(file for file in self.files if file.kind == kind)

    def log_files_by_host(self) -> dict[str, HostLogFiles]:
        """Return the log files of each host with at least one log to read, with empty and omitted files, by host."""
        names = {file.host: dict[str, None]() for file in self.files_of_kind("log")}
        unusable: dict[str, list[str]] = {}
        for file in (*self.files, *self.empty_files):
            if file.kind == "log" and file.host in names:
                names[file.host][file.file] = None
                if not file.size and file.compressed:
                    unusable.setdefault(file.host, []).append(file.file)
        log_files = {}
        for host, files in names.items():
            omitted = {file.path: file for file in self.hosts[host].omitted if _omitted_kind(file) in _LOG_KINDS}
            names_of_omitted = (path for path in omitted if file_kind(path) == "log")
            log_files[host] = HostLogFiles(
                tuple(dict.fromkeys([*files, *names_of_omitted])),
                omitted,
                tuple(unusable.get(host, ())),
                self.hosts[host].collected is not None,
            )
        return log_files


def list_audit_inputs(
    spark: SparkSession, logs: str, inventory_hosts: Mapping[str, AuditedHost] | None = None
) -> AuditInputs:
    """List the collected files that an audit of broker logs reads, and return them with their hosts as AuditInputs.

    They are below ``logs``. Runs one small Spark job. ``inventory_hosts`` replace a missing host.json. Raises
    InputError when there is neither a log nor a journal, when ``logs`` is the directory of one host, and for a link
    that leads out of it.
    """
    check_no_outside_links(logs)
    root = uri_of(logs)
    listed, empty, contents = _list_files(spark, root, logs)
    files, empty_files = (tuple(sorted(part, key=lambda file: (file.host, file.file))) for part in (listed, empty))
    if not any(file.kind in ("log", "journal") for file in files):
        unread = [f"{file.host}/{file.file}" for file in files if file.kind == "unread_log"]
        similar = f". The audit does not read logs with names such as {unread[0]}" if unread else ""
        raise InputError(
            f"{logs}: this path contains no logs (HOST/activemq.log* or HOST/agent/*.jsonl*): name the directory that "
            f"the playbook collect wrote{similar}"
        )
    return inputs_from_files(root, files, contents, inventory_hosts, empty_files)


def inputs_from_files(
    root: str,
    files: tuple[InputFile, ...],
    contents: Mapping[tuple[str, str], bytes],
    inventory_hosts: Mapping[str, AuditedHost] | None,
    empty_files: tuple[InputFile, ...] = (),
) -> AuditInputs:
    """Return the input of an audit of broker logs: the given files with the data of the hosts that they come from.

    ``contents`` are those of host.json and operations.jsonl, by host and file name. ``inventory_hosts`` replace a
    missing host.json.
    """
    names = sorted({file.host for file in (*files, *empty_files)})
    hosts = {
        name: _with_operations(
            _read_host(name, contents.get((name, HOST_FILE)), inventory_hosts or {}),
            contents.get((name, OPERATIONS_FILE)),
        )
        for name in names
    }
    # host.json of a single broker has its group, and no pair.
    unknown = [
        name
        for name, host in hosts.items()
        if host.pair is None and host.group is None and name not in (inventory_hosts or {})
    ]
    known_pairs = {name: host.pair for name, host in hosts.items() if host.pair is not None}
    hosts |= {name: _with_pair(hosts[name], pair) for name, pair in _pairs_by_name(unknown, known_pairs).items()}
    problems = [f"{name}: {problem}" for name in names for problem in hosts[name].problems]
    problems += [*_problems_of_missing_files(files, hosts), *_problems_of_large_files(files)]
    agent_hosts = {host.agent: name for name, host in (inventory_hosts or {}).items() if host.agent}
    return AuditInputs(root, files, hosts, tuple(problems), agent_hosts, empty_files)


def add_hosts_and_list_input_gaps(
    inputs: AuditInputs, inventory_hosts: Mapping[str, AuditedHost] | None
) -> tuple[AuditInputs, list[InputGap]]:
    """Add an inventory's hosts to an audit's input, and return (input, gaps), where gaps are missing or unread files.

    Brokers that only the inventory has are added. There is a gap for each host without log and journal, for each file
    that ``collect`` omitted, for each empty gzip file, for each systemd journal that is too large, and for each file
    whose name is similar to that of a log.
    """
    hosts = dict(inputs.hosts)
    uncollected_hosts = {
        name: host
        for name, host in sorted((inventory_hosts or {}).items())
        if name not in hosts and (host.agent is None or host.release is not None)
    }
    hosts_with_files = {file.host for file in inputs.files if file.kind in ("log", "journal")}
    gaps = [
        InputGap(name, "nothing was collected from this host: run the playbook collect again")
        for name in uncollected_hosts
    ]
    gaps += [InputGap(name, _NO_LOG_MESSAGE) for name in sorted(hosts) if name not in hosts_with_files]
    gaps += [gap for name in sorted(hosts) for gap in _gaps_of_omitted_files(hosts[name])]
    gaps += [
        InputGap(file.host, _EMPTY_GZIP_FILE, file.file)
        for file in inputs.empty_files
        if file.compressed and file.kind in _READ_KINDS
    ]
    gaps += [InputGap(file.host, _UNREAD_LOG, file.file) for file in inputs.files_of_kind("unread_log")]
    gaps += [
        InputGap(
            file.host,
            f"the file is not read, because it has {file.size / (1 << 20):.0f} MiB, more than "
            f"{LARGEST_UNIT_JOURNAL >> 20} MiB. Without this file, the audit cannot explain the end of a broker that "
            "the watchdog killed: keep only the newest lines of the file",
            file.file,
        )
        for file in inputs.files_of_kind("unit_journal")
        if file.size > LARGEST_UNIT_JOURNAL
    ]
    return replace(inputs, hosts=hosts | uncollected_hosts), gaps


def _gaps_of_omitted_files(host: AuditedHost) -> list[InputGap]:
    """Return a gap for each file of a host that the audit would read, and that ``collect`` did not bring completely.

    Without operations.jsonl the audit reports planned work as incidents: this gap does not weigh.
    """
    gaps = []
    for file in host.omitted:
        kind = _omitted_kind(file)
        if kind in _READ_KINDS:
            what = f"the playbook collect did not bring this file, or not all of it: {file.why}"
            gaps.append(InputGap(host.host, what, file.path, weighs=kind != "operations"))
    return gaps


def _omitted_kind(file: MissingOrIncompleteFile) -> FileKind:
    """Return the kind of an omitted file or directory. The directory of the logs has a path on the host."""
    if file.path.startswith("/") or is_date_directory(file.path.rstrip("/")):
        return "log"
    return "journal" if file.path == "agent/" else file_kind(file.path)


def input_summary(inputs: AuditInputs) -> AuditInputSummary:
    """Return a summary of an audit's inputs: the numbers of hosts, logs and journals, and their size in bytes."""
    logs, journals = inputs.files_of_kind("log"), inputs.files_of_kind("journal")
    hosts = {file.host for file in inputs.files}
    size = sum(file.size for file in (*logs, *journals))
    return AuditInputSummary(inputs.root, len(hosts), len(logs), len(journals), size, inputs.problems)


def binary_files_dataframe(spark: SparkSession, paths: Sequence[str], **options: str) -> DataFrame:
    """Return a Spark DataFrame with one row for each file at the given paths, with the file's content as bytes.

    Its columns are path, modificationTime, length and content.
    """
    # Spark runs a separate task for each of many paths, which takes longer on one machine: an audit of 60
    # logs, 12 MB, took 11.2 s of the processors' time in place of 9.4.
    is_local = all(local_path(path) is not None for path in paths)
    with temporary_settings(spark, {_TASKS_FROM: _NEVER} if is_local else {}):
        return (
            spark.read.format("binaryFile")
            .options(**options)
            .load([uri_with_escaped_wildcards(path) for path in paths])
        )


def _list_files(
    spark: SparkSession, root: str, logs: str
) -> tuple[list[InputFile], list[InputFile], dict[tuple[str, str], bytes]]:
    """Return the files, the empty files, and the contents of host.json and operations.jsonl by host and file name."""
    from pyspark.sql import functions as sf

    everywhere = {"recursiveFileLookup": "true", "pathGlobFilter": _FILE_NAMES_PATTERN}
    listed = binary_files_dataframe(spark, [root], **everywhere).select(
        "path", "length", sf.lit(None).cast("binary").alias("content")
    )
    host_files = (
        binary_files_dataframe(spark, [root], **{**everywhere, "pathGlobFilter": _HOST_FILES_PATTERN})
        .where(f"length <= {LARGEST_HOST_FILE}")
        .select("path", "length", "content")
    )
    files, contents = dict[str, InputFile](), dict[tuple[str, str], bytes]()
    for row in listed.unionAll(host_files).toArrow().to_pylist():
        path = path_relative_to_root(root, row["path"])
        host, _, file = path.partition("/")
        if not file:
            if file_kind(host) == "log":
                raise InputError(f"{logs}: this is the directory of a single host: name its parent directory")
        elif row["content"] is None:
            files[path] = _input_file(row["path"], host, file, row["length"])
        elif file in (HOST_FILE, OPERATIONS_FILE):
            contents[host, file] = row["content"]
    empty_files = []
    for uri in map(unquote, listed.inputFiles()):
        path = path_relative_to_root(root, uri)
        host, _, file = path.partition("/")
        if file and path not in files:
            empty_files.append(_input_file(uri, host, file, 0))
    return list(files.values()), empty_files, contents


def _input_file(path: str, host: str, file: str, size: int) -> InputFile:
    return InputFile(path, host, file, file_kind(file), size, is_compressed_file_name(file))


def file_kind(file: str) -> FileKind:
    """Return the kind of a collected file, such as log or journal, by its path below the host's directory.

    An example of a path is ``agent/journal.jsonl``.
    """
    if is_broker_log_path(file):
        return "log"
    if re.fullmatch(r"agent/[^/]+\.jsonl[^/]*", file):
        return "journal"
    if re.fullmatch(r"journal/[^/]+\.service\.log[^/]*", file):
        return "unit_journal"
    if is_similar_to_broker_log(file) and not file.startswith(_COLLECTED_DIRECTORIES):
        return "unread_log"
    return "host" if file == HOST_FILE else "operations" if file == OPERATIONS_FILE else "other"


def _read_host(name: str, content: bytes | None, inventory_hosts: Mapping[str, AuditedHost]) -> AuditedHost:
    """Return a host by its host.json, else by the inventory, with the problems of its files."""
    problem = f"the file {HOST_FILE} is missing"
    if content is not None:
        try:
            host_record = parse_untrusted_json(content)
            if not isinstance(host_record, dict):
                raise ValueError("the file does not contain a JSON object")
            return _with_valid_time_zone(_host_of_file(name, host_record), [])
        except ValueError as error:
            problem = f"the file {HOST_FILE} cannot be used ({error})"
    if name in inventory_hosts:
        return _with_valid_time_zone(
            inventory_hosts[name], [f"{problem}. The audit uses group, pair and release from the inventory"]
        )
    return _with_valid_time_zone(
        AuditedHost(name),
        [f"{problem}. The audit reads the times in the logs of the host as UTC, and the release is unknown"],
    )


def _pairs_by_name(names: Collection[str], known_pairs: Mapping[str, str]) -> dict[str, str]:
    """Return the pair of each host whose name is that of one node of a pair, where both nodes exist.

    ``known_pairs`` are the pairs of other hosts. If the other node is one of them, its pair is that of both.
    """
    nodes: dict[tuple[str, str], list[str]] = {}
    for name in [*names, *known_pairs]:
        identity = Naming().identify_broker(name)
        if identity is not None:
            nodes.setdefault((identity.pair, identity.domain), []).append(name)
    domains = Counter(pair for pair, _ in nodes)
    pairs: dict[str, str] = {}
    for (pair, domain), members in nodes.items():
        pair_by_name = pair if domains[pair] == 1 or not domain else f"{pair}.{domain}"
        possible_pairs = {known_pairs[name] for name in members if name in known_pairs} or {pair_by_name}
        if len(members) > 1 and len(possible_pairs) == 1:
            pairs |= dict.fromkeys((name for name in members if name not in known_pairs), *possible_pairs)
    return pairs


def _with_pair(host: AuditedHost, pair: str) -> AuditedHost:
    assumption = f"the audit assumes from the name of the host that it is a node of the pair {pair}"
    return replace(host, pair=pair, problems=(*host.problems, assumption))


def _with_operations(host: AuditedHost, content: bytes | None) -> AuditedHost:
    if content is None:
        return host
    operations, problems = parse_planned_operations(host.host, content)
    return replace(host, operations=operations, problems=(*host.problems, *problems))


def _host_of_file(name: str, host_record: Mapping[str, Any]) -> AuditedHost:
    """Return the host that the content of host.json describes."""

    def text(key: str) -> str | None:
        value = host_record.get(key)
        return escape_unprintable(value[:_MAXIMUM_TEXT_LENGTH]) if isinstance(value, str) and value else None

    zone = text("timezone")
    without_zone = (
        f"the file {HOST_FILE} contains no time zone. The audit reads the times in the logs of the host as UTC"
    )
    problems = () if zone else (without_zone,)
    return AuditedHost(
        name,
        zone or "UTC",
        text("release"),
        text("group"),
        text("pair"),
        text("store"),
        _parse_generations(host_record.get("generations")),
        _parse_risks(host_record.get("risk_records")),
        problems,
        state=text("state"),
        collected=_parse_time(text("collected")),
        unit=_parse_unit(host_record.get("broker")),
        omitted=parse_omitted_files(host_record.get("left_out")),
    )


def _parse_time(text: str | None) -> datetime | None:
    """Return the time of a collection; None for a text that is not a time in UTC."""
    try:
        return datetime.strptime(text or "", "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError:
        return None


def _parse_unit(broker: Any) -> str | None:
    """Return the name of the broker's unit in the part ``broker`` of host.json; None where it has none."""
    unit = broker.get("unit") if isinstance(broker, dict) else None
    name = unit.get("Id") if isinstance(unit, dict) else None
    return name if isinstance(name, str) and name else None


def _parse_generations(rows: Any) -> tuple[tuple[int, float], ...]:
    """Return number and time of each generation of a fenced store in host.json; malformed rows are left out."""
    generations = []
    for row in rows if isinstance(rows, list) else ():
        number, made = (row.get("number"), row.get("made")) if isinstance(row, dict) else (None, None)
        if isinstance(number, int) and 0 <= number < _GENERATION_LIMIT and isinstance(made, int | float):
            generations.append((number, float(made)))
    return tuple(generations)


def _parse_risks(rows: Any) -> tuple[DurableSubscriptionMessageLossRisk, ...]:
    """Return the newest 100 records that host.json has of the host's store; malformed records are left out."""
    risks = []
    for row in rows if isinstance(rows, list) else ():
        with suppress(KeyError, TypeError, ValueError, OverflowError, OSError):
            path, description = row["path"], row["description"]
            if isinstance(path, str) and isinstance(description, str):
                texts = (escape_unprintable(text[:_MAXIMUM_TEXT_LENGTH]) for text in (path, description))
                risks.append(DurableSubscriptionMessageLossRisk(datetime.fromtimestamp(row["time"], UTC), *texts))
    return tuple(sorted(risks, key=lambda risk: risk.time)[-_MAXIMUM_RISKS:])


def _with_valid_time_zone(host: AuditedHost, problems: list[str]) -> AuditedHost:
    """Return the host with a time zone that exists, and with ``problems`` before its own."""
    problems = [*problems, *host.problems]
    try:
        time_zone_of(host.timezone)
    except InputError as error:
        return replace(
            host,
            timezone="UTC",
            problems=(*problems, f"{error}. The audit reads the times in the logs of the host as UTC"),
        )
    return replace(host, problems=tuple(problems))


def _problems_of_missing_files(files: Iterable[InputFile], hosts: Mapping[str, AuditedHost]) -> list[str]:
    """Return a line for each host without a log and a journal."""
    hosts_with_files = {file.host for file in files if file.kind in ("log", "journal")}
    return [f"{name}: {_NO_LOG_MESSAGE}" for name in hosts if name not in hosts_with_files]


def _problems_of_large_files(files: Iterable[InputFile]) -> list[str]:
    """Return a line for each host.json and operations.jsonl that is too large to be read."""
    what_to_do = {
        "operations": "Without this file, the audit does not know the planned work on the host: keep only the newest "
        f"lines of the file (tail -n 4000 {OPERATIONS_FILE} > new && mv new {OPERATIONS_FILE})",
        "host": "Group, release and time zone of the host are unknown: run the playbook collect again",
    }
    return [
        f"{file.host}: the file {file.file} is not read, because it has {file.size / (1 << 20):.0f} MiB, more than "
        f"{LARGEST_HOST_FILE >> 20} MiB. {what_to_do[file.kind]}"
        for file in files
        if file.kind in what_to_do and file.size > LARGEST_HOST_FILE
    ]
