# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Finds secrets of configuration files by the syntax of the file: properties, accounts, lists of passwords."""

from __future__ import annotations

import os
import re

from .names import is_harmless_name, is_secret_name
from .spans import Spans, is_reference

_KINDS = tuple(
    (kind, re.compile(pattern, re.DOTALL))
    for kind, pattern in (
        ("realm", r".*realm.*\.properties"),
        ("users", r"(?:.*[-_.])?users?(?:[-_.].*)?\.properties"),
        ("credentials", r"credentials.*"),
        ("jmx", r".*jmx.*\.password|management\.password"),
        ("whole", r".*\.(?:password|passwd|secret|pwd|htpasswd|token)"),
        ("shiro", r"shiro\.ini"),
        ("xml", r".*\.(?:xml|xsd|xslt|html|xsl|xhtml)"),
        ("yaml", r".*\.ya?ml"),
        ("properties", r".*\.(?:properties|conf|cfg|ini|env|cnf|toml)"),
    )
)
"""The syntax of a configuration file, and the lower-case names of such files; the first that fits counts."""
_NAMES = re.compile(r"(?:user(?:name)?|name|realm|role|group)s?$", re.IGNORECASE)
_LOGICAL_LINE = re.compile(r"(?:[^\n\\]+|\\(?:\r?\n|.|\Z))+", re.DOTALL)
_LINE = re.compile(r"[^\n]+")
_PROPERTY = re.compile(
    r"(?P<comment>[#!; \t\f]*)(?:export[ \t]+|-[ \t]+)?"
    r"[\"']?(?P<name>(?:[^\s=:\\\"'{(<,]|\\.){1,400})[\"']?"
)
_SEPARATOR = re.compile(r"[ \t\f]*[=:][ \t\f]*|[ \t\f]+")
_ACCOUNT = re.compile(r"(?P<comment>[ \t#!]*)(?P<name>[^=:\s#!][^=:\n]{0,400})[=:][ \t]*")
_BLOCK = re.compile(r"[|>][+-]?\d?[+-]?")
_JMX = re.compile(r"[# \t]*(?P<name>[^\s#]+)[ \t]+(?=\S)")

LINES = ("properties", "credentials", "users", "realm", "jmx", "whole", "shiro", "yaml")


def kind_of(path: str) -> str:
    """Return the syntax of a configuration file by its name: properties, users, realm, xml, yaml … or ``file``."""
    name = os.path.basename(path).lower()
    return next((kind for kind, pattern in _KINDS if pattern.fullmatch(name)), "file")


def line_spans(kind: str, text: str) -> Spans:
    """Return the (start, end) positions of secret values in a file with a line syntax, such as properties or YAML."""
    if kind == "whole":
        return [span for line in _LINE.finditer(text) for span in _value(text, *line.span())]
    if kind == "jmx":
        return [span for line in _LINE.finditer(text) for span in _jmx(text, line)]
    if kind == "realm":
        return [span for line in _LINE.finditer(text) for span in _account(text, line, until_comma=True)]
    if kind == "shiro":
        return _shiro(text)
    if kind == "yaml":
        return _yaml(text)
    if kind == "properties":
        return [span for line in _LOGICAL_LINE.finditer(text) for span in _property(text, line)]
    only_secrets = kind == "credentials"
    return [span for line in _LOGICAL_LINE.finditer(text) for span in _account(text, line, only_secrets=only_secrets)]


def _value(text: str, start: int, end: int, *, may_be_reference: bool = False) -> Spans:
    while end > start and text[end - 1] in " \t\r":
        end -= 1
    if may_be_reference and is_reference(text[start:end]):
        return []
    return [(start, end)] if end > start else []


def _property(text: str, line: re.Match[str]) -> Spans:
    """Return the secret of ``name = value``, ``name: value`` or ``name value``, also continued or commented out."""
    match = _PROPERTY.match(text, line.start(), line.end())
    if match is None or not is_secret_name(match["name"].replace("\\", "")):
        return []
    separator = _SEPARATOR.match(text, match.end(), line.end())
    if separator is None or (match["comment"].strip() and not separator[0].strip()):
        return []
    value = text[separator.end() : line.end()].rstrip()
    if _BLOCK.fullmatch(value) or value[:1] in ("[", "{"):
        return []  # a block or list of YAML: its values are found one by one
    quoted = len(value) > 1 and value[0] in "\"'" and value[-1] == value[0]
    start = separator.end() + quoted
    return _value(text, start, separator.end() + len(value) - quoted, may_be_reference=True)


