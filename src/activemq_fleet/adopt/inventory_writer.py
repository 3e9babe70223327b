"""Write variables by host as the files of an Ansible inventory.

Each variable is written once: for all hosts, for a group, a pair, all masters or slaves, or for a single host.
"""

from __future__ import annotations

import hashlib
import json
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from activemq_fleet.adopt.broker_variables import DEFAULT_HEAP
from activemq_fleet.adopt.companion_file_variables import is_heap_known_for_all_hosts
from activemq_fleet.adopt.profiles import hosts_with_unknown_store_path
from activemq_fleet.adopt.proposal import ProposedVariablesByHost, Variables
from activemq_fleet.adopt.secrets import SecretFileReference, TextWithSecretLabels
from activemq_fleet.group_names import MASTERS, SLAVES, inventory_group_name
from activemq_fleet.inventory_yaml import STRING, TextWithNameReplacedByExpression, scalar_to_yaml_node
from activemq_fleet.naming import DEFAULT_PATTERN
from activemq_fleet.node.printable import count_with_noun, escape_unprintable
from activemq_fleet.node.text_lines import split_lines
from activemq_fleet.settings.host_settings import PREFIX, HostSettings
from activemq_fleet.topology import AGENTS, Fleet

MARK = "# Adopted by activemq-fleet"
_PLUGIN_FILE = "zz.activemq.yml"
_GITIGNORE = ".gitignore"
_CHECKSUM_PREFIX = "sha256 "
_WIDTH = 110
_MAXIMUM_INLINE_VARIABLES = 4
_YAML_TAG_PREFIX = "tag:yaml.org,2002:"
_COMMENTS = {
    "install": "# The playbook site does not install ActiveMQ: it uses the release in the directory activemq_home.\n"
}
_SECRETS = """
# Write each password to its file in this directory, with mode 0600, or use ansible-vault instead.
# Until the file exists, `check` warns (T030), and the playbook `site` fails.
secrets: "{{ inventory_dir }}/.secrets"
"""


def inventory_files(proposal: ProposedVariablesByHost, fleet: Fleet) -> dict[str, bytes]:
    """Return the files of a proposed Ansible inventory: the content of each by its path.

    They are hosts.yml, group_vars, host_vars, the inventory plugin's file, and .gitignore.
    """
    levels = _variables_by_level(_replace_names_by_templates(proposal.variables, fleet), fleet)
    for path, variables in _distribute_variables(proposal.agents, [{AGENTS: list(proposal.agents)}]).items():
        levels.setdefault(path, {}).update(variables)
    hosts = [document.host for document in proposal.documents]
    inline = {host: levels.pop(f"host_vars/{host}.yml", {}) for host in hosts if _fits_in_hosts_yaml(levels, host)}
    all_hosts_variables = levels.setdefault("group_vars/all.yml", {})
    if proposal.naming.pattern != DEFAULT_PATTERN:
        all_hosts_variables["naming_pattern"] = proposal.naming.pattern
    origin = f"---\n{MARK} from the files of {count_with_noun(len(hosts), 'host')}.\n"
    notes = {"group_vars/all.yml": _notes_comment(proposal) + _unknown_values_comment(proposal)}
    files = {path: origin + notes.get(path, "") + _variables_yaml(variables) for path, variables in levels.items()}
    files["hosts.yml"] = _hosts_yaml(proposal, inline)
    if labels_of_referenced_secrets(levels):
        files["group_vars/all.yml"] += _SECRETS
    files[_GITIGNORE] = f"{MARK}: git ignores the passwords.\n.secrets/\n"
    contents = {path: text.encode() for path, text in files.items()}
    checksum_comment = (
        "# adopt replaces the files of this inventory only while they have this checksum:\n# "
        f"{_CHECKSUM_PREFIX}{_files_digest(contents)}\n"
    )
    plugin = f"---\n{MARK}.\n{checksum_comment}plugin: activemq.fleet.topology\n"
    return dict(sorted({**contents, _PLUGIN_FILE: plugin.encode()}.items()))


def _notes_comment(proposal: ProposedVariablesByHost) -> str:
    """Return the urgent notes of an adoption as a comment in the inventory, for the operator's later decisions."""
    if not proposal.urgent_notes:
        return ""
    lines = ["# Notes of the adoption. Remove each note after you have followed it."]
    for note in proposal.urgent_notes:
        lines += textwrap.wrap(
            escape_unprintable(note), _WIDTH, initial_indent="# - ", subsequent_indent="#   ", break_long_words=False
        )
    return "\n".join(lines) + "\n"


