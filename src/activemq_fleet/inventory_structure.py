"""Find mistakes in the structure of an inventory: keys, levels and names of files that Ansible ignores or misreads.

The files are read here a second time, as YAML nodes: Ansible keeps no position of a key that it ignores.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from activemq_fleet.findings import Finding, Severity
from activemq_fleet.naming import PREFIX
from activemq_fleet.similar_names import most_similar_name

SECTIONS = ("hosts", "children", "vars")
_DIRECTORIES = ("group_vars", "host_vars")
_EXTENSIONS = ("", ".yml", ".yaml", ".json")
# Names of copies and notes, which Ansible does not read as variables of a group or host.
_OTHER_FILES = re.compile(r"^\.|~$|\.(?:bak|cfg|ini|md|old|orig|pyc|retry|rst|swp|txt)$")
_STRUCTURE_REASON = (
    "Ansible does not use the hosts or variables in this part of the inventory as intended, so the fleet lacks them"
)
_IDENTIFIER = re.compile(r"[^\W\d]\w*")
_ROLE_GROUPS = ("activemq_agents", "activemq_loadbalancers", "activemq_brokers")
_GENERATED_GROUP = re.compile(r"activemq_(?:masters|slaves|(?:group|pair)_.*)")
_INVALID_SECTION = re.compile(r"Section \[(?P<group>[^]:]+):(?P<kind>[^]]+)\]")
_VARIABLES_OF_HOSTS = {"activemq_address", "activemq_node", "activemq_pair", "ansible_host"}
_MAXIMUM_NAMES = 4
_VAULT_HEADER = b"$ANSIBLE_VAULT"
_Place = tuple[str | None, int | None]
"""A file and a line, 1-based; None where they are unknown."""
# libyaml's loader is ten times as fast, and is part of every wheel of PyYAML.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class InventoryLayout:
    """The layout of an Ansible inventory: its files, groups and hosts.

    The layout has the hosts of each group, and the names of all hosts.
    """

    files: tuple[str, ...]
    groups: Mapping[str, Sequence[str]]
    hosts: frozenset[str]


def inventory_structure_findings(layout: InventoryLayout) -> list[Finding]:
    """Return the findings about the structure of an inventory's files.

    They are of the rules T038, T039 and T041, and those of a file in order of lines.
    """
    files = [file for file in layout.files if not _intended_directory(os.path.basename(os.path.dirname(file)))]
    findings = [finding for file in files for finding in yaml_inventory_file_findings(file, layout)]
    findings += _findings_about_groups_named_as_hosts(layout)
    findings += _findings_about_variables_listed_as_hosts(layout, {finding.line for finding in findings})
    return [*findings, *_variables_file_findings(layout), *_role_group_findings(layout)]


def yaml_inventory_file_findings(path: str, layout: InventoryLayout | None = None) -> list[Finding]:
    """Return a list of the findings (rule T038) about the structure of one inventory file in YAML, in order of lines.

    The list is empty for a file that is not YAML, or that configures an inventory plugin. ``layout`` is that of the
    whole inventory. Without it, the function cannot compare the file with the inventory's other hosts and groups.
    """
    top_level = _read_yaml_mapping(path)
    if top_level is None or any(key.value == "plugin" for key, _ in _scalar_key_items(top_level)):
        return []
    scan = _FileScan(_displayed_path(path), layout or InventoryLayout((), {}, frozenset()))
    return sorted(scan.structure_findings(top_level), key=lambda finding: finding.line or 0)


def structure_finding_as_error_text(finding: Finding) -> str:
    """Return a finding about an inventory file's structure as the text of an error: ``FILE:LINE: MISTAKE. FIX``.

    The text is one line of an error message, which can have more.
    """
    return f"{os.path.abspath(finding.file or '')}:{finding.line}: {finding.message_and_fix_sentences}"


def ini_section_error_and_line(path: str, reason: str) -> tuple[str, int] | None:
    """Return the error about a wrong section of an INI inventory file, and the line of the section.

    The error is Ansible's message ``reason``, completed with the section that is probably meant. Ansible itself names
    the line after the section. None is returned for another error.
    """
    match = _INVALID_SECTION.search(reason)
    if match is None:
        return None
    lines = [line.strip() for line in Path(path).read_text(encoding="utf-8", errors="replace").split("\n")]
    header = f"[{match['group']}:{match['kind']}]"
    groups = {line.strip("[]").partition(":")[0] for line in lines if line.startswith("[") and line != header}
    group = match["group"] if match["group"] in groups else most_similar_name(match["group"], groups) or match["group"]
    kind = match["kind"] if match["kind"] in ("vars", "children") else most_similar_name(match["kind"], SECTIONS)
    intended = f"[{group}:{kind}]"
    hint = f": did you mean {intended}?" if kind and intended != header else ""
    return f"{reason}{hint}", lines.index(header) + 1 if header in lines else 1


def _intended_directory(name: str) -> str | None:
    """Return the directory of variables that a misspelled directory name means; None for any other name."""
    return None if name in _DIRECTORIES else most_similar_name(name, _DIRECTORIES, certain=True)


def _displayed_path(path: str) -> str:
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative


def _read_yaml_mapping(path: str) -> yaml.MappingNode | None:
    """Return the mapping in a YAML file; None for any other file, which Ansible itself reports."""
    with suppress(OSError, UnicodeDecodeError, yaml.YAMLError):
        text = Path(path).read_text(encoding="utf-8")
        node = yaml.compose(text, Loader=_LOADER)
        if isinstance(node, yaml.MappingNode):
            return node
    return None


def _scalar_key_items(node: yaml.Node | None) -> list[tuple[yaml.ScalarNode, yaml.Node]]:
    """Return the keys of a mapping that are scalars, with their values; [] for another node."""
    pairs = node.value if isinstance(node, yaml.MappingNode) else ()
    return [(key, value) for key, value in pairs if isinstance(key, yaml.ScalarNode)]


def _is_empty(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null"


def _fleet_variable_names(node: yaml.Node) -> list[str]:
    return [key.value for key, _ in _scalar_key_items(node) if key.value.startswith(PREFIX)]


def _is_host(node: yaml.Node) -> bool:
    """Return whether a mapping has variables that only a host can have, and no section of a group."""
    keys = {key.value for key, _ in _scalar_key_items(node)}
    return bool(keys & _VARIABLES_OF_HOSTS) and keys.isdisjoint(SECTIONS)


def _is_group(name: str, node: yaml.Node) -> bool:
    """Return whether a key where groups are listed is a group, such as activemq_agents, and not a variable."""
    if not name.startswith(PREFIX):
        return isinstance(node, yaml.MappingNode) or _is_empty(node)
    return _is_empty(node) or any(key.value in SECTIONS for key, _ in _scalar_key_items(node))


def _line_number(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _similar_host(name: str, hosts: Iterable[str]) -> str | None:
    """Return a host whose name differs from the given name only in the digits or in one character; None without one."""
    shape = re.sub(r"\d+", "0", name)
    for host in sorted(hosts):
        differs_only_in_digits = "0" in shape and re.sub(r"\d+", "0", host) == shape
        has_same_length = len(host) == len(name)
        if name != host and (differs_only_in_digits or (has_same_length and sum(map(str.__ne__, name, host)) == 1)):
            return host
    return None


@dataclass(slots=True)
class _FileScan:
    """A scan of one inventory file for mistakes, with the repeated keys and the definitions in the file."""

    file: str
    layout: InventoryLayout
    repeated: set[str] = field(default_factory=set)
    definitions: dict[tuple[str, str], list[yaml.ScalarNode]] = field(default_factory=lambda: defaultdict(list))

    def structure_findings(self, top_level: yaml.MappingNode) -> Iterator[Finding]:
        """Yield the findings about the structure of the inventory file, in no order.

        ``top_level`` is the YAML node of the mapping that is the content of the file.
        """
        yield from self.repeated_key_findings(top_level, ())
        for key, value in _scalar_key_items(top_level):
            if key.value in SECTIONS:
                text = f"`{key.value}:` is at the top level of the file, where Ansible reads it as a group"
                yield self._finding(key, text, f"move `{key.value}:` below the name of a group, such as `all:`")
            elif not _is_group(key.value, value):
                yield self._finding(
                    key,
                    f"Ansible ignores {key.value} at the top level of the file, because it is not a group",
                    f"move {key.value} below `vars:` of a group, such as `all:`",
                )
            else:
                yield from self._group_findings(key, value, set())
        for (host, variable), values in self.definitions.items():
            if host not in self.repeated and len({value.value for value in values}) > 1:
                lines = " and ".join(str(_line_number(value)) for value in values)
                yield self._finding(
                    values[-1],
                    f"{variable} of host {host} has different values in lines {lines}: Ansible uses only the last one",
                    f"keep one of the values of {variable}, and remove the others",
                )

    def _finding(self, node: yaml.Node, message: str, fix: str, severity: Severity = "error") -> Finding:
        return _file_finding("T038", severity, message, fix, _STRUCTURE_REASON, (self.file, _line_number(node)))

    def repeated_key_findings(self, node: yaml.Node, path: tuple[str, ...]) -> Iterator[Finding]:
        """Yield a finding for each key that is repeated in a YAML mapping of the inventory file.

        ``path`` are the keys of the mapping's parents.
        """
        lines: dict[str, int] = {}
        for key, value in _scalar_key_items(node):
            if key.value in lines:
                self.repeated.add(key.value)
                inside = f" of {path[-1]}" if path else ""
                yield self._finding(
                    key,
                    f"the key {key.value}{inside} exists twice, here and in line {lines[key.value]}: Ansible uses only "
                    "the later key",
                    f"rename or remove one of the two hosts {key.value}"
                    if path[-1:] == ("hosts",)
                    else f"remove one of the two keys {key.value}",
                )
            lines.setdefault(key.value, _line_number(key))
            yield from self.repeated_key_findings(value, (*path, key.value))

    def _group_findings(self, name: yaml.ScalarNode, node: yaml.Node, hosts: set[str]) -> Iterator[Finding]:
        """Yield the findings about a group; ``hosts`` are those of the groups that contain it."""
        sections = {key.value: value for key, value in _scalar_key_items(node) if key.value in SECTIONS}
        hosts = hosts | {key.value for key, _ in _scalar_key_items(sections.get("hosts"))}
        for section, value in sections.items():
            if isinstance(value, yaml.SequenceNode):
                yield self._finding(
                    value,
                    f"`{section}:` of group {name.value} is a list, but Ansible requires a mapping",
                    f"write `NAME:` in place of `- NAME` for each entry of `{section}:`",
                )
        if keys := _fleet_variable_names(node):
            yield self._misplaced_group_variables_finding(name, node, keys)
        for key, value in _scalar_key_items(node):
            if key.value not in (*SECTIONS, *keys):
                yield self._unexpected_key_finding(name.value, key, value)
        for host, value in _scalar_key_items(sections.get("hosts")):
            yield from self._host_findings(name.value, host, value)
        for variable, value in _scalar_key_items(sections.get("vars")):
            yield from self._nested_variable_findings(
                f"group {name.value}", variable, value, frozenset(), is_host=False
            )
        children = _scalar_key_items(sections.get("children"))
        if children and all(_is_host(value) for _, value in children):
            key = next(key for key, _ in _scalar_key_items(node) if key.value == "children")
            names = ", ".join(child.value for child, _ in children[:_MAXIMUM_NAMES])
            message = (
                f"the entries {names} below `children:` of group {name.value} directly contain variables, as hosts do, "
                "but Ansible reads these entries as groups"
            )
            yield self._finding(key, message, f"if {names} are hosts, write `hosts:` in place of `children:`")
            return
        for child, value in children:
            if child.value in SECTIONS:
                text = f"`{child.value}:` is directly below `children:` of group {name.value}, as if it were a group"
                yield self._finding(child, text, f"move `{child.value}:` below the name of its group, and indent it")
                continue
            if not _is_group(child.value, value):
                yield self._finding(
                    child,
                    f"{child.value} is listed below `children:` of group {name.value}, but is not a group",
                    f"move {child.value} below `vars:` of group {name.value} if it is a variable, otherwise remove it",
                )
                continue
            yield from self._group_findings(child, value, hosts)
            if _is_empty(value) and not self.layout.groups.get(child.value):
                yield from self._empty_group_findings(child)

    def _misplaced_group_variables_finding(
        self, name: yaml.ScalarNode, node: yaml.Node, keys: Sequence[str]
    ) -> Finding:
        group, variable_names = name.value, ", ".join(keys)
        similar_host = _similar_host(group, self.layout.hosts)
        if _is_host(node) or (similar_host and not self.layout.groups.get(group)):
            hint = f", like {similar_host}" if similar_host else ""
            return self._finding(
                name,
                f"Ansible reads {group} as a group and ignores the variables directly below it: {variable_names}",
                f"if {group} is a host{hint}, move it below `hosts:` of its group. Otherwise move the variables below "
                f"`vars:` of {group}",
            )
        key = next(key for key, _ in _scalar_key_items(node) if key.value == keys[0])
        text = f"Ansible ignores variables of group {group} that are not below `vars:`: {variable_names}"
        return self._finding(key, text, f"move {variable_names} below `vars:` of group {group}")

    def _unexpected_key_finding(self, group: str, key: yaml.ScalarNode, value: yaml.Node) -> Finding:
        text = f"Ansible ignores the key {key.value} of group {group}, because it is not hosts, children or vars"
        if similar := most_similar_name(key.value, SECTIONS):
            return self._finding(key, text, f"rename the key {key.value} to {similar}")
        if (
            _fleet_variable_names(value)
            or key.value in self.layout.hosts
            or _similar_host(key.value, self.layout.hosts)
        ):
            return self._finding(key, text, f"if {key.value} is a host, move it below `hosts:` of group {group}")
        if any(inner.value in SECTIONS for inner, _ in _scalar_key_items(value)):
            return self._finding(key, text, f"move the group {key.value} below `children:` of group {group}")
        return self._finding(
            key, text, f"move {key.value} below `hosts:`, `children:` or `vars:` of group {group}", "warning"
        )

    def _host_findings(self, group: str, host: yaml.ScalarNode, value: yaml.Node) -> Iterator[Finding]:
        if host.value.startswith(PREFIX):
            yield self._finding(
                host,
                f"the variable {host.value} is listed as a host of group {group}",
                f"indent {host.value} below its host, or move it below `vars:` of group {group}",
            )
        elif host.value in SECTIONS:
            yield self._finding(
                host,
                f"Ansible reads the section `{host.value}:` of group {group} as a host: it is indented too far",
                f"indent `{host.value}:` as far as `hosts:` of group {group}",
            )
        elif not isinstance(value, yaml.MappingNode) and not _is_empty(value):
            yield self._finding(
                host,
                f"the host {host.value} has a plain value, but Ansible expects the variables of the host there",
                f"write each variable of {host.value} as NAME: VALUE on an indented line below the host",
            )
        for variable, content in _scalar_key_items(value):
            if variable.value.startswith(PREFIX) and isinstance(content, yaml.ScalarNode):
                self.definitions[host.value, variable.value].append(content)
            yield from self._nested_variable_findings(
                f"host {host.value}", variable, content, self.layout.hosts, is_host=True
            )

    def _nested_variable_findings(
        self, owner: str, variable: yaml.ScalarNode, value: yaml.Node, hosts: frozenset[str], *, is_host: bool
    ) -> Iterator[Finding]:
        """Yield the finding about a host or a section that is indented so that it is a variable of ``owner``.

        ``owner`` is the kind and name of a host or group, and ``is_host`` its kind.
        """
        name = variable.value
        if name.startswith(PREFIX):
            return
        text = f"{name} is indented as a variable of {owner}"
        if name in SECTIONS and (isinstance(value, yaml.MappingNode) or _is_empty(value)):
            fix = (
                f"remove `{name}:`, and write the variables directly below {owner}"
                if is_host
                else f"indent `{name}:` as far as the other sections of its group"
            )
            yield self._finding(variable, text, fix)
        elif not _IDENTIFIER.fullmatch(name):
            yield self._finding(
                variable,
                f"the variable {name} of {owner} has an invalid name",
                f"if {name} is a host, indent it like the other hosts. Otherwise rename the variable: use only "
                "letters, digits and underscores",
            )
        elif keys := _fleet_variable_names(value):
            fix = f"if {name} is a host, indent it like the other hosts"
            severity: Severity = "error" if _is_host(value) or _similar_host(name, hosts) else "warning"
            message = f"{keys[0]} below {name} has no effect: {name} is indented as a variable of {owner}"
            yield self._finding(variable, message, fix, severity)
        elif _is_empty(value) and (similar_host := _similar_host(name, hosts)):
            fix = f"if {name} is a host, like {similar_host}, indent it like {similar_host}"
            yield self._finding(
                variable, f"{name} has no value, and is indented as a variable of {owner}", fix, "warning"
            )

    def _empty_group_findings(self, group: yaml.ScalarNode) -> Iterator[Finding]:
        if group.value in self.layout.hosts:
            fix = f"if the host is meant, remove {group.value} below `children:`. Otherwise rename the group"
            yield self._finding(
                group, f"{group.value} is listed as a group below `children:`, but is the name of a host", fix
            )
        elif similar_host := _similar_host(group.value, self.layout.hosts):
            yield self._finding(
                group,
                f"{group.value} is listed as a group below `children:`, but the group has no hosts",
                f"if {group.value} is a host, like {similar_host}, move it below `hosts:`. Otherwise give the group "
                "hosts, or remove it",
                "warning",
            )


def _findings_about_groups_named_as_hosts(layout: InventoryLayout) -> Iterator[Finding]:
    """Yield the warning T038 for groups with hosts that have the name of a host."""
    for group in sorted(layout.hosts & layout.groups.keys()):
        if layout.groups[group]:
            yield _file_finding(
                "T038",
                "warning",
                f"a group and a host have the same name {group}",
                f"rename the group {group}, or remove it if only the host is meant",
                f"`--limit {group}` selects the host {group} instead of the hosts of the group",
                _first_occurrence(group, layout.files),
            )


def _findings_about_variables_listed_as_hosts(
    layout: InventoryLayout, reported: Container[int | None]
) -> Iterator[Finding]:
    """Yield the error T038 for variables in a section of hosts of an INI file, and not in ``[GROUP:vars]``."""
    for host in sorted(name for name in layout.hosts if name.startswith(PREFIX)):
        variable = host.partition("=")[0]
        place = _first_occurrence(variable, layout.files)
        if place[1] not in reported:
            yield _file_finding(
                "T038",
                "error",
                f"the variable {variable} is listed as a host",
                f"write {variable} on the line of its host, or in the section [GROUP:vars] of its group",
                _STRUCTURE_REASON,
                place,
            )


def _variables_file_findings(layout: InventoryLayout) -> Iterator[Finding]:
    """Yield the warning T039 for files of variables that no group or host has, so that Ansible ignores them."""
    for directory in dict.fromkeys(os.path.dirname(file) for file in layout.files):
        for entry in sorted(os.listdir(directory)):
            path = os.path.join(directory, entry)
            if not os.path.isdir(path) or entry.startswith("."):
                continue
            if entry in _DIRECTORIES:
                yield from _ignored_entry_findings(path, entry, layout)
            elif (intended := _intended_directory(entry)) and _first_file_with_variables(path):
                yield _variables_file_finding(
                    path,
                    f"Ansible does not read variables from the directory {entry}",
                    f"rename the directory {entry} to {intended}",
                )


def _ignored_entry_findings(directory: str, kind: str, layout: InventoryLayout) -> Iterator[Finding]:
    names_by_directory = {"group_vars": {"all", "ungrouped", *layout.groups}, "host_vars": set(layout.hosts)}
    entity, other_directory = ("group", "host_vars") if kind == "group_vars" else ("host", "group_vars")
    for entry in sorted(os.listdir(directory)):
        stem, extension = os.path.splitext(entry)
        name = stem if extension in _EXTENSIONS else entry
        path = os.path.join(directory, entry)
        if _OTHER_FILES.search(entry):
            continue
        if {name, entry} & names_by_directory[kind]:
            yield from _repeated_variable_findings(path, layout)
            continue
        similar = _similar_entry(name, names_by_directory[kind])
        has_variables = _first_file_with_variables(path) is not None
        text = f"the inventory has no {entity} {name}, so Ansible ignores the variables in this file"
        if stem in names_by_directory[kind] and has_variables:
            fix = f"rename the file to {stem}.yml"
            text = f"Ansible ignores these variables of {stem}, because it reads no file with the extension {extension}"
            yield _variables_file_finding(path, text, fix)
        elif name in names_by_directory[other_directory]:
            fix = f"move the file to {other_directory}, because {name} is a {'host' if entity == 'group' else 'group'}"
            yield _variables_file_finding(path, text, fix)
        elif similar:
            yield _variables_file_finding(path, text, f"rename {name}{extension} to {similar}{extension}")
        elif has_variables:
            yield _variables_file_finding(
                path, text, f"give the file the name of an existing {entity}, or remove the file"
            )


def _similar_entry(name: str, known: Iterable[str]) -> str | None:
    """Return the group or host that a misspelled file name means, with or without a domain; None without one."""
    label = name.partition(".")[0]
    same_label = [candidate for candidate in sorted(known) if candidate.partition(".")[0] == label]
    return same_label[0] if len(same_label) == 1 else most_similar_name(name, known, certain=True)


def _repeated_variable_findings(path: str, layout: InventoryLayout) -> Iterator[Finding]:
    """Yield the error T038 for keys that a file of variables, or a file below a directory of them, has twice."""
    for file in sorted(Path(path).rglob("*")) if os.path.isdir(path) else [Path(path)]:
        root = _read_yaml_mapping(str(file)) if file.is_file() and file.suffix in _EXTENSIONS else None
        if root is not None:
            yield from _FileScan(_displayed_path(str(file)), layout).repeated_key_findings(root, ())


def _variables_file_finding(path: str, message: str, fix: str) -> Finding:
    place = (_displayed_path(_first_file_with_variables(path) or path), 1)
    return _file_finding(
        "T039", "warning", message, fix, "no host gets the values of the variables in this file", place
    )


def _first_file_with_variables(path: str) -> str | None:
    """Return the first file at or below a path that has variables of the fleet, or is encrypted; None without one."""
    files = sorted(str(file) for file in Path(path).rglob("*")) if os.path.isdir(path) else [path]
    for file in files:
        with suppress(OSError):
            content = Path(file).read_bytes() if os.path.isfile(file) else b""
            if PREFIX.encode() in content or content.startswith(_VAULT_HEADER):
                return file
    return None


def _role_group_findings(layout: InventoryLayout) -> Iterator[Finding]:
    """Yield the warning T041 for groups whose names resemble that of the group of agents, balancers or brokers."""
    for group, hosts in layout.groups.items():
        if group in _ROLE_GROUPS or _GENERATED_GROUP.fullmatch(group) or not hosts:
            continue
        intended = most_similar_name(group, _ROLE_GROUPS, certain=True)
        if intended:
            yield _file_finding(
                "T041",
                "warning",
                f"activemq.fleet ignores the group {group}, although its name resembles {intended}",
                f"rename the group {group} to {intended}, or choose a name that is less similar",
                f"hosts of the group, such as {hosts[0]}, are not members of {intended}",
                _first_occurrence(group, layout.files),
            )


def _file_finding(rule: str, severity: Severity, message: str, fix: str, why: str, place: _Place) -> Finding:
    """Return a finding about a place in a file, which concerns no single host."""
    file, line = place
    return Finding(rule=rule, severity=severity, host="", message=message, fix=fix, why=why, file=file, line=line)


def _first_occurrence(name: str, files: Iterable[str]) -> _Place:
    """Return the first file and line that contain a name as a word."""
    word = re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])")
    for file in files:
        with suppress(OSError, UnicodeDecodeError):
            for number, line in enumerate(Path(file).read_text(encoding="utf-8").split("\n"), 1):
                if word.search(line):
                    return _displayed_path(file), number
    return None, None