def _account(text: str, line: re.Match[str], *, until_comma: bool = False, only_secrets: bool = False) -> Spans:
    """Return the password of ``user = password``, also commented out; ``only_secrets``: not of ``x.username = …``."""
    match = _ACCOUNT.match(text, line.start(), line.end())
    if match is None:
        return []
    name, start, end = match["name"].strip(), match.end(), line.end()
    if match["comment"].strip() and (" " in name or " " in text[start:end].strip().partition(",")[0]):
        return []  # prose
    if only_secrets and (is_harmless_name(name) or _NAMES.search(name)):
        return []
    comma = text.find(",", start, end) if until_comma else -1
    return _value(text, start, comma if comma >= 0 else end, may_be_reference=only_secrets)


def _jmx(text: str, line: re.Match[str]) -> Spans:
    match = _JMX.match(text, line.start(), line.end())
    words = text[match.end() : line.end()].split() if match else []
    return _value(text, match.end(), line.end()) if match and len(words) == 1 else []


def _shiro(text: str) -> Spans:
    """Return the passwords in the section ``[users]``, and secrets of other sections, whose names show them."""
    found, is_users = [], False
    for line in _LINE.finditer(text):
        if line[0].lstrip().startswith("["):
            is_users = line[0].strip() == "[users]"
        elif is_users:
            found += _account(text, line, until_comma=True)
        else:
            found += _property(text, line)
    return found


_YAML_KEY = re.compile(r"(?P<indent>[ ]*(?:- +)*)[\"']?(?P<name>[\w.@$/-]{1,200})[\"']?[ \t]*:(?:[ \t]+|(?=[\r\n]|\Z))")
_YAML_LEAD = re.compile(r"[ \t]*(?:- +)*(?:[\"']?[\w.@$/-]{1,200}[\"']?[ \t]*:(?=\s|\Z)[ \t]*)?(?:-(?=\s|\Z))?")


def _yaml(text: str) -> Spans:
    """Return the values of YAML's secrets, which stand on the line, go on below it, or are lists and mappings."""
    found: Spans = []
    parent, is_whole = -1, False
    for line in _LINE.finditer(text):
        start, end = line.span()
        indent = len(line[0]) - len(line[0].lstrip(" "))
        is_item = line[0][indent : indent + 2] in ("- ", "-")
        if parent >= 0 and line[0].strip() and (indent > parent or (indent == parent and is_item and is_whole)):
            if not is_whole:  # the scalar of the line above goes on
                if found and found[-1][1] <= start:
                    first, last = _value(text, found[-1][0], end)[0]
                    last -= text[first - 1] in "\"'" and text[last - 1] == text[first - 1]
                    found[-1] = (first, last)
                continue
            lead = _YAML_LEAD.match(text, start, end)
            at = lead.end() if lead else start
            if text[at:end].strip() not in ("|", ">", "|-", ">-", ""):
                found += _scalar(text, at, end)
            continue
        if not line[0].strip():
            continue
        parent = -1
        key = _YAML_KEY.match(text, start, end)
        if key and is_secret_name(key["name"]):
            value = text[key.end() : end].strip()
            parent, is_whole = len(key["indent"]), not value or _BLOCK.fullmatch(value) is not None
            spans = [] if is_whole or value[0] in "[{" else _scalar(text, key.end(), end)
            found += spans
            is_whole = is_whole or not spans
    return found


def _scalar(text: str, start: int, end: int) -> Spans:
    """Return one scalar, without the quotes around; with an opening quote only, from the character after it."""
    spans = _value(text, start, end, may_be_reference=True)
    if not spans:
        return []
    start, end = spans[0]
    while start < end and text[start] in " \t":
        start += 1
    if text[start] in "\"'":
        start += 1
        end -= end > start and text[end - 1] == text[start - 1]
    return [(start, end)] if start < end and not is_reference(text[start:end]) else []
