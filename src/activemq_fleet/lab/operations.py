"""Record a lab's operations on its brokers, as playbooks do on hosts, so that ``audit`` knows them as planned."""

from __future__ import annotations

import getpass
import platform
import secrets
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

from activemq_fleet.host import operation_record
from activemq_fleet.install.configuration_archive import InstallError
from activemq_fleet.lab.layout import Layout


@contextmanager
def record_operation(
    layout: Layout, hosts: Collection[str], operation: str, progress: Callable[[str], None]
) -> Iterator[None]:
    """Context manager: record an operation's begin and end on the given hosts, whatever happens in between.

    Hosts on which nothing was ever installed are skipped. The operation runs even if the record cannot be written;
    ``progress`` is called with the reason.
    """
    run = secrets.token_hex(8)
    _record(layout, hosts, {"kind": "begin", "operation": operation, "run": run}, progress)
    try:
        yield
    finally:
        _record(layout, hosts, {"kind": "end", "operation": operation, "run": run}, progress)


def _record(layout: Layout, hosts: Collection[str], record: dict[str, str], progress: Callable[[str], None]) -> None:
    by = f"{getpass.getuser()}@{platform.node()}"
    try:
        for host in filter(lambda host: layout.base(host).is_dir(), hosts):
            operation_record.append_record({**record, "by": by}, str(layout.base(host)))
    except (InstallError, OSError) as error:
        progress(f"this is not written down, and audit will not know it as planned: {error}")
