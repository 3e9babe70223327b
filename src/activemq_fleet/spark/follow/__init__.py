"""``audit --follow``: the audit as a stream over logs and journals that grow.

``advance`` decides what may be read, ``source`` is Spark's side of it, ``state`` keeps what was read, ``view`` shows it
to the batch's functions, and ``job`` drives it all. What stands here is imported when it is asked for: it brings Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from activemq_fleet.spark.follow.job import follow

__all__ = ["follow"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    from activemq_fleet.spark.follow import job

    return getattr(job, name)
