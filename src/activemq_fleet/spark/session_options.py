"""Define the options of a Spark session: ``--master``, ``--remote``, ``--conf``, ``--archives`` and ``--progress``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """The options with which a job opens its Spark session: master, Spark's settings, archives and progress display.

    ``master`` is a cluster's URL, ``remote`` a Spark Connect server's; else the session is local. ``conf`` are Spark's
    settings and win over ours. ``archives`` are ``PATH#NAME``, unpacked on executors; one that ``activemq-fleet pack``
    made brings the Python that they run. ``progress``: whether it is shown; None: on a terminal only.
    """

    master: str | None = None
    remote: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    archives: tuple[str, ...] = ()
    progress: bool | None = None
