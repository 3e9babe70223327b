"""Workers of this machine that begin with what they need: ``python -m`` this, where Spark has its own daemon.

Spark starts one process of Python, the daemon, and forks workers from it. Its own is empty, since it cannot
know what a program's imports do: every worker imports everything for itself. And pyspark comes from an
archive of sources, which Python compiles each time. Here everything is loaded once, from installed modules,
while Java still makes its first plan. Measured with plan on two cores: of 2.5 s of processor time 0.9 are left.

A fork copies one thread only. Where there is another, or anything fails, Spark's own daemon takes over.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

_SPARKS_OWN = "pyspark.daemon"
_ARCHIVE = "/python/lib/pyspark.zip"  # below pyspark's directory
_THREADS = "/proc/self/task"
# Of Arrow's allocators the one that is not used begins with a thread.
ARROW = ("JE_ARROW_MALLOC_CONF", "background_thread:false")


def serve(load: Callable[[], None]) -> None:
    """Be the daemon until Spark ends it, with what ``load`` imports."""
    os.environ.setdefault(*ARROW)
    sys.path[:] = without_archives(sys.path)
    try:
        load()
        alone = len(os.listdir(_THREADS)) == 1
    except Exception:  # noqa: BLE001 -- what is wrong shows again in the workers
        alone = False
    if not alone:
        os.execv(sys.executable, [sys.executable, "-m", _SPARKS_OWN, *sys.argv[1:]])  # noqa: S606
    gc.collect()
    gc.freeze()  # a search for garbage would copy every page that workers share

    from pyspark.daemon import manager

    manager()


def without_archives(path: Sequence[str]) -> list[str]:
    """A search path without what Spark adds, its archives and a JAR, where pyspark is installed beside them."""
    for entry in path:
        home = entry.removesuffix(_ARCHIVE)
        if home != entry and str(Path(home).parent) in path:
            return [other for other in path if not other.startswith((f"{home}/python/", f"{home}/jars/"))]
    return list(path)


def load() -> None:
    """What the functions of every job need."""
    import pyarrow
    import pyarrow.compute
    import pyspark.worker  # noqa: F401

    pyarrow.array([0])  # the first one imports pandas, where there is one


if __name__ == "__main__":
    serve(load)
