"""Define ``activemq-fleet status``, which shows the state of every broker, agent and load balancer."""

from __future__ import annotations

import dataclasses
import importlib.util
import re
import shlex
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from activemq_fleet import FleetError, InputError
from activemq_fleet.cli.activity import ACTIVITY
from activemq_fleet.cli.completion_values import complete_hosts
from activemq_fleet.cli.options import InventoryOptions, format_option, inventory_options, refuse_options_with
from activemq_fleet.cli.output_paths import require_output_differs_from_inputs
from activemq_fleet.cli.path_parameters import NonEmptyPath
from activemq_fleet.cli.printing import (
    activemq_fleet_command_with_arguments,
    print_escaped,
    print_escaped_to_stderr,
    table_text,
)
from activemq_fleet.cli.terminal import print_through_pager, stdout_terminal_width, wrap_text
from activemq_fleet.node.foreign_data import parse_untrusted_json
from activemq_fleet.node.printable import escape_unprintable, terminal_safe_json
from activemq_fleet.node.text_lines import split_lines

if TYPE_CHECKING:
    from activemq_fleet import Fleet, FleetStatus

_STYLES = {
    **dict.fromkeys(("active", "running", "up"), "green"),
    **dict.fromkeys(("standby", "planned"), "cyan"),
    **dict.fromkeys(("starting", "outdated", "required", "by hand"), "yellow"),
    **dict.fromkeys(
        ("unhealthy", "hung", "frozen", "stopped", "not installed", "unreachable", "unknown", "down"), "red"
    ),
}
# With -k, -K and `--ask-…` Ansible prompts for a password on the terminal.
_PROMPTING = re.compile(r"(?:^|\s)(?:-\w*[kK]|--ask-)")
_REJECTED_OPTIONS_PREFIX = "ansible-playbook: error: "
_SEVERITIES: dict[str, dict[str, Any]] = {
    "error": {"fg": "red"},
    "warning": {"fg": "yellow"},
    "info": {"dim": True},
}


@dataclasses.dataclass(frozen=True, slots=True)
class _StatusQuery:
    """The options of the command ``status``, which choose the brokers and the method of the query.

    A lab's brokers are queried from this process, hosts with the playbook ``status``.
    """

    inventory: InventoryOptions
    name: str
    timeout: float
    lab: bool
    directory: str | None
    forks: int
    ansible: str


class _StatusCommand(click.Command):
    """The command ``status``, whose wrong usage is UNKNOWN for a monitoring system."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments as ``click.Command`` does."""
        is_for_nagios = bool({"nagios", "--format=nagios"} & set(args))
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            if not is_for_nagios:
                raise
            ctx.exit(_print_nagios_unknown(error.format_message()))


def _print_nagios_unknown(reason: str) -> int:
    """Print the line of a plugin whose result is UNKNOWN; return its exit code.

    A monitoring system would read the exit code 2 as CRITICAL.
    """
    print_escaped(escape_unprintable(f"ACTIVEMQ UNKNOWN - {reason}".replace("|", "/")))
    return 3


