"""Write variables as YAML for an Ansible inventory, so that Ansible evaluates only the expressions made here.

Ansible treats every string of an inventory as a Jinja template. Strings that come from other sources are data: a string
that could be a template gets the tag ``!unsafe``, with which Ansible leaves it as it is. Strings without Jinja's marks
do not need the tag, and must not have it: Ansible reads ``!unsafe '5.10'`` as a number.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml
from yaml.representer import SafeRepresenter

STRING = "tag:yaml.org,2002:str"
UNSAFE = "!unsafe"
# What makes Ansible evaluate a string: Jinja's delimiters, and the header that can set others.
_PERHAPS_TEMPLATE = re.compile(r"\{[{%#]|\A#jinja2:")
# A brace that opens a delimiter together with what follows it, and the first character of the header.
_OPENS = re.compile(r"\{(?=[{%#]|\Z)|\A#(?=jinja2:)")


@dataclass(frozen=True, slots=True)
class TextWithJinjaExpression:
    """A text with a Jinja expression in place of each occurrence of a name, such as a host name.

    ``parts`` is the text around the occurrences of the name.
    """

    parts: tuple[str, ...]
    expression: str

    @property
    def jinja_template(self) -> str:
        """The text as a Jinja template: Ansible evaluates only its expression, and the rest is quoted."""
        return self.expression.join(map(quote_for_jinja, self.parts))


def quote_for_jinja(text: str) -> str:
    """Return a text quoted for Jinja: a template that evaluates to the text.

    An expression may directly follow.
    """
    return _OPENS.sub(lambda mark: f"{{{{ '{mark[0]}' }}}}", text)


def yaml_node_of(value: Any) -> yaml.Node:
    """Return the YAML node of a plain value: a string, number, boolean or None.

    A string that could be a template is ``!unsafe``.
    """
    if isinstance(value, TextWithJinjaExpression):
        return yaml.ScalarNode(STRING, value.jinja_template)
    node = SafeRepresenter().represent_data(value)
    if isinstance(value, str):
        tag = UNSAFE if _PERHAPS_TEMPLATE.search(value) else node.tag
        return yaml.ScalarNode(tag, node.value, style="|" if "\n" in value else None)
    return node


def plain_variables_to_yaml(variables: Mapping[str, object]) -> str:
    """Return variables with plain values (strings, numbers, booleans) as YAML text.

    The text has one line for each.
    """
    items = [(yaml_node_of(name), yaml_node_of(value)) for name, value in variables.items()]
    node = yaml.MappingNode("tag:yaml.org,2002:map", items, flow_style=False)
    # The width keeps a pattern on a single line.
    text: str = yaml.serialize(node, Dumper=yaml.SafeDumper, allow_unicode=True, width=10_000)
    return text if items else ""
