"""The reference pages for Ansible: variables of roles, modules, filters, tests and other plugins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

import yaml
from antsibull_docs_parser import md, parser

from scripts.generated_page import simplify_markdown

COLLECTION = "activemq.fleet"
_ROLE_TITLES = {
    "broker": "Variables of brokers",
    "agent": "Variables of agents",
    "loadbalancer": "Variables of load balancers",
}
_KINDS = {
    "module": "Modules",
    "filter": "Filters",
    "test": "Tests",
    "inventory": "Inventory plugin",
    "callback": "Callback plugin",
}


def variable_pages(documented: Mapping[str, Any]) -> dict[PurePosixPath, str]:
    """Return one page per role, from the JSON that ``ansible-doc --metadata-dump`` prints below ``all``."""
    pages = {}
    for name, role in documented["role"].items():
        short_name = name.removeprefix(f"{COLLECTION}.")
        title = _ROLE_TITLES.get(short_name, f"Variables of {short_name}")
        pages[PurePosixPath(f"variables-{short_name}.md")] = "".join(
            _role_page(title, name, role["entry_points"]["main"])
        )
    return pages


def plugin_pages(documented: Mapping[str, Any]) -> dict[PurePosixPath, str]:
    """Return one page per kind of plugin, from the same JSON."""
    return {
        PurePosixPath(f"plugins-{kind}.md"): "".join(_plugins_page(title, documented[kind]))
        for kind, title in _KINDS.items()
        if documented.get(kind)
    }


def _role_page(title: str, name: str, role: Mapping[str, Any]) -> Iterator[str]:
    yield f"# {title}\n\nThe role `{name}` and the library read these variables from the inventory.\n\n"
    yield "| variable | type | default |\n|---|---|---|\n"
    for variable, option in sorted(role["options"].items()):
        yield f"| [`{variable}`](#{variable}) | {_type(option)} | {_default(option)} |\n"
    for variable, option in sorted(role["options"].items()):
        yield f"\n## {variable}\n\n{_facts(option)}\n\n{markdown(option['description'])}\n"
        yield from _suboptions(option)


def _plugins_page(title: str, plugins: Mapping[str, Any]) -> Iterator[str]:
    yield f"# {title}\n"
    for name, plugin in sorted(plugins.items()):
        document = plugin["doc"]
        yield f"\n## {name.removeprefix(f'{COLLECTION}.')}\n\n{markdown(document['short_description'])}.\n\n"
        yield f"{markdown(document.get('description', ''))}\n"
        if version := document.get("version_added"):
            yield f"\nAdded in version {version}.\n"
        if options := document.get("options"):
            yield "\n| option | type | default | description |\n|---|---|---|---|\n"
            for option, entry in sorted(options.items()):
                description = markdown(entry["description"], separator=" ").replace("|", "\\|").replace("\n", " ")
                yield f"| `{option}` | {_type(entry)} | {_default(entry)} | {description} |\n"
        if plugin.get("examples"):
            yield f"\n```yaml\n{plugin['examples'].strip()}\n```\n"
        if returned := plugin.get("return"):
            values = yaml.safe_dump(returned, sort_keys=False, allow_unicode=True, width=100)
            yield f"\nReturns:\n\n```yaml\n{values.strip()}\n```\n"


def _suboptions(option: Mapping[str, Any]) -> Iterator[str]:
    keys = option.get("options")
    if not keys:
        return
    yield "\n| key | type | default | description |\n|---|---|---|---|\n"
    for key, entry in sorted(keys.items()):
        description = markdown(entry.get("description", ""), separator=" ").replace("|", "\\|").replace("\n", " ")
        yield f"| `{key}` | {_type(entry)} | {_default(entry)} | {description} |\n"


def _facts(option: Mapping[str, Any]) -> str:
    facts = [f"Type: {_type(option)}."]
    facts.append("Required." if option.get("required") else f"Default: {_default(option)}.")
    if choices := option.get("choices"):
        facts.append(f"One of {', '.join(f'`{choice}`' for choice in choices)}.")
    if version := option.get("version_added"):
        facts.append(f"Added in version {version}.")
    return " ".join(facts)


def _type(option: Mapping[str, Any]) -> str:
    kind = option.get("type", "str")
    return f"list of {option['elements']}" if kind == "list" and option.get("elements") else str(kind)


def _default(option: Mapping[str, Any]) -> str:
    if option.get("required"):
        return "required"
    default = option.get("default")
    return "see below" if default is None else f"`{yaml.safe_dump(default, default_flow_style=True).split(chr(10))[0]}`"


def markdown(text: str | Sequence[str], separator: str = "\n\n") -> str:
    """Return text with Ansible's markup as Markdown, its paragraphs joined by ``separator``."""
    paragraphs = parser.parse(text, parser.Context(), errors="exception")
    return simplify_markdown(md.to_md(paragraphs, par_sep=separator))
