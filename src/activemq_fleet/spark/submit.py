"""Run ``plan``, ``drift`` or ``audit`` as the script of ``spark-submit``.

    spark-submit --master yarn --archives env.tar.gz#environment \\
        --conf spark.pyspark.python=./environment/bin/python SUBMIT.py audit --logs s3a://… -o s3a://…

``python -m activemq_fleet.spark.submit`` prints the path of this file. The master, archives and settings are then
spark-submit's; everything else is as with ``activemq-fleet``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

COMMANDS = ("plan", "drift", "audit")


def spark_application_main(arguments: Sequence[str] | None = None) -> int:
    """Run a command of ``activemq-fleet`` as the Spark application that spark-submit starts, and return its exit code.

    spark-submit runs this file. The commands are ``plan``, ``drift`` and ``audit``; without a command, the path of this
    script is printed.
    """
    from activemq_fleet.cli.main import main as run

    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words:
        print(Path(__file__).resolve())
        return 0
    if words[0] not in COMMANDS:
        commands = ", ".join(COMMANDS)
        print(
            f"activemq-fleet: error: the command {words[0]} does not run on Spark: use one of {commands}",
            file=sys.stderr,
        )
        return 2
    return run(words)


if __name__ == "__main__":
    # As a script its own directory comes first, whose modules are not meant to be found by their bare names.
    sys.path[:] = [path for path in sys.path if Path(path or ".").resolve() != Path(__file__).resolve().parent]
    sys.exit(spark_application_main())
