"""Define ``activemq-fleet audit``: what happened in failovers, and the outcome of every event."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from activemq_fleet import InputError
from activemq_fleet.cli.options import (
    INVENTORY_VARIABLE_OPTIONS,
    InventoryOptions,
    format_option,
    inventory_options,
    output_option,
    refuse_options_with,
    require_option,
    spark_options,
)
from activemq_fleet.cli.output_paths import require_dataset_differs_from_inputs
from activemq_fleet.cli.path_parameters import NonEmptyPath
from activemq_fleet.cli.printing import print_escaped
from activemq_fleet.node.printable import count_with_noun, escape_unprintable, terminal_safe_json

if TYPE_CHECKING:
    from activemq_fleet.audit.scraped_availability import ScrapedAvailability
    from activemq_fleet.spark.inputs import AuditedHost
    from activemq_fleet.spark.session_options import SessionOptions

_MAX_SHOWN = 15


@click.command(
    short_help="Show the cause and course of failovers, and the outcome of every event that agents published."
)
@click.option(
    "--logs",
    required=True,
    metavar="DIR",
    type=NonEmptyPath(),
    help="Directory of logs that the playbook activemq.fleet.collect wrote. It contains HOST/activemq.log* and "
    "HOST/agent/ for each host.",
)
@output_option("OUT", "Directory for the datasets and the report.")
@inventory_options(required=False)
@click.option(
    "--skew",
    type=click.FloatRange(min=0, max=86400),
    default=300.0,
    show_default=True,
    help="Largest difference, in seconds, that the clocks of two audited hosts may have. A split brain is reported "
    "only if it lasts longer than this difference.",
)
@click.option(
    "--metrics",
    metavar="FILE",
    type=NonEmptyPath(dir_okay=False, path_type=Path),
    help="File with Prometheus metrics of the brokers in the audited period. `activemq-fleet help audit` "
    "describes how to create it.",
)
@click.option(
    "--follow",
    is_flag=True,
    help="Continue to read the logs and journals as they grow, until "
    "Ctrl-C. `activemq-fleet help follow` describes this.",
)
@click.option(
    "--until-idle",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Stop --follow when the logs and event journals have had no new records for this number of seconds.",
)
@format_option(help="Output format.")
@spark_options
def audit_command(
    logs: str,
    output: str,
    inventory: InventoryOptions,
    skew: float,
    metrics: Path | None,
    follow: bool,
    until_idle: float | None,
    form: str,
    spark: SessionOptions,
) -> int:
    """Audit collected broker logs and agents' event journals: incidents, bridges, and the outcome of every event.

    The datasets (Parquet), audit.json and report.html are written to OUT atomically. With -i INVENTORY, the audit
    reports each host of the inventory whose logs are missing. The inventory also supplies the group, the pair and the
    release of each host that has no file host.json in DIR.

    Exit codes: 0 no findings; 1 findings, or logs or journals are missing; 2 unusable input.
    """
    if follow:
        refuse_options_with("--follow", "--metrics requires a completed period", "metrics")
    else:
        require_option("--follow", "until_idle")
    if not inventory:
        require_option("-i", *INVENTORY_VARIABLE_OPTIONS)
    from activemq_fleet.spark.session import temporary_spark_session

    require_dataset_differs_from_inputs("-o", output, inventory.input_paths_by_option())
    scraped = _read_scrapes(metrics) if metrics else None

    hosts, allowed = _audited_hosts(inventory), timedelta(seconds=skew)
    with temporary_spark_session("audit --follow" if follow else "audit", spark) as running:
        from activemq_fleet.spark.audit_job import audit, read_audit_json
        from activemq_fleet.spark.follow import rewrite_audit_after_log_changes

        if follow:
            rewrite_audit_after_log_changes(
                running, logs, output, until_idle=until_idle, inventory_hosts=hosts, skew=allowed
            )
            result = read_audit_json(running, output)
        else:
            result = audit(running, logs, output, inventory_hosts=hosts, skew=allowed, scraped=scraped).to_dict()
    print_escaped(terminal_safe_json(result) if form == "json" else _summary(result, output))
    return 0 if result["verdict"] == "clean" else 1


def _read_scrapes(path: Path) -> ScrapedAvailability:
    from activemq_fleet.audit.scraped_availability import read_availability

    try:
        return read_availability(path.read_bytes(), str(path))
    except OSError as error:
        raise InputError(
            f"--metrics: the file {path} cannot be read ({error.strerror}): correct the path, or allow this account to "
            "read the file"
        ) from None


def _audited_hosts(inventory: InventoryOptions) -> Mapping[str, AuditedHost] | None:
    """Return the brokers and agents of an inventory by host, or None without an inventory."""
    if not inventory:
        return None
    from dataclasses import replace

    from activemq_fleet.spark.inputs import AuditedHost

    time_zone_note = (
        "an inventory contains no time zones, so the audit reads the times in the logs of this host as UTC. If the "
        "host has another time zone, run the playbook activemq.fleet.collect again, which writes the time zone into "
        "host.json"
    )
    fleet = inventory.load_fleet()
    hosts = {
        broker.host: AuditedHost(
            broker.host,
            release=broker.release.text,
            group=broker.group,
            pair=broker.pair,
            store=broker.shared_store_directory,
            problems=(time_zone_note,),
        )
        for broker in fleet.brokers
    }
    for agent in fleet.agents:
        settings = agent.settings
        name = settings.agent_options.get("agent.name") or settings.agent_client_id or agent.host
        host = hosts.get(agent.host) or AuditedHost(
            agent.host, group=agent.group, pair=agent.pair, problems=(time_zone_note,)
        )
        hosts[agent.host] = replace(host, agent=name)
    return hosts


def _summary(result: Mapping[str, Any], out: str) -> str:
    """Return the result of an audit as a few lines of text."""
    counts, inputs = result["counts"], result["inputs"]
    planned = f" ({counts['planned']:,} of them planned)" if counts["planned"] else ""
    lines = [
        f"verdict    {result['verdict']}",
        f"read       {count_with_noun(counts['events'], 'record')} of {count_with_noun(inputs['logs'], 'log')} and "
        f"{count_with_noun(inputs['journals'], 'journal')}, {count_with_noun(inputs['hosts'], 'host')}",
        f"incidents  {_counts_text(counts['incidents']) or 'none'}{planned}",
        f"events     {_counts_text(counts['messages']) or 'no journals'}",
        f"bridges    {_counts_text(counts['bridges']) or 'none'}",
    ]
    if counts["unexplained"]:
        unexplained = "unexplained warning or error", "unexplained warnings and errors"
        lines.append(f"others     {count_with_noun(counts['unexplained'], *unexplained)}")
        for records in result["unexplained"][:_MAX_SHOWN]:
            occurrences = f"{records['count']:,} × {records['level']}"
            lines.append(
                f"           {escape_unprintable(records['host'])}: {occurrences} "
                f"“{escape_unprintable(records['message'])}”"
            )
    gaps = [gap for gap in result["gaps"] if gap["weighs"]]
    for gap in gaps[:_MAX_SHOWN]:
        location = "/".join(part for part in (gap["host"], gap["file"]) if part)
        lines.append(f"missing    {escape_unprintable(location)}: {escape_unprintable(gap['what'])}")
    if len(gaps) > _MAX_SHOWN:
        # audit.json lists the gaps that weigh first, and not all of them if they are very many.
        at_least = "at least " if len(gaps) == len(result["gaps"]) < counts["gaps"] else ""
        lines.append(f"missing    … and {at_least}{len(gaps) - _MAX_SHOWN} more, in {out}/audit.json")
    return "\n".join([*lines, f"report     {out}/report.html"])


def _counts_text(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in counts.items() if count)
