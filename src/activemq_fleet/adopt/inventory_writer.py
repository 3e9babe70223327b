"""Write variables by host as the files of an Ansible inventory.

Each variable is written once: for all hosts, for a group, a pair, all masters or slaves, or for a single host.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import yaml

from activemq_fleet.adopt.proposal import Proposal, Variables
from activemq_fleet.adopt.secrets import Secret, Templated
from activemq_fleet.adopt.values import NAMES
from activemq_fleet.grouping import MASTERS, SLAVES, group_name
from activemq_fleet.naming import DEFAULT_PATTERN
from activemq_fleet.settings.broker import PREFIX
from activemq_fleet.topology import AGENTS, Fleet

MARK = "# Adopted by activemq-fleet"
_PLUGIN = "zz.activemq.yml"
_SEAL = "sha256 "
_WIDTH = 110
_MOST_INLINE = 4
_ABSENT = ""


def write_inventory(proposal: Proposal, fleet: Fleet) -> dict[str, bytes]:
    """Return the inventory's files, content by path: hosts.yml, group_vars, host_vars, the inventory plugin's file."""
    levels = _levels(_by_name(proposal.variables, fleet), fleet)
    for path, variables in _agent_levels(proposal.agents).items():
        levels.setdefault(path, {}).update(variables)
    hosts = [document.host for document in proposal.documents]
    inline = {host: levels.pop(f"host_vars/{host}.yml", {}) for host in hosts if _is_small(levels, host)}
    files = {"hosts.yml": _hosts(proposal, inline)}
    everyone = levels.setdefault("group_vars/all.yml", {})
    if proposal.naming.pattern != DEFAULT_PATTERN:
        everyone["naming_pattern"] = proposal.naming.pattern
    number = len(proposal.documents)
    origin = f"{MARK} from the activemq.xml of {number} host{'s' if number > 1 else ''}."
    uses_secrets = any(_has_secret(value) for variables in levels.values() for value in variables.values())
    for path, variables in levels.items():
        text = f"---\n{origin}\n{_variables(variables)}"
        if path == "group_vars/all.yml" and uses_secrets:
            text += "\n# Put the passwords that are in force there, a file each, or use ansible-vault instead.\n"
            text += 'secrets: "{{ inventory_dir }}/.secrets"\n'
        files[path] = text
    found = {path: text.encode() for path, text in files.items()}
    seal = f"# It replaces the other files only while they are unchanged:\n# {_SEAL}{_digest(found)}\n"
    plugin = f"---\n{MARK}.\n{seal}plugin: activemq.fleet.topology\n"
    return dict(sorted({**found, _PLUGIN: plugin.encode()}.items()))


def is_unchanged(files: Mapping[str, bytes]) -> bool:
    """Return whether a directory's files are those that ``write_inventory`` wrote, with no edit since."""
    others = {path: content for path, content in files.items() if path != _PLUGIN}
    return f"# {_SEAL}{_digest(others)}\n" in files.get(_PLUGIN, b"").decode(errors="replace")


def _digest(files: Mapping[str, bytes]) -> str:
    whole = hashlib.sha256()
    for path, content in sorted(files.items()):
        whole.update(f"{path}\0{len(content)}\0".encode() + content)
    return whole.hexdigest()


_ORDER = {name: position for position, name in enumerate(NAMES)}


def labels_in(value: Any) -> set[str]:
    """Return the labels of all secrets that a value refers to, at any depth."""
    if isinstance(value, Secret):
        return {value.label}
    if isinstance(value, Templated):
        return value.labels
    items: Iterable[Any] = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return set().union(*(labels_in(item) for item in items))


def _has_secret(value: Any) -> bool:
    return bool(labels_in(value))


def _by_name(variables: Mapping[str, Variables], fleet: Fleet) -> dict[str, Variables]:
    """Return the variables with the name of the pair or the short host name as a Jinja expression.

    Replaced are broker names and store directories, where the name is all in which the hosts' values differ.
    """
    found = {host: dict(mine) for host, mine in variables.items()}
    names = {
        "{{ activemq_identity.pair }}": {broker.host: broker.pair for broker in fleet.brokers},
        "{{ inventory_hostname_short }}": {broker.host: broker.identity.host for broker in fleet.brokers},
    }
    for name in ("broker_name", "store_directory"):
        values_by_host = {host: mine[name] for host, mine in variables.items() if name in mine}
        for expression, of in names.items():
            general = {text.replace(of[host], expression) for host, text in values_by_host.items()}
            if len(general) == 1 and len(set(values_by_host.values())) > 1 and expression in next(iter(general)):
                for host in values_by_host:
                    found[host][name] = next(iter(general))
                break
    return found


def _is_small(levels: Mapping[str, Variables], host: str) -> bool:
    """Return whether a host's own variables are few and simple enough to stand in hosts.yml."""
    mine = levels.get(f"host_vars/{host}.yml", {})
    return len(mine) <= _MOST_INLINE and all(isinstance(value, str | int) for value in mine.values())


def _variables(variables: Variables) -> str:
    ordered = sorted(variables, key=lambda name: _ORDER.get(name, -1))
    return "".join(_variable(name, variables[name]) for name in ordered)


