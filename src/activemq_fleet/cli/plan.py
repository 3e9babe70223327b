"""Define ``activemq-fleet plan``, which writes a fleet's brokers, links, findings and files as datasets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from activemq_fleet.cli.options import (
    INVENTORY_VARIABLE_OPTIONS,
    InventoryOptions,
    inventory_options,
    output_option,
    refuse_options_with,
    require_option,
    spark_options,
)
from activemq_fleet.cli.output_paths import require_dataset_differs_from_inputs
from activemq_fleet.cli.path_parameters import NonEmptyPath
from activemq_fleet.cli.printing import print_escaped, print_escaped_to_stderr, print_warning
from activemq_fleet.node.printable import count_with_noun

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from activemq_fleet.spark.plan_inputs import HostRecords
    from activemq_fleet.spark.plan_job import PlanResult
    from activemq_fleet.spark.session_options import SessionOptions

_MAX_SHOWN = 20
_DEFAULT_LARGEST_NETWORK = 5000


@click.command("plan")
@click.option(
    "--hosts",
    metavar="FILE",
    type=NonEmptyPath(),
    help="File with the hosts and their variables, as JSON lines, Parquet, CSV, or the output of "
    "ansible-inventory --list. Any path that Spark can read.",
)
@click.option(
    "--hosts-format",
    "form",
    type=click.Choice(("auto", "lines", "parquet", "csv", "ansible")),
    default="auto",
    show_default=True,
    help="Format of the file of --hosts. auto: detect the format from the name and the first line of the file.",
)
@inventory_options(required=False)
@output_option("OUT", "Directory for the datasets. An earlier plan in it is replaced.")
@click.option(
    "--since",
    metavar="DIR",
    type=NonEmptyPath(),
    help="Output directory of an earlier plan. Compute only the files that changed since that plan, and list "
    "them in the dataset `changes`. Default: OUT, if it contains a plan.",
)
@click.option(
    "--anew",
    "compute_everything",
    is_flag=True,
    help="Compute the files of all hosts, even if OUT contains an earlier plan.",
)
@click.option(
    "--without-content", is_flag=True, help="Write only the paths and hashes of the planned files, not their contents."
)
@click.option(
    "--largest",
    metavar="BROKERS",
    type=click.IntRange(min=2),
    default=_DEFAULT_LARGEST_NETWORK,
    show_default=True,
    help="Maximum number of brokers in one network of brokers. `plan` reports a larger network as an error and "
    "does not plan it, because one Spark task must hold all its brokers.",
)
@spark_options
def plan_command(
    hosts: str | None,
    form: str,
    inventory: InventoryOptions,
    output: str,
    since: str | None,
    compute_everything: bool,
    without_content: bool,
    largest: int,
    spark: SessionOptions,
) -> int:
    """Compute the brokers, links, findings and files of a fleet on Spark, as datasets below OUT.

    The findings are those of `check` and the files are those of `render`, for fleets that are too
    large for one machine. Secrets are written as @VARIABLE@. A network with an error finding that
    is not waived gets no files, and the exit code is 1.
    """
    from activemq_fleet.spark.earlier_plan import reusable_plan_path
    from activemq_fleet.spark.plan_job import PlanJobOptions, plan
    from activemq_fleet.spark.session import temporary_spark_session

    if not hosts:
        inventory = inventory.with_inventory_from_ansible_config()
    if bool(hosts) == bool(inventory):
        raise click.UsageError("plan reads the hosts from one source: set either --hosts FILE or -i INVENTORY")
    if hosts:
        refuse_options_with("--hosts", "its file contains all variables", *INVENTORY_VARIABLE_OPTIONS)
    else:
        require_option("--hosts", "form")
    if since:
        refuse_options_with("--since", "--anew computes the files of all hosts", "compute_everything")
    require_dataset_differs_from_inputs("-o", output, inventory.input_paths_by_option())
    with temporary_spark_session("plan", spark) as running:
        options = PlanJobOptions(
            content=not without_content,
            largest=largest,
            since=None if compute_everything else reusable_plan_path(running, output, since),
        )
        result = plan(
            running,
            _host_records(running, hosts, form, inventory),
            output,
            options,
            report_progress=print_escaped_to_stderr,
            warn=print_warning,
        )
        if result.blocking:
            _print_blocking_findings(running, output)
    _print_summary(output, result)
    return 1 if result.blocking else 0


def _host_records(running: SparkSession, hosts: str | None, form: str, inventory: InventoryOptions) -> HostRecords:
    from activemq_fleet.spark.plan_inputs import host_records_of_inventory, read_hosts

    if hosts:
        return read_hosts(running, hosts, form)
    return host_records_of_inventory(running, inventory.read_hosts_and_groups())


def _print_blocking_findings(running: SparkSession, output: str) -> None:
    """Print the first findings that block, at most 20; the dataset holds all."""
    from activemq_fleet import Finding
    from activemq_fleet.spark.earlier_plan import read_blocking_findings

    blocking = read_blocking_findings(running, output)
    for row in blocking.orderBy("host", "rule", "message").limit(_MAX_SHOWN).collect():
        print_escaped_to_stderr(Finding(**row.asDict()).to_line())


def _print_summary(output: str, result: PlanResult) -> None:
    rows = result.rows
    files = "files" if not result.withheld else f"files ({result.withheld} brokers have none: see the error findings)"
    changed = f", {count_with_noun(rows['changes'], 'change')}" if "changes" in rows else ""
    print_escaped(
        f"{output}: {rows['brokers']} brokers, {rows['links']} links, {rows['findings']} findings "
        f"({result.blocking} of them errors), {rows['files']} {files}{changed}"
    )