def _unknown_values_comment(proposal: ProposedVariablesByHost) -> str:
    """Return commented lines with variables that ``site`` requires and that the adopted files do not show."""
    lines = {
        "ansible_become: true": "the playbooks need root access to the hosts",
        "activemq_home: /opt/activemq": "the directory of the installed release",
        "activemq_user: activemq": "the account that owns the store",
    }
    if hosts_with_unknown_store_path(proposal):
        lines["activemq_store_directory: /opt/activemq/data/kahadb"] = "the directory that holds the messages now"
    if not is_heap_known_for_all_hosts(proposal):
        lines[f"activemq_heap: {DEFAULT_HEAP}"] = "the value of -Xmx"
    width = max(map(len, lines))
    commented_lines = [f"# {line:<{width}}  # {meaning}" for line, meaning in lines.items()]
    return "\n".join(
        ["# Before you deploy, uncomment these lines, and set the values of your hosts:", *commented_lines, ""]
    )


def is_inventory_unedited(files: Mapping[str, bytes]) -> bool:
    """Return whether an inventory's files are unedited since ``adopt`` wrote them."""
    checked_files = {path: content for path, content in files.items() if path != _PLUGIN_FILE}
    return f"# {_CHECKSUM_PREFIX}{_files_digest(checked_files)}\n" in files.get(_PLUGIN_FILE, b"").decode(
        errors="replace"
    )


