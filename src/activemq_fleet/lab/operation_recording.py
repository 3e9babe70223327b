"""Record a lab's operations on its brokers, as playbooks do on hosts, so that ``audit`` treats them as planned."""

from __future__ import annotations

import getpass
import platform
import secrets
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager

from activemq_fleet.lab.lab_paths import LabPaths
from activemq_fleet.node.errors import NodeError
from activemq_fleet.node.state import operation_record_file


@contextmanager
def record_operation_begin_and_end(
    lab_paths: LabPaths,
    hosts: Collection[str],
    operation: str,
    progress: Callable[[str], None],
    labels: Mapping[str, Mapping[str, str]] | None = None,
) -> Iterator[None]:
    """Record the begin and end of an operation on hosts of a lab, around a ``with`` block.

    The end is recorded also if the operation fails. Hosts on which nothing was ever installed are skipped. The
    operation runs even if the record cannot be written; ``progress`` is called with the reason. ``labels`` are those of
    the hosts that have metrics, by host.
    """
    run, by = secrets.token_hex(8), f"{getpass.getuser()}@{platform.node()}"

    def record(kind: str) -> None:
        try:
            for host in filter(lambda host: lab_paths.activemq_base_directory(host).is_dir(), hosts):
                content = {"kind": kind, "operation": operation, "run": run, "by": by}
                operation_record_file.append_operation_record(content, str(lab_paths.activemq_base_directory(host)))
                if labels and host in labels:
                    operation_record_file.write_operation_in_progress_metrics(
                        kind, operation, labels[host], str(lab_paths.activemq_base_directory(host))
                    )
        except (NodeError, OSError) as error:
            progress(
                f"the operation {operation} was not recorded ({error}). Correct this error, because "
                "`activemq-fleet audit` reports the downtime of an unrecorded operation as unplanned"
            )

    record("begin")
    try:
        yield
    finally:
        record("end")
