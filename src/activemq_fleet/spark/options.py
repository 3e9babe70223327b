"""Where a job runs, and with which settings: what ``--master``, ``--remote``, ``--conf``, ``--archives`` said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """``master`` a cluster, ``remote`` a Spark Connect server; this machine when both are None.

    ``conf`` are Spark's settings and win over ours. ``archives`` are ``PATH#NAME``, unpacked on
    executors; one that ``activemq-fleet pack`` made brings the Python that they run.
    ``progress`` None: shown on a terminal.
    """

    master: str | None = None
    remote: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    archives: tuple[str, ...] = ()
    progress: bool | None = None
