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
# Ansible evaluates a string with Jinja's delimiters, or with the header that can set other delimiters.
_POSSIBLE_TEMPLATE = re.compile(r"\{[{%#]|\A#jinja2:")
# A brace that opens a delimiter together with what follows it, and the first character of the header.
_OPENING_DELIMITER = re.compile(r"\{(?=[{%#]|\Z)|\A#(?=jinja2:)")


@dataclass(frozen=True, slots=True)
class TextWithNameReplacedByExpression:
    """A text with a Jinja expression in place of each occurrence of a name, such as a host name.

    ``parts`` is the text around the occurrences of the name.
    """

    parts: tuple[str, ...]
    expression: str

    @property
    def text_as_jinja_template(self) -> str:
        """The text as a Jinja template, in which everything outside the expression is escaped.

        Ansible thus evaluates only the expression.
        """
        return self.expression.join(map(escape_jinja_delimiters, self.parts))


def escape_jinja_delimiters(text: str) -> str:
    """Return a Jinja template that evaluates to a text: the text with its Jinja delimiters escaped.

    An expression may directly follow.
    """
    return _OPENING_DELIMITER.sub(lambda mark: f"{{{{ '{mark[0]}' }}}}", text)


def scalar_to_yaml_node(value: Any) -> yaml.Node:
    """Return the YAML node of a scalar: a string, a number, a boolean or None.

    A TextWithNameReplacedByExpression, a text with a Jinja expression in place of a name, becomes a string. A string
    that Ansible could evaluate as a template gets the tag ``!unsafe``.
    """
    if isinstance(value, TextWithNameReplacedByExpression):
        return yaml.ScalarNode(STRING, value.text_as_jinja_template)
    node = SafeRepresenter().represent_data(value)
    if isinstance(value, str):
        tag = UNSAFE if _POSSIBLE_TEMPLATE.search(value) else node.tag
        return yaml.ScalarNode(tag, node.value, style="|" if "\n" in value else None)
    return node


def plain_variables_to_yaml(variables: Mapping[str, object]) -> str:
    """Return variables with plain values (strings, numbers, booleans) as YAML text.

    The text has one line for each.
    """
    items = [(scalar_to_yaml_node(name), scalar_to_yaml_node(value)) for name, value in variables.items()]
    node = yaml.MappingNode("tag:yaml.org,2002:map", items, flow_style=False)
    # The width keeps a pattern on a single line.
    text: str = yaml.serialize(node, Dumper=yaml.SafeDumper, allow_unicode=True, width=10_000)
    return text if items else ""
