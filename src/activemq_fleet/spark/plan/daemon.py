"""The daemon of ``plan``, whose workers begin with the core."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from types import ModuleType

from activemq_fleet.spark import daemon

_PANDAS = "pandas"


class _Absence(MetaPathFinder):
    def find_spec(self, name: str, path: object = None, target: ModuleType | None = None) -> None:
        """Of pandas alone: that there is none."""
        if name == _PANDAS:
            raise ModuleNotFoundError(name=name)


@contextmanager
def without_pandas() -> Iterator[None]:
    """Arrow looks once for pandas, with its first array, to know columns of its own; plan has none of them.

    To import it takes as long as the core. Who asks Arrow for pandas later gets it.
    """
    absence = _Absence()
    sys.meta_path.insert(0, absence)
    try:
        yield
    finally:
        sys.meta_path.remove(absence)


def load() -> None:
    """What the tasks of plan need."""
    import pyarrow.parquet  # noqa: F401

    from activemq_fleet.spark.plan import bundles, direct  # noqa: F401

    with without_pandas():
        daemon.load()


if __name__ == "__main__":
    daemon.serve(load)
