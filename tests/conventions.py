"""Fleets of two pairs with host names of different conventions, for tests of all code that parses names.

``PUBLIC`` follows an inventory of a public repository: an INI file with a group per site, host names that contain the
department, the site and the building, and the node in a variable of the host.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Convention:
    """A naming convention with a fleet that follows it; ``pairs`` contains the master and the slave of each pair."""

    name: str
    pairs: Mapping[str, tuple[str, str]]
    variables: Mapping[str, Any] = field(default_factory=dict)
    """Variables of all hosts that define the convention."""
    host_variables: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Variables of single hosts."""
    ini: str = ""
    """The hosts of the inventory in INI format, if they are not a plain list."""

    @property
    def hosts(self) -> list[str]:
        return [host for pair in self.pairs.values() for host in pair]

    def write(self, directory: Path, pairs: Sequence[str] = (), **variables: Any) -> Path:
        """Write an inventory of these pairs (default: all); variables have no prefix ``activemq_``."""
        prefixed = {f"activemq_{name}": value for name, value in variables.items()}
        (directory / "group_vars").mkdir(parents=True, exist_ok=True)
        (directory / "group_vars/all.yml").write_text(json.dumps({**self.variables, **prefixed}, indent=1))
        (directory / "zz.activemq.yml").write_text("plugin: activemq.fleet.topology\n")
        if self.ini:
            (directory / "hosts.ini").write_text(self.ini)
        else:
            chosen = [host for pair in (pairs or self.pairs) for host in self.pairs[pair]]
            (directory / "hosts.yml").write_text(json.dumps({"all": {"hosts": dict.fromkeys(chosen)}}))
        return directory

    def variables_by_host(self, **variables: Any) -> dict[str, dict[str, Any]]:
        """Return the variables of each host, as the library requires them."""
        prefixed = {f"activemq_{name}": value for name, value in variables.items()}
        return {host: {**self.variables, **prefixed, **self.host_variables.get(host, {})} for host in self.hosts}


def _pattern(pattern: str, **variables: str) -> dict[str, str]:
    return {"activemq_naming_pattern": pattern, **{f"activemq_{name}": value for name, value in variables.items()}}


def _pairs_by_suffix(
    pairs: Sequence[str], master: str, slave: str, domain: str = ".example.com"
) -> dict[str, tuple[str, str]]:
    return {pair: (f"{pair}{master}{domain}", f"{pair}{slave}{domain}") for pair in pairs}


LETTERS = Convention("letters", _pairs_by_suffix(("orders-mq01", "orders-mq02"), "-a", "-b"))
# The documentation of the inventory plugin contains this convention.
DIGITS = Convention(
    "digits",
    _pairs_by_suffix(("orders-mq01", "orders-mq02"), "-1", "-2"),
    _pattern(r"^(?P<group>[^.]+)-mq(?P<number>[0-9]+)-(?P<node>[12])(?:\.|$)", master_node="1"),
)
WORDS = Convention(
    "words",
    _pairs_by_suffix(("orders-mq01", "orders-mq02"), "-primary", "-standby"),
    _pattern(r"^(?P<group>[^.]+)-mq(?P<number>[0-9]+)-(?P<node>primary|standby)(?:\.|$)", master_node="primary"),
)
PARITY = Convention(
    "parity",
    {
        "ffm1amq001-002": ("ffm1amq001.example.com", "ffm1amq002.example.com"),
        "ffm1amq003-004": ("ffm1amq003.example.com", "ffm1amq004.example.com"),
    },
    _pattern(r"^(?P<group>[a-z]+[0-9]+amq)(?P<number>[0-9]{3})(?:\.|$)", naming_parity="odd-even"),
)
COMPACT = Convention(
    "compact",
    _pairs_by_suffix(("fra1ordersmq01", "ber1ordersmq01"), "a", "b", domain=""),
    _pattern(r"^(?P<pair>(?:fra|ber)[0-9](?P<group>[a-z]+)mq(?P<number>[0-9]+))(?P<node>[ab])(?:\.|$)"),
)
UPPER = Convention(
    "upper",
    _pairs_by_suffix(("ORDERS-MQ01", "ORDERS-MQ02"), "-A", "-B", domain=".EXAMPLE.COM"),
    _pattern(r"^(?P<group>[^.]+)-MQ(?P<number>[0-9]+)-(?P<node>[AB])(?:\.|$)", master_node="A"),
)
_SITES = {site: {"activemq_group": f"edi-{site}", "activemq_pair": f"edi-{site}-mq1"} for site in ("fra", "ber")}
PUBLIC = Convention(
    "public",
    {f"edi-{site}-mq1": (f"edi-{site}1-mq1.example.com", f"edi-{site}2-mq1.example.com") for site in _SITES},
    {"activemq_master_node": "primary"},
    host_variables={
        f"edi-{site}{number}-mq1.example.com": {**variables, "activemq_node": node}
        for site, variables in _SITES.items()
        for number, node in ((1, "primary"), (2, "standby"))
    },
    ini="".join(
        f"[{site}]\n"
        f"edi-{site}1-mq1.example.com activemq_node=primary\n"
        f"edi-{site}2-mq1.example.com activemq_node=standby\n\n"
        f"[{site}:vars]\nactivemq_group=edi-{site}\nactivemq_pair=edi-{site}-mq1\n\n"
        for site in _SITES
    ),
)
CONVENTIONS = (LETTERS, DIGITS, WORDS, PARITY, COMPACT, UPPER, PUBLIC)


EVERY_CONVENTION = os.environ.get("CONVENTIONS") == "all"
DRILLED = CONVENTIONS if EVERY_CONVENTION else (PARITY,)
"""The conventions of tests with real brokers."""
