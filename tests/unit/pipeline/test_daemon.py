"""The daemon of Python workers, as Spark starts it: it says its port, and goes when its input ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from activemq_fleet.spark.daemon import without_archives

_HOME = "/venv/lib/python3.11/site-packages/pyspark"
_ADDED = [
    f"{_HOME}/python/lib/pyspark.zip",
    f"{_HOME}/python/lib/py4j-0.10.9.9-src.zip",
    f"{_HOME}/jars/spark-core_2.13-4.3.0.jar",
]


def test_pyspark_is_taken_from_where_it_is_installed() -> None:
    path = ["/work", *_ADDED, "/src", str(Path(_HOME).parent)]

    assert without_archives(path) == ["/work", "/src", str(Path(_HOME).parent)]


@pytest.mark.parametrize(
    "path", [["/work", *_ADDED, "/elsewhere"], ["/work", "/opt/spark/python/lib/pyspark.zip", "/elsewhere"], ["/work"]]
)
def test_a_spark_that_is_not_installed_there_keeps_its_archives(path: list[str]) -> None:
    assert without_archives(path) == path


_THREAD = "import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()"


@pytest.mark.parametrize(
    ("load", "module"),
    [("import json", "serve"), ("import no_such_module", "pyspark.daemon"), (_THREAD, "pyspark.daemon")],
    ids=["sound", "failed", "with-a-thread"],
)
def test_sparks_own_daemon_takes_over_where_forking_is_not_safe(load: str, module: str) -> None:
    program = f"from activemq_fleet.spark.daemon import serve\ndef load():\n    {load}\nserve(load)"
    with subprocess.Popen(
        [sys.executable, "-c", program, "pyspark.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"OMP_NUM_THREADS": "1"},  # as Spark has it
    ) as process:
        assert process.stdin
        assert process.stdout
        port = int.from_bytes(process.stdout.read(4), "big")
        command = Path(f"/proc/{process.pid}/cmdline").read_bytes().decode()
        process.stdin.close()
        process.wait(timeout=60)

    assert 0 < port < 1 << 16
    assert module in command


@pytest.mark.parametrize("module", ["activemq_fleet.spark.daemon", "activemq_fleet.spark.plan.daemon"])
def test_what_is_loaded_leaves_one_thread(module: str) -> None:
    program = (
        f"import os; from activemq_fleet.spark import daemon; os.environ.setdefault(*daemon.ARROW); "
        f"from {module} import load; load(); print(*os.listdir('/proc/self/task'))"
    )
    told = subprocess.check_output(
        [sys.executable, "-c", program], env=os.environ | {"OMP_NUM_THREADS": "1"}, text=True, timeout=60
    )

    assert len(told.split()) == 1


def test_workers_of_plan_leave_pandas_to_who_asks_for_it() -> None:
    program = """
import sys
from activemq_fleet.spark.plan.daemon import load
load()
print("pandas" in sys.modules)
import pyarrow
print(len(pyarrow.table({"some": [1, None]}).to_pandas()))
"""
    told = subprocess.check_output([sys.executable, "-c", program], text=True, timeout=60)

    assert told.split() == ["False", "2"]