@click.command("status", cls=_StatusCommand, short_help="Show the state of every broker, agent and load balancer.")
@click.argument("name", metavar="[HOST|PAIR|GROUP]", default="", shell_complete=complete_hosts)
@inventory_options(required=False)
@format_option(
    "text", "json", "nagios", help="Output format. nagios: one line about one HOST, with the exit codes of a plugin."
)
@click.option(
    "--html",
    metavar="FILE",
    type=NonEmptyPath(dir_okay=False, path_type=Path),
    help="Also write the status of the fleet as an HTML page to FILE.",
)
@click.option(
    "--watch",
    metavar="SECONDS",
    type=click.FloatRange(min=0.5),
    help="Query and print the status again every SECONDS, until Ctrl-C.",
)
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=click.FloatRange(min=1, max=600),
    default=20.0,
    show_default=True,
    help="Seconds without an answer after which a host counts as unreachable.",
)
@click.option("--lab", is_flag=True, help="Show the brokers of the running lab (see `lab up`), without Ansible.")
@click.option(
    "--dir",
    "directory",
    type=NonEmptyPath(),
    help="Directory of the lab whose brokers are shown. It implies --lab, and requires no -i.",
)
@click.option("--wide", is_flag=True, help="Show all columns, and the full names of hosts.")
@click.option(
    "--forks", type=click.IntRange(min=1), default=50, show_default=True, help="Number of hosts to query in parallel."
)
@click.option(
    "--ansible-options",
    "ansible",
    metavar="WORDS",
    default="",
    help="Options for ansible-playbook, such as '--become -u ops'.",
)
def status_command(form: str, html: Path | None, watch: float | None, wide: bool, **query: Any) -> int:
    """Show the state of every broker, agent and load balancer, and findings.

    The command changes nothing on any host. The row of a host that does not answer shows it as unreachable.

    Exit codes: 0 healthy; 1 findings, including unreachable hosts; 2 wrong usage.
    """
    try:
        if query["lab"] or query["directory"]:
            option = "--lab" if query["lab"] else "--dir"
            refuse_options_with(option, "the brokers of a lab are queried without Ansible", "forks", "ansible")
        return _query_and_show(_StatusQuery(**query), form, html, watch, wide=wide)
    except (FleetError, OSError, click.UsageError) as error:
        if form != "nagios":
            raise
        return _print_nagios_unknown(error.format_message() if isinstance(error, click.UsageError) else str(error))


def _query_and_show(query: _StatusQuery, form: str, html: Path | None, watch: float | None, *, wide: bool) -> int:
    """Query and show the status of the fleet, repeatedly with ``watch``; return the exit code.

    ``watch`` is the number of seconds between two queries.
    """
    if form == "nagios" and not query.name:
        raise InputError("--format nagios requires exactly one host: name it, as in `status HOST --format nagios`")
    gather = _make_gatherer(query, html)
    while True:
        prompts = query.inventory.prompts_for_vault_password or _PROMPTING.search(query.ansible) is not None
        with ACTIVITY.spinner_with_text("Querying the hosts", prompts=prompts):
            status = gather()
        if html:
            from activemq_fleet.reports.status_page import write_status_as_html_or_json

            write_status_as_html_or_json(status, str(html))
        if watch and form == "text":
            click.clear()  # This has an effect only on a terminal.
        code = _print_status(status, form, wide=wide, paged=not watch)
        if any(broker.state == "unreachable" for broker in status.brokers):
            _print_lab_hint(query)
        if not watch:
            return code
        time.sleep(watch)


def _print_lab_hint(query: _StatusQuery) -> None:
    """Print a hint if a lab of the inventory runs, because its hosts are reached without SSH."""
    is_for_hosts = not query.lab and query.directory is None
    if not is_for_hosts or importlib.util.find_spec("psutil") is None:
        return
    from activemq_fleet.lab.lab_paths import lab_paths_for
    from activemq_fleet.lab.processes import has_running_process

    inventory = query.inventory.with_inventory_from_ansible_config()
    with suppress(FleetError, OSError):  # The hint changes neither the output nor the exit code for the hosts.
        if has_running_process(lab_paths_for(inventory.sources)):
            command = activemq_fleet_command_with_arguments("lab", "status", *inventory.command_line_words())
            print_escaped_to_stderr(
                f"a lab of this inventory runs on this machine: `{command}` shows the state of its brokers"
            )


