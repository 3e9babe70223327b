"""Set up the Jinja environment: templates are compiled once, undefined names are errors, each format has an escaper.

Templates contain loops but no logic; the callers decide everything else. Each value goes
through the escaper of its file's syntax, so that no value can end a line, an attribute or a
quoted string.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from jinja2.filters import FILTERS
from jinja2.tests import TESTS

# Nearly all values need no escaping, and the check is many times faster than escaping.
_XML_SPECIAL = re.compile('[&<>"\n\r\t]')
_XML_REFERENCES = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\n": "&#10;", "\r": "&#13;", "\t": "&#9;"}
)
_PLAIN_PROPERTY = re.compile(r"[A-Za-z0-9@][ -\[\]-~]*")
_PLAIN_KEY = re.compile(r"[A-Za-z0-9@][!-9;<>-\[\]-~]*")
_PLAIN_WORD = re.compile(r"[A-Za-z0-9@_.:/^()|\[\]-]+")
_PLAIN_ARGUMENT = re.compile(r"[A-Za-z0-9_./=:@+,-]+")
_QUOTED_SPECIAL = re.compile(r'[\\"$`]')
_HAPROXY_SPECIAL = re.compile(r"[\\ #\"'\t]")


def escape_xml(value: object) -> str:
    """Return a value escaped for XML.

    It is valid in text and double-quoted attributes; line ends become character references.
    """
    text = str(value)
    return text.translate(_XML_REFERENCES) if _XML_SPECIAL.search(text) else text


def escape_xml_attribute(value: object) -> str:
    """Return a value escaped for a double-quoted XML attribute.

    ``>`` needs no escape there.
    """
    return escape_xml(value).replace("&gt;", ">")


def escape_xml_comment(value: object) -> str:
    """Return a value escaped for an XML comment.

    Two hyphens in a row are separated by a space.
    """
    text = str(value)
    return re.sub("-(?=-)", "- ", text) if "--" in text else text


def escape_properties_value(value: object) -> str:
    """Return a value escaped for a Java properties file.

    The file is read as ISO-8859-1. Source: the class documentation of java.util.Properties.load.
    """
    text = str(value)
    return text if _PLAIN_PROPERTY.fullmatch(text) else _escape_properties_text(text, always="", first="#!=: ")


def escape_properties_key(value: object) -> str:
    """Return a key escaped for a Java properties file."""
    text = str(value)
    return text if _PLAIN_KEY.fullmatch(text) else _escape_properties_text(text, always="=: ", first="#!")


_PROPERTIES_CONTROL = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f", "\\": "\\\\"}


def _escape_properties_text(text: str, *, always: str, first: str) -> str:
    escaped: list[str] = []
    for position, char in enumerate(text):
        if char in _PROPERTIES_CONTROL:
            escaped.append(_PROPERTIES_CONTROL[char])
        elif char in always or (position == 0 and char in first):
            escaped.append("\\" + char)
        elif " " <= char <= "~":
            escaped.append(char)
        else:
            utf_16_bytes = char.encode("utf-16-be")
            escaped.extend(f"\\u{utf_16_bytes[i]:02x}{utf_16_bytes[i + 1]:02x}" for i in range(0, len(utf_16_bytes), 2))
    return "".join(escaped)


def _double_quoted(value: object) -> str:
    """Return a value as a double-quoted string.

    It is valid in YAML and in JSON.
    """
    return json.dumps(str(value), ensure_ascii=False)


def _quote_shell_word(value: object) -> str:
    """Return a value quoted as one word for a shell."""
    return shlex.quote(str(value))


def escape_systemd_value(value: object) -> str:
    """Return a value escaped for a systemd unit file.

    ``%`` starts a specifier, a backslash an escape.
    """
    return str(value).replace("\\", "\\\\").replace("%", "%%")


def escape_haproxy_word(value: object) -> str:
    """Return a value escaped as one word of haproxy.cfg.

    Spaces and special characters are escaped by backslashes.
    """
    text = str(value)
    return text if _PLAIN_WORD.fullmatch(text) else _HAPROXY_SPECIAL.sub(r"\\\g<0>", text)


def quote_environment_value(text: str) -> str:
    """Return a value in double quotes for a file of environment variables (``NAME="value"``).

    Sh and systemd's EnvironmentFile both read the double quotes.
    """
    return '"' + _QUOTED_SPECIAL.sub(r"\\\g<0>", text) + '"'


def escape_systemd_word(text: str) -> str:
    """Return a text escaped as one word of a systemd unit's command line.

    The word has no specifiers, variables or word breaks.
    """
    if _PLAIN_ARGUMENT.fullmatch(text):
        return text
    for char, escaped in (("\\", "\\\\"), ('"', '\\"'), ("%", "%%"), ("$", "$$"), ("\n", "\\n")):
        text = text.replace(char, escaped)
    # Characters that only a shell interprets are also escaped, because operators copy the line.
    return f'"{text}"' if not text or any(char in " \t;*?'\\\"" for char in text) else text


_ESCAPERS: dict[str, Callable[[object], str]] = {
    "attribute": escape_xml_attribute,
    "comment": escape_xml_comment,
    "haproxy": escape_haproxy_word,
    "properties": escape_properties_value,
    "properties_key": escape_properties_key,
    "quoted": _double_quoted,
    "shell": _quote_shell_word,
    "systemd": escape_systemd_value,
    "xml": escape_xml,
}


def _template_directory() -> Path:
    """Return the directory with the templates of this package."""
    return Path(str(files("activemq_fleet") / "templates"))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_template_directory()),
        undefined=StrictUndefined,
        autoescape=False,  # noqa: S701 -- each file names the escaper of its syntax
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        auto_reload=False,
    )
    # Templates make no decisions, so they get no other functions.
    environment.filters = _ESCAPERS | {name: FILTERS[name] for name in ("join", "length")}
    environment.tests = {"none": TESTS["none"]}
    environment.globals.clear()
    return environment


@cache
def _template(name: str) -> Template:
    return _environment().get_template(name)


def render_template(name: str, **context: Any) -> bytes:
    """Render a Jinja template of activemq-fleet with variables, and return the result as bytes.

    The output is UTF-8 bytes; an undefined name raises.
    """
    return _template(name).render(context).encode()
