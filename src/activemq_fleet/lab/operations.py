"""What a lab does to its brokers, written down as playbooks do it on hosts, so that ``audit`` knows it as planned."""

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
    """Record the begin of the operation on these hosts, and its end, whatever happens in between.

    Hosts on which nothing was ever installed are passed over.
    What cannot be written down is done all the same, and told to ``progress``.
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
            operation_record.append({**record, "by": by}, str(layout.base(host)))
    except (InstallError, OSError) as error:
        progress(f"this is not written down, and audit will not know it as planned: {error}")