def _make_gatherer(query: _StatusQuery, html: Path | None) -> Callable[[], FleetStatus]:
    """Return a function that queries the fleet and returns its status.

    The inventory is read once, before the function is returned. Raises InputError if the file ``html`` is an input.
    """
    from activemq_fleet.status.selection import hosts_to_query, select_hosts

    if query.directory is None:
        query = dataclasses.replace(query, inventory=query.inventory.with_inventory_from_ansible_config())
    if not (query.inventory or query.directory):
        raise InputError("no fleet is selected: set -i INVENTORY, or set --dir to the directory of a lab")
    require_output_differs_from_inputs("--html", html, query.inventory.input_paths_by_option())
    if not query.lab and query.directory is None:
        from activemq_fleet.cli.warnings_and_schemas import print_warnings_and_inventory_findings

        fleet = query.inventory.load_fleet()
        print_warnings_and_inventory_findings(fleet)
        return partial(_query_hosts, fleet, select_hosts(fleet, query.name), query)
    from activemq_fleet.cli.lab_options import require_lab_packages

    require_lab_packages("the lab", "paho", "psutil")
    from activemq_fleet.lab.lab_paths import lab_paths_for
    from activemq_fleet.lab.status_evidence import lab_fleet, lab_status

    lab_paths = lab_paths_for(query.inventory.sources, query.directory)
    require_output_differs_from_inputs("--html", html, {"--dir": lab_paths.content_paths})
    fleet = lab_fleet(lab_paths)
    chosen = select_hosts(fleet, query.name)
    return partial(lab_status, fleet, hosts_to_query(fleet, chosen), chosen, query.timeout)


def _query_hosts(fleet: Fleet, chosen: tuple[str, ...], query: _StatusQuery) -> FleetStatus:
    from activemq_fleet import fleet_status
    from activemq_fleet.cli.playbook import PlaybookError, playbook_failure_lines, run_playbook

    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="activemq-fleet-") as directory:
        file = Path(directory) / "evidence.json"
        variables = {
            "activemq_target": query.name,
            "activemq_status_timeout": f"{query.timeout:.0f}",
            "activemq_status_evidence": str(file),
        }
        extra_options = [f"--forks={query.forks}", f"--timeout={min(10, int(query.timeout))}"]
        try:
            extra_options += shlex.split(query.ansible)
        except ValueError as error:
            raise InputError(
                f"--ansible-options cannot be split into words ({error}): correct its quotation marks"
            ) from None
        playbook_result = run_playbook("status", query.inventory, variables, extra_options)
        rejection = next(
            (line for line in split_lines(playbook_result.stderr) if line.startswith(_REJECTED_OPTIONS_PREFIX)), ""
        )
        if rejection:
            raise InputError(
                f"ansible-playbook rejects --ansible-options ({rejection.removeprefix(_REJECTED_OPTIONS_PREFIX)}): "
                "correct this option"
            )
        try:
            evidence = parse_untrusted_json(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise PlaybookError(
                "the playbook activemq.fleet.status failed. Correct the errors of Ansible, which follow:",
                *playbook_failure_lines(playbook_result),
            ) from None
    return fleet_status(fleet, evidence, chosen=chosen, seconds=time.monotonic() - began)


def _print_status(status: FleetStatus, form: str, *, wide: bool, paged: bool) -> int:
    """Print the status and return the exit code."""
    if form == "nagios":
        from activemq_fleet.status import nagios_line_and_exit_code

        line, code = nagios_line_and_exit_code(status)
        print_escaped(line)
        return code
    if form == "json":
        print_escaped(terminal_safe_json(status.to_dict(), indent=1))
    else:
        (print_through_pager if paged else click.echo)("\n".join(_text_lines(status, wide=wide)))
    return status.exit_code


def _text_lines(status: FleetStatus, *, wide: bool) -> Iterator[str]:
    """Yield the lines of a status as colored text: its tables, its findings, and the number of findings."""
    from activemq_fleet.status.text import (
        common_domain,
        status_headline,
        status_table_titles_and_rows,
        status_tables_without_empty_columns,
    )

    domain = "" if wide else common_domain(status)
    for titles, rows in status_table_titles_and_rows(status) if wide else status_tables_without_empty_columns(status):
        yield table_text(titles, rows, _STYLES, folded=not wide)
        yield ""
    for finding in status.findings:
        host = finding.host.removesuffix(domain)
        kind = click.style(f"{finding.severity} {finding.rule}", **_SEVERITIES[finding.severity])
        yield f"{kind} {escape_unprintable(host)}"
        yield wrap_text(
            escape_unprintable(finding.message_and_fix_sentences), stdout_terminal_width(), first="    ", rest="    "
        )
    if status.findings:
        yield ""
    if domain:
        yield f"host names omit {escape_unprintable(domain)}; --wide shows all columns and full names"
    yield f"{status_headline(status)} ({status.seconds:.1f} s)"