def _hosts(proposal: Proposal, inline: Mapping[str, Variables]) -> str:
    lines = ["---", f"{MARK}: each host with the file it was adopted from.", "all:", "  hosts:"]
    for document in proposal.documents:
        file = "".join(char if char.isprintable() else "?" for char in document.file)
        lines.append(f"    {_scalar(document.host)}: # {file}")
        lines += [f"      {line}" for line in _variables(inline.get(document.host, {})).splitlines()]
    if proposal.agents:
        lines += ["  children:", f"    {AGENTS}:", "      hosts:"]
        lines += [f"        {_scalar(host)}:" for host in sorted(proposal.agents)]
    return "\n".join(lines) + "\n"


def _scalar(text: str) -> str:
    return yaml.safe_dump(text, default_flow_style=True, width=1000).removesuffix("\n...\n").strip()


def _levels(variables: Mapping[str, Variables], fleet: Fleet) -> dict[str, Variables]:
    found: dict[str, Variables] = {}
    groups = _several({group_name("group", g.name): [b.host for b in g.brokers] for g in fleet.groups})
    pairs = _several({group_name("pair", name): [b.host for b in pair.brokers] for name, pair in fleet.pairs.items()})
    roles = {
        name: [broker.host for broker in fleet.brokers if broker.role == role]
        for name, role in ((MASTERS, "master"), (SLAVES, "slave"))
    }
    # The inventory plugin knows one letter for all, so that its masters and slaves are ours only then.
    if len(pairs) < 2 or len({mine.get("master_node") for mine in variables.values()}) > 1:
        roles = {}
    for name in dict.fromkeys(name for mine in variables.values() for name in mine):
        texts = {host: _canonical(mine[name]) if name in mine else _ABSENT for host, mine in variables.items()}
        left = set(texts)
        for level in ({"all": list(texts)}, groups, roles, pairs):
            fits = {at: _same(texts, hosts) and left.issuperset(hosts) for at, hosts in level.items()}
            if level is roles and not all(fits.values()):
                continue
            for at, hosts in level.items():
                if fits[at] and hosts:
                    left -= set(hosts)
                    if texts[hosts[0]] is not _ABSENT:
                        found.setdefault(f"group_vars/{at}.yml", {})[name] = variables[hosts[0]][name]
        for host in left:
            if texts[host] is not _ABSENT:
                found.setdefault(f"host_vars/{host}.yml", {})[name] = variables[host][name]
    return found


def _several(members: Mapping[str, list[str]]) -> dict[str, list[str]]:
    return {name: hosts for name, hosts in members.items() if len(hosts) > 1}


def _agent_levels(agents: Mapping[str, Variables]) -> dict[str, Variables]:
    found: dict[str, Variables] = {}
    for name in dict.fromkeys(name for mine in agents.values() for name in mine):
        texts = {_canonical(mine[name]) if name in mine else _ABSENT for mine in agents.values()}
        for host, mine in agents.items():
            path = f"group_vars/{AGENTS}.yml" if len(texts) == 1 else f"host_vars/{host}.yml"
            if name in mine:
                found.setdefault(path, {})[name] = mine[name]
    return found


def _same(texts: Mapping[str, str], hosts: Sequence[str]) -> bool:
    return len({texts[host] for host in hosts}) == 1


def _canonical(value: Any) -> str:
    return json.dumps(value, default=repr)


class _Flow(dict[str, Any]):
    """A mapping that is dumped on one line of YAML."""


class _FlowList(list[Any]):
    """A list that is dumped on one line of YAML."""


class _Block(str):
    """A text that is dumped as a literal block of YAML, with its line ends."""


class _Folded(str):
    """A long expression that is dumped as a folded block of YAML."""


class _Dumper(yaml.SafeDumper):
    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _style(style: str) -> Callable[[yaml.SafeDumper, str], yaml.ScalarNode]:
    return lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", str(text), style=style)


_Dumper.add_representer(_Block, _style("|"))
_Dumper.add_representer(_Folded, _style(">"))
_Dumper.add_representer(_Flow, lambda d, v: d.represent_mapping("tag:yaml.org,2002:map", v, flow_style=True))
_Dumper.add_representer(_FlowList, lambda d, v: d.represent_sequence("tag:yaml.org,2002:seq", v, flow_style=True))


def _variable(name: str, value: Any) -> str:
    return yaml.dump(
        {PREFIX + name: _shaped(value)},
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        width=_WIDTH,
        default_flow_style=False,
    )


def _shaped(value: Any) -> Any:
    """Return a variable's value with YAML styles: short mappings and lists of plain strings on one line."""
    if isinstance(value, Secret):
        return _Folded(f"{{{{ {value.lookup} }}}}")
    if isinstance(value, Templated):
        return _Block(value.jinja)
    if isinstance(value, dict):
        shaped = {name: _shaped(item) for name, item in value.items()}
        return _Flow(shaped) if _is_short(shaped) else shaped
    if isinstance(value, list):
        items = [_shaped(item) for item in value]
        return _FlowList(items) if all(isinstance(item, str) and type(item) is str for item in items) else items
    return value


def _is_short(shaped: Mapping[str, Any]) -> bool:
    plain = all(type(item) in (str, int, bool, _FlowList, _Flow) for item in shaped.values())
    return plain and len(str(dict(shaped))) < _WIDTH
