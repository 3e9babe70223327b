"""Define ``activemq-fleet pack``, which archives the Python environment for Spark executors."""

from __future__ import annotations

from pathlib import Path

import click

from activemq_fleet.cli.activity import ACTIVITY
from activemq_fleet.cli.options import output_option
from activemq_fleet.cli.path_parameters import NonEmptyPath
from activemq_fleet.cli.printing import print_escaped


@click.command("pack")
@output_option(
    "FILE",
    "Path of the archive, such as env.tar.gz.",
    NonEmptyPath(path_type=Path, dir_okay=False),
)
@click.option(
    "--python-prefix",
    metavar="DIR",
    help="Directory on the Spark executors that contains bin/python3, such as /usr. Set this "
    "option if the directory of Python on the executors differs from the one on this machine.",
)
def pack_command(output: Path, python_prefix: str | None) -> int:
    """Pack this Python environment into an archive for Spark executors.

    Example of its use: activemq-fleet audit --master spark://HOST:7077 --archives env.tar.gz#environment ...
    """
    from activemq_fleet.spark.pack import pack_activemq_fleet_environment

    with ACTIVITY.spinner_with_text("Packing the environment"):
        packed = pack_activemq_fleet_environment(output, python_prefix)
    print_escaped(
        f"{packed.archive}: {len(packed.distributions)} packages, {packed.megabytes:.0f} MB. Every Spark executor must "
        f"have the Python interpreter {packed.python}. If the executors have it in another directory, run the command "
        "again with --python-prefix DIR"
    )
    return 0
