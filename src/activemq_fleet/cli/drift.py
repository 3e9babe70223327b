"""Define ``activemq-fleet drift``, which compares what was planned for hosts with what ``collect`` found on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from activemq_fleet.cli.options import format_option, output_option, spark_options
from activemq_fleet.cli.path_parameters import NonEmptyPath
from activemq_fleet.cli.printing import print_escaped
from activemq_fleet.errors import names_to_text
from activemq_fleet.node.printable import count_with_noun, escape_unprintable, terminal_safe_json

if TYPE_CHECKING:
    from activemq_fleet.drift.host_drift import FleetDrift
    from activemq_fleet.spark.session_options import SessionOptions

_MAX_SHOWN = 40


@click.command("drift")
@click.option(
    "--planned",
    metavar="DIR",
    type=NonEmptyPath(),
    required=True,
    help="Planned configuration files: the output directory of `render` or `plan`. Any path that Spark can read.",
)
@click.option(
    "--found",
    "collected",
    metavar="DIR",
    type=NonEmptyPath(),
    required=True,
    help="Deployed configuration files: the directory that the playbook activemq.fleet.collect wrote.",
)
@output_option("OUT", "Directory for the dataset `drift`.")
@format_option()
@spark_options
def drift_command(planned: str, collected: str, output: str, form: str, spark: SessionOptions) -> int:
    """Compare the planned files of every host with the deployed files.

    The status of a file is added (only the host has it), removed (only the plan has it), changed or same. The cause of
    a difference is a manual change on the host, or a plan that is newer than the deployment. Secrets are masked: a
    changed secret is shown as changed, without its value.

    Exit codes: 0 no differences; 1 differences; 2 wrong usage or unreadable input.
    """
    from activemq_fleet.spark.drift_job import report_drift
    from activemq_fleet.spark.session import temporary_spark_session

    with temporary_spark_session("drift", spark) as running:
        result = report_drift(running, planned, collected, output)
    if form == "json":
        print_escaped(terminal_safe_json(result.to_dict(), indent=1))
    else:
        _print_drift(result, output)
    return 1 if result.has_differing_host else 0


def _print_drift(result: FleetDrift, output: str) -> None:
    columns = ("changed", "added", "removed", "by_hand", "out_of_date", "unknown")
    shown = result.hosts[:_MAX_SHOWN]
    names = [escape_unprintable(host_drift.host) for host_drift in shown]
    if shown:
        width = max(4, *map(len, names))
        print_escaped("  ".join([f"{'host':<{width}}", *(name.replace("_", " ") for name in columns)]))
        for host, host_drift in zip(names, shown, strict=True):
            numbers = (f"{getattr(host_drift, name) or '-':>{len(name)}}" for name in columns)
            print_escaped("  ".join([f"{host:<{width}}", *numbers]))
        if len(result.hosts) > len(shown):
            print_escaped(f"… and {count_with_noun(len(result.hosts) - len(shown), 'more host')}")
    missing, surplus = result.not_collected_hosts, result.not_planned_hosts
    for label, hosts, number in (
        (
            "hosts of the plan without collected files (run the playbook activemq.fleet.collect)",
            result.not_collected,
            missing,
        ),
        (
            "collected hosts that are not in the plan (run `activemq-fleet plan` or `activemq-fleet render` again)",
            result.not_planned,
            surplus,
        ),
    ):
        if number:
            print_escaped(
                f"{label}: {names_to_text([escape_unprintable(host) for host in hosts], number, most=_MAX_SHOWN)}"
            )
    print_escaped(
        f"{output}: {count_with_noun(len(result.hosts), 'host')} with differences from the plan, "
        f"{count_with_noun(result.same_hosts, 'host')} without differences"
    )
