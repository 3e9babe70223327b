"""Define ``activemq-fleet names``, which shows how host names are read and proposes a convention that reads them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from activemq_fleet.cli.completion_values import complete_hosts
from activemq_fleet.cli.options import (
    INVENTORY_VARIABLE_OPTIONS,
    InventoryOptions,
    format_option,
    inventory_options,
    require_option,
)
from activemq_fleet.cli.printing import print_escaped
from activemq_fleet.cli.terminal import print_through_pager
from activemq_fleet.errors import names_to_text
from activemq_fleet.node.printable import align_columns, count_with_noun, escape_unprintable, terminal_safe_json
from activemq_fleet.node.text_lines import split_lines

if TYPE_CHECKING:
    from activemq_fleet.naming import Identity
    from activemq_fleet.naming_proposal import NamingConventionProposal

Rows = list[dict[str, Any]]

_COLUMNS = ("host", "group", "number", "node", "pair", "role", "because")

_VARIABLES_HINT = (
    "For a host whose name lacks its group, pair or node, set activemq_group, activemq_pair or activemq_node."
)
_NO_CONVENTION_HINT = (
    f"These names do not match any known naming convention of pairs: set --naming-pattern. {_VARIABLES_HINT}"
)


@click.command("names")
@click.argument("hosts", metavar="[HOST]...", nargs=-1, shell_complete=complete_hosts)
@inventory_options(required=False)
@click.option(
    "--naming-pattern",
    metavar="REGEX",
    help="Regular expression that finds the broker group and the node in host names. Overrides "
    "activemq_naming_pattern.",
)
@click.option(
    "--naming-parity",
    type=click.Choice(["odd-even", "even-odd"]),
    help="Form pairs of hosts by the numbers in their names: 1 with 2 (odd-even), or 0 with 1 (even-odd). "
    "Overrides activemq_naming_parity.",
)
@click.option(
    "--master-node",
    metavar="MARK",
    help="Text that marks the preferred master in host names, such as a. Overrides activemq_master_node.",
)
@click.option(
    "--node",
    metavar="MARK",
    help="Value of activemq_node for every host, such as a. Each host then becomes a broker without a standby.",
)
@format_option()
def names_command(hosts: tuple[str, ...], inventory: InventoryOptions, form: str, **convention: str | None) -> int:
    """Show the group, pair and node of each host name; propose a naming convention for names that do not match.

    With -i, the command shows the hosts of the inventory, and applies their variables. Exit code 1: the name of a HOST
    is not recognized as a broker name, or a broker's name and variables do not determine its group, pair and node.
    """
    from activemq_fleet.naming_proposal import propose_naming, propose_single_broker_naming

    if not hosts:
        inventory = inventory.with_inventory_from_ansible_config()
    if not (hosts or inventory):
        raise click.UsageError("no hosts are selected: add host names to the command, or set -i INVENTORY")
    if not inventory:
        require_option("-i", *INVENTORY_VARIABLE_OPTIONS)
    option_variables = {f"activemq_{name}": value for name, value in convention.items() if value is not None}
    variables = _naming_variables(hosts, inventory, option_variables)
    rows = [_host_row(host, host_variables) for host, host_variables in variables.items()]
    unmatched = [row["host"] for row in rows if not row["broker"]]
    proposal = propose_naming(variables) if unmatched else None
    if proposal and len(proposal.identities) <= len(rows) - len(unmatched):
        proposal = None
    are_brokers = bool(hosts) or len(unmatched) == len(rows)
    single_brokers = propose_single_broker_naming(unmatched, proposal, are_brokers=are_brokers) if unmatched else None
    if form == "json":
        proposals = {"proposal": proposal, "alone": single_brokers}
        print_escaped(
            terminal_safe_json(
                {
                    "hosts": rows,
                    **{
                        name: _proposal_object(naming_proposal) if naming_proposal else None
                        for name, naming_proposal in proposals.items()
                    },
                }
            )
        )
    else:
        print_through_pager(
            escape_unprintable(
                "\n".join(
                    [
                        *_report_lines(rows, proposal, single_brokers),
                        *_standalone_text(single_brokers),
                        *_adopt_text(proposal, single_brokers),
                    ]
                ),
                lines=True,
            )
        )
    return int(any(row["problem"] or (hosts and not row["broker"]) for row in rows))


def _naming_variables(
    hosts: Sequence[str], inventory: InventoryOptions, option_variables: Mapping[str, str]
) -> dict[str, Mapping[str, object]]:
    """Return, by host, the variables that decide how its name is read."""
    from activemq_fleet import InputError
    from activemq_fleet.naming import PATTERN_VARIABLE

    if not inventory:
        return dict.fromkeys(hosts, option_variables)
    inventory_variables = inventory.read_hosts_and_groups().hosts
    patterns = {
        host_variables[PATTERN_VARIABLE]
        for host_variables in inventory_variables.values()
        if host_variables.get(PATTERN_VARIABLE)
    }
    if len(patterns) > 1 and PATTERN_VARIABLE not in option_variables:
        raise InputError(
            f"the variable {PATTERN_VARIABLE} has different values on different hosts: set one value for all hosts, "
            "such as in group_vars/all"
        )
    common_variables = {PATTERN_VARIABLE: next(iter(patterns), None)}
    return {
        host: {**common_variables, **inventory_variables.get(host, {}), **option_variables}
        for host in (hosts or inventory_variables)
    }


def _host_row(host: str, variables: Mapping[str, object]) -> dict[str, Any]:
    from activemq_fleet.naming import PATTERN_VARIABLE, Naming, UnparsableBrokerNameError

    naming = Naming.naming_of_host(host, variables)
    row: dict[str, Any] = {"host": host, "broker": False, "problem": None}
    try:
        identity = naming.identify_broker(host)
    except UnparsableBrokerNameError as error:
        return row | {"problem": error.problem, "because": error.problem}
    if identity is None:
        similarity_note = (
            ", although it is similar to a broker name" if naming.looks_like_misspelled_broker(host) else ""
        )
        return row | {"because": f"not a broker: the name does not match {PATTERN_VARIABLE}{similarity_note}"}
    return row | {
        "broker": True,
        **identity.to_dict(),
        "origins": dict(identity.origins),
        "disagreements": dict(identity.disagreements),
        "because": _origins_text(identity),
    }


def _origins_text(identity: Identity) -> str:
    """Return a text with the source of each part of an identity: the host name, its number, or a variable."""
    because = [f"{', '.join(parts)} from {origin}" for origin, parts in _parts_by_origin(identity.origins).items()]
    because += [f"the name contains a different {part}: {text}" for part, text in identity.disagreements.items()]
    return "; ".join(because)


def _parts_by_origin(origins: Mapping[str, str]) -> dict[str, list[str]]:
    words = {"name": "the host name", "parity": "the odd or even number in the host name"}
    parts_by_origin: dict[str, list[str]] = {}
    for part, origin in origins.items():
        parts_by_origin.setdefault(words.get(origin, origin), []).append(part)
    return parts_by_origin


def _proposal_object(proposal: NamingConventionProposal) -> dict[str, Any]:
    return {
        "variables": proposal.variables(),
        "adopt": proposal.adopt_command_line(),
        "hosts": [{"host": identity.name, **identity.to_dict()} for identity in proposal.identities],
    }


def _report_lines(
    rows: Rows, proposal: NamingConventionProposal | None, single_brokers: NamingConventionProposal | None
) -> list[str]:
    lines = _table_lines(rows)
    unmatched = [row["host"] for row in rows if not (row["broker"] or row["problem"])]
    if proposal is None:
        return [*lines, "", _NO_CONVENTION_HINT] if unmatched and (not single_brokers or len(unmatched) > 1) else lines
    from activemq_fleet.inventory_yaml import plain_variables_to_yaml
    from activemq_fleet.naming import PARITY_VARIABLE, PATTERN_VARIABLE

    lines += [
        "",
        (
            f"With these variables set for all hosts, {_name_count_text(len(proposal.identities))} recognized as nodes "
            "of pairs:"
        ),
        "",
    ]
    lines += split_lines(plain_variables_to_yaml(proposal.variables())) or ["(the defaults)"]
    recognized = [
        {"host": identity.name, "broker": True, **identity.to_dict(), "because": _origins_text(identity)}
        for identity in proposal.identities
    ]
    lines += ["", *_table_lines(recognized)]
    if proposal.rival:
        rival = proposal.rival
        option, variable, value = (
            ("--naming-parity", PARITY_VARIABLE, rival.parity)
            if rival.parity
            else ("--master-node", "activemq_master_node", rival.preferred_node_mark)
        )
        options = shlex.join(["--naming-pattern", rival.pattern, option, value])
        lines += [
            "",
            "Another naming convention also matches these names, but forms different pairs. To show those pairs, add "
            "these options to the command:",
            "",
            options,
            "",
            f"If those pairs are correct, set {PATTERN_VARIABLE} and {variable} to the values in these options for all "
            "hosts.",
        ]
    unrecognized = [host for host in unmatched if host not in {identity.name for identity in proposal.identities}]
    if unrecognized:
        lines += ["", f"{_name_count_text(len(unrecognized))} not recognized as nodes of pairs. {_VARIABLES_HINT}"]
    return lines


def _name_count_text(count: int) -> str:
    return f"{count_with_noun(count, 'name')} {'is' if count == 1 else 'are'}"


def _standalone_text(single_brokers: NamingConventionProposal | None) -> list[str]:
    if single_brokers is None:
        return []
    from activemq_fleet.inventory_yaml import plain_variables_to_yaml

    variables = split_lines(plain_variables_to_yaml(single_brokers.variables()))
    return [
        "",
        (
            f"With these variables set for all hosts, {_name_count_text(len(single_brokers.identities))} recognized as "
            "single brokers:"
        ),
        "",
        *variables,
    ]


def _adopt_text(
    proposal: NamingConventionProposal | None, single_brokers: NamingConventionProposal | None
) -> list[str]:
    """Return the command lines that adopt the files of hosts with the proposed conventions, the most hosts first."""
    proposals = [
        (naming_proposal, meaning)
        for naming_proposal, meaning in ((proposal, "as nodes of pairs"), (single_brokers, "each as a single broker"))
        if naming_proposal
    ]
    if not proposals:
        return []
    proposals.sort(key=lambda entry: -len(entry[0].identities))
    commands = [naming_proposal.adopt_command_line() for naming_proposal, _ in proposals]
    instruction = (
        "To adopt the activemq.xml files of these hosts, put the path of each file in place of FILE, and the "
        "ActiveMQ release in place of RELEASE."
    )
    if any(" DIRECTORY " in command for command in commands):
        instruction += " DIRECTORY contains HOST/activemq.xml for each host."
    if len(proposals) == 1:
        return ["", instruction, "", *commands]
    lines = ["", instruction]
    for (naming_proposal, meaning), command in zip(proposals, commands, strict=True):
        lines += ["", f"To adopt {_host_list(naming_proposal)} {meaning}:", "", command]
    return lines


def _host_list(proposal: NamingConventionProposal) -> str:
    return names_to_text([identity.name for identity in proposal.identities])


def _table_lines(rows: Rows) -> list[str]:
    """Return the lines of a table of host names, without empty columns.

    A line about a host that is no broker has only the reason.
    """
    brokers = [row for row in rows if row["broker"]]
    columns = [column for column in _COLUMNS if any(str(row[column]) for row in brokers)]
    cells = [columns, *([str(row[column]) for column in columns] for row in brokers)]
    lines = align_columns(cells)
    reasons = [f"{row['host']}: {row['because']}" for row in rows if not row["broker"]]
    return [*(lines if len(lines) > 1 else ()), *reasons]