def _files_digest(files: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256()
    for path, content in sorted(files.items()):
        digest.update(f"{path}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


_VARIABLE_POSITIONS = {name: position for position, name in enumerate(HostSettings.model_fields)}


def labels_of_referenced_secrets(value: Any) -> set[str]:
    """Return the labels of all secrets that a value refers to, at any depth."""
    if isinstance(value, SecretFileReference):
        return {value.label}
    if isinstance(value, TextWithSecretLabels):
        return value.labels_of_secrets_in_text
    items: Iterable[Any] = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return set().union(*(labels_of_referenced_secrets(item) for item in items))


def _replace_names_by_templates(variables: Mapping[str, Variables], fleet: Fleet) -> dict[str, Variables]:
    """Return the variables with names of pairs or hosts replaced by Jinja expressions.

    Replace them in broker names and store directories whose values differ between hosts by this name alone.
    """
    templated_variables = {host: dict(host_variables) for host, host_variables in variables.items()}
    names = {
        "{{ activemq_identity.pair }}": {broker.host: broker.pair for broker in fleet.brokers},
        "{{ inventory_hostname_short }}": {broker.host: broker.host.split(".")[0] for broker in fleet.brokers},
    }
    for name in ("broker_name", "store_directory"):
        values_by_host = {
            host: host_variables[name] for host, host_variables in variables.items() if name in host_variables
        }
        for expression, names_by_host in names.items():
            parts = {tuple(text.split(names_by_host[host])) for host, text in values_by_host.items()}
            if len(parts) == 1 and len(set(values_by_host.values())) > 1:
                template = TextWithNameReplacedByExpression(parts.pop(), expression)
                for host in values_by_host:
                    templated_variables[host][name] = template
                break
    return templated_variables


def _fits_in_hosts_yaml(levels: Mapping[str, Variables], host: str) -> bool:
    """Return whether the variables of a host are few and simple enough for hosts.yml."""
    host_variables = levels.get(f"host_vars/{host}.yml", {})
    return len(host_variables) <= _MAXIMUM_INLINE_VARIABLES and all(
        isinstance(value, str | int | TextWithNameReplacedByExpression) for value in host_variables.values()
    )


def _variables_yaml(variables: Variables) -> str:
    ordered = sorted(variables, key=lambda name: _VARIABLE_POSITIONS.get(name, -1))
    return "".join(_COMMENTS.get(name, "") + _variable_yaml(name, variables[name]) for name in ordered)


def _hosts_yaml(proposal: ProposedVariablesByHost, inline: Mapping[str, Variables]) -> str:
    lines = ["---", f"{MARK}: each host with the files it was adopted from.", "all:", "  hosts:"]
    for document in proposal.documents:
        names = ", ".join(dict.fromkeys(Path(file).name for file in document.files_read))
        files = "".join(char if char.isprintable() else "?" for char in names)
        lines.append(f"    {_yaml_scalar(document.host)}: # {files}")
        lines += [f"      {line}" for line in split_lines(_variables_yaml(inline.get(document.host, {})))]
    if proposal.agents:
        lines += ["  children:", f"    {AGENTS}:", "      hosts:"]
        lines += [f"        {_yaml_scalar(host)}:" for host in sorted(proposal.agents)]
    return "\n".join(lines) + "\n"


def _yaml_scalar(text: str) -> str:
    return yaml.safe_dump(text, default_flow_style=True, width=1000).removesuffix("\n...\n").strip()


def _variables_by_level(variables: Mapping[str, Variables], fleet: Fleet) -> dict[str, Variables]:
    """Return brokers' variables by the inventory file that sets them, in the most general file that is possible."""
    groups = {inventory_group_name("group", g.name): [b.host for b in g.brokers] for g in fleet.groups}
    pairs = {
        inventory_group_name("pair", name): [b.host for b in pair.brokers] for name, pair in fleet.pairs_by_name.items()
    }
    groups, pairs = ({name: hosts for name, hosts in members.items() if len(hosts) > 1} for members in (groups, pairs))
    roles = {
        name: [broker.host for broker in fleet.brokers if broker.role == role]
        for name, role in ((MASTERS, "master"), (SLAVES, "slave"))
    }
    # The inventory plugin has one master mark for all hosts. Its groups of masters and slaves are correct only then.
    if len(pairs) < 2 or len({host_variables.get("master_node") for host_variables in variables.values()}) > 1:
        roles = {}
    return _distribute_variables(variables, [{"all": list(variables)}, groups, roles, pairs])


def _distribute_variables(
    variables: Mapping[str, Variables], levels: Sequence[Mapping[str, Sequence[str]]]
) -> dict[str, Variables]:
    """Return variables of hosts by the file of group_vars or host_vars that sets them.

    ``levels`` are groups with their hosts, the most general level first. A variable is set for the first group whose
    hosts all have one value for it, or all have none; that of masters only if that of slaves is too.
    """
    variables_by_file: dict[str, Variables] = {}
    for name in dict.fromkeys(name for host_variables in variables.values() for name in host_variables):
        texts = {
            host: json.dumps(host_variables[name], default=repr)
            for host, host_variables in variables.items()
            if name in host_variables
        }
        remaining_hosts = set(variables)
        for level in levels:
            is_uniform = {
                group: remaining_hosts.issuperset(hosts) and len({texts.get(host) for host in hosts}) == 1
                for group, hosts in level.items()
            }
            if MASTERS in level and not all(is_uniform.values()):
                continue
            for group, hosts in level.items():
                if is_uniform[group]:
                    remaining_hosts -= set(hosts)
                    if hosts[0] in texts:
                        variables_by_file.setdefault(f"group_vars/{group}.yml", {})[name] = variables[hosts[0]][name]
        for host in remaining_hosts & texts.keys():
            variables_by_file.setdefault(f"host_vars/{host}.yml", {})[name] = variables[host][name]
    return variables_by_file


class _Dumper(yaml.SafeDumper):
    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _variable_yaml(name: str, value: Any) -> str:
    node = yaml.MappingNode(
        _YAML_TAG_PREFIX + "map", [(_yaml_node(PREFIX + name), _yaml_node(value))], flow_style=False
    )
    text: str = yaml.serialize(node, Dumper=_Dumper, allow_unicode=True, width=_WIDTH)
    return text


def _yaml_node(value: Any) -> yaml.Node:
    """Return a variable's value as YAML, in the format of the proposed inventory.

    Short mappings and lists of plain strings are on one line, secrets are lookups.
    """
    if isinstance(value, SecretFileReference):
        return yaml.ScalarNode(STRING, f"{{{{ {value.lookup_expression} }}}}", style=">")
    if isinstance(value, TextWithSecretLabels):
        return yaml.ScalarNode(STRING, value.text_as_jinja_template, style="|")
    if isinstance(value, dict):
        items = [(_yaml_node(name), _yaml_node(item)) for name, item in value.items()]
        return yaml.MappingNode(_YAML_TAG_PREFIX + "map", items, flow_style=_fits_on_a_line(value))
    if isinstance(value, list):
        return yaml.SequenceNode(
            _YAML_TAG_PREFIX + "seq", [_yaml_node(item) for item in value], flow_style=_fits_on_a_line(value)
        )
    return scalar_to_yaml_node(value)


def _fits_on_a_line(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_fits_on_a_line, value.values())) and len(str(value)) < _WIDTH
    if isinstance(value, list):
        return all(type(item) is str for item in value)
    return type(value) in (str, int, bool)
