"""Determine the kind of a file that was passed as an activemq.xml and is not one."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from lxml import etree

from activemq_fleet.node.text_lines import split_lines
from activemq_fleet.releases import XBEAN
from activemq_fleet.schema import (
    BEANS,
    CORE,
    UnreadableXmlError,
    decode_xml_document,
    has_utf_32_byte_order_mark,
    local_name,
    namespace_of,
    parse_xml_root_element,
    utf_16_encoding,
)

KIND_RULE = "V040"
"""The rule about files that are not an activemq.xml."""
NO_BROKER_RULE = "V041"
_USE_ACTIVEMQ_XML = "run the command again with the path of the activemq.xml that the broker reads"
_CHECK_WITH_ACTIVEMQ_XML = (
    "run the command again with the activemq.xml in the same directory. `activemq-fleet check --file` of that "
    "activemq.xml also checks this file"
)
_USE_ARTEMIS_TOOLS = (
    "use the tools of Artemis: `artemis check node` checks a running broker. To check this file, validate it against "
    "artemis-configuration.xsd of the Artemis distribution"
)
_EXTRACT_ACTIVEMQ_XML = (
    "save the activemq.xml that this file contains as a separate file, and run the command again with that file"
)
_ARTEMIS_NAMESPACES = frozenset({
    "http://activemq.apache.org/schema",
    "http://activemq.org/schema",
    "urn:activemq",
    "urn:activemq:core",
    "urn:activemq:jms",
})  # fmt: skip
_ARTEMIS_FILES_BY_ROOT = {
    "broker": "bootstrap.xml",
    "configuration": "broker.xml",
    "management-context": "management.xml",
}
_BLUEPRINT_NAMESPACE_PREFIX = "http://www.osgi.org/xmlns/blueprint/"
_CAMEL_NAMESPACE_PREFIX = "http://camel.apache.org/schema/"
_BROKER_FILE_ROOTS = frozenset({"beans", "broker"})
# The name and the fix of each kind of file, by the name of its root element in any namespace.
_KINDS_BY_ROOT = {
    "Configure": ("a Jetty configuration file, such as jetty.xml", _USE_ACTIVEMQ_XML),
    "Configuration": ("a Log4j configuration file", _CHECK_WITH_ACTIVEMQ_XML),
    "html": ("an HTML page, such as a login or error page of a web server", "download the activemq.xml again"),
    "project": ("a pom.xml of Maven", _USE_ACTIVEMQ_XML),
    "restrict": ("a Jolokia policy, such as jolokia-access.xml", _CHECK_WITH_ACTIVEMQ_XML),
    "schema": ("an XML schema", _USE_ACTIVEMQ_XML),
    "web-app": ("a web.xml of a web application", _USE_ACTIVEMQ_XML),
}
_KINDS_BY_MAGIC_NUMBER = {
    b"\x1f\x8b": "a gzip-compressed file",
    b"PK\x03\x04": "a zip or jar archive",
    b"BZh": "a bzip2-compressed file",
    b"\xfd7zXZ\x00": "an xz-compressed file",
    b"\xfe\xed\xfe\xed": "a Java key store",
    b"\xca\xfe\xba\xbe": "a compiled Java class file",
    b"\x7fELF": "a compiled program",
}
# The repetitions are bounded, so that a search takes linear time in any text.
_JAAS_OPTION = re.compile(r"\b[\w.$]{1,200}\s{1,20}(?:required|requisite|sufficient|optional)\b", re.IGNORECASE)
_JAAS_ENTRY = re.compile(r"^[ \t]{0,20}[\w.-]{1,200}\s{0,20}\{", re.MULTILINE)
_MANIFEST_KIND = re.compile(r"^[ \t]*kind:[ \t]*[\"']?(\w+)", re.MULTILINE)
_YAML_KEY = re.compile(r"[ \t]*(?:- +)?[\w./\"'-]+:(?:[ \t].*|$)|[ \t]*- .*|---.*")
_ENVIRONMENT_LINE = re.compile(r"[ \t]*(?:export[ \t]+)?[A-Z_][A-Z0-9_]*=.*")
_PROPERTY_LINE = re.compile(r"[ \t]*[\w.$/*>#-]+[ \t]*[=:].*")
_SECTION_HEADER = re.compile(r"[ \t]*\[[\w. -]+\][ \t]*")
_INSPECTED_BYTES = 1 << 16  # bytes of a file that are inspected


@dataclass(frozen=True, slots=True)
class ForeignFileKind:
    """The kind of a file that was passed as an activemq.xml and is not one, such as a log.

    ``name`` is a noun phrase for messages, and ``fix`` an instruction for the user.
    """

    name: str
    fix: str


def foreign_file_kind(data: bytes, file: str = "") -> ForeignFileKind | None:
    """Return the kind of a file that was passed as an activemq.xml and is not one, such as a log; otherwise None.

    The result is None for a file that is meant to be an activemq.xml. ``file`` is its path, which decides where content
    alone does not. A file is meant to be one if it is XML and its root is that of Spring or of a broker, or if it is
    not XML and has such an element anywhere.
    """
    if has_utf_32_byte_order_mark(data):
        return None  # The XML parser reports that Java does not read this encoding.
    head = data[:_INSPECTED_BYTES]
    if not data.strip(b" \t\r\n\xef\xbb\xbf\0"):
        name = "an empty file" if not data else "empty except for white space"
        return ForeignFileKind(name, "restore the file from a backup: no broker starts with an empty file")
    if kind := _binary_kind(head):
        return ForeignFileKind(kind, _USE_ACTIVEMQ_XML)
    text = decode_xml_document(head, None)
    if text.lstrip().startswith("<"):
        return _xml_kind(data, text)
    return _text_kind(text, file)


def _binary_kind(head: bytes) -> str:
    """Return the kind of a binary file from its first bytes; "" for text."""
    kind = next((name for magic, name in _KINDS_BY_MAGIC_NUMBER.items() if head.startswith(magic)), "")
    if kind or utf_16_encoding(head):
        return kind
    return "a binary file" if b"\0" in head else ""


def _xml_kind(data: bytes, text: str) -> ForeignFileKind | None:
    if re.match(r"\s*<!DOCTYPE\s+html|\s*<html", text, re.IGNORECASE):
        return ForeignFileKind(*_KINDS_BY_ROOT["html"])
    try:
        root = parse_xml_root_element(data)
    except UnreadableXmlError:
        text_without_comments = re.sub(r"<\?.*?(?:\?>|\Z)|<!--.*?(?:-->|\Z)", "", text, flags=re.DOTALL)
        if text_without_comments.strip() or len(data) > _INSPECTED_BYTES:
            return None
        return ForeignFileKind(
            "an XML file without any element, such as a truncated copy",
            "copy the file again: no broker starts with a file without elements",
        )
    return _kind_by_root(root)


def _kind_by_root(root: etree._Element) -> ForeignFileKind | None:
    namespace, name = namespace_of(str(root.tag)), local_name(str(root.tag))
    if namespace in _ARTEMIS_NAMESPACES:
        file = _ARTEMIS_FILES_BY_ROOT.get(name, "a configuration file")
        return ForeignFileKind(f"{file} of Apache Artemis, another broker than ActiveMQ Classic", _USE_ARTEMIS_TOOLS)
    if name in _BROKER_FILE_ROOTS or namespace in (BEANS, CORE, XBEAN):
        return None
    if namespace.startswith(_BLUEPRINT_NAMESPACE_PREFIX):
        fix = (
            "move its <broker> into a Spring XML file, and run the command again with that file: activemq-fleet does "
            "not read OSGi Blueprint files"
        )
        return ForeignFileKind("an OSGi Blueprint file for Apache Karaf", fix)
    if namespace.startswith(_CAMEL_NAMESPACE_PREFIX):
        return ForeignFileKind(f"an Apache Camel file with the root element <{name}>", _USE_ACTIVEMQ_XML)
    if name in _KINDS_BY_ROOT:
        return ForeignFileKind(*_KINDS_BY_ROOT[name])
    namespace_suffix = f" of {namespace}" if namespace else ""
    return ForeignFileKind(
        f"an XML file of another program, with the root element <{name}>{namespace_suffix}", _USE_ACTIVEMQ_XML
    )


def _text_kind(text: str, file: str) -> ForeignFileKind | None:
    lines = [line for line in split_lines(text) if line.strip() and not line.lstrip().startswith(("#", "!", "//"))]
    manifest = _MANIFEST_KIND.search(text)
    if re.search(r"<(?:\w+:)?(?:broker|beans)[\s>]", text):
        line_before_element = text.partition("<")[0].rstrip().rpartition("\n")[2]
        if manifest and re.search(r"^[ \t]*apiVersion:", text, re.MULTILINE):
            return ForeignFileKind(f"a Kubernetes manifest of the kind {manifest[1]}", _EXTRACT_ACTIVEMQ_XML)
        if re.fullmatch(r"[ \t]*(?:- +)?[\w.\"'/-]+:[ \t]*[|>][-+0-9]*", line_before_element):
            return ForeignFileKind("a YAML file", _EXTRACT_ACTIVEMQ_XML)
        return (
            ForeignFileKind("a script", f"run the script, or {_EXTRACT_ACTIVEMQ_XML}")
            if text.startswith("#!")
            else None
        )
    if text.startswith("#!") and not any(_ENVIRONMENT_LINE.fullmatch(line) for line in lines):
        return ForeignFileKind("a script", _USE_ACTIVEMQ_XML)
    if "-----BEGIN " in text:
        return ForeignFileKind("a certificate or a key", _USE_ACTIVEMQ_XML)
    if text.lstrip().startswith(("{", "[")) and _is_json(text):
        return ForeignFileKind("a JSON file", _USE_ACTIVEMQ_XML)
    if _JAAS_ENTRY.search(text) and _JAAS_OPTION.search(text):
        return ForeignFileKind("a JAAS configuration file, such as login.config", _CHECK_WITH_ACTIVEMQ_XML)
    if manifest and re.search(r"^[ \t]*apiVersion:", text, re.MULTILINE):
        return ForeignFileKind(f"a Kubernetes manifest of the kind {manifest[1]}", _USE_ACTIVEMQ_XML)
    return _kind_by_lines(lines, file)


def _kind_by_lines(lines: list[str], file: str) -> ForeignFileKind:
    """Return the kind of a text by the form that most of its lines have."""
    if any(re.match(r"[ \t]*(?:wrapper|set\.default)\.\w", line) for line in lines):
        return ForeignFileKind("a wrapper.conf of the Java Service Wrapper", _USE_ACTIVEMQ_XML)
    if any(re.match(r"[ \t]*(?:log4j\.|appender\.|rootLogger\b|logger\.)", line) for line in lines):
        return ForeignFileKind("a Log4j configuration file", _CHECK_WITH_ACTIVEMQ_XML)
    if file.endswith(".properties"):
        return ForeignFileKind("a properties file", _CHECK_WITH_ACTIVEMQ_XML)
    if any(map(_SECTION_HEADER.fullmatch, lines[:1])):
        return ForeignFileKind("an INI file or a systemd unit", _USE_ACTIVEMQ_XML)
    forms = (
        (_ENVIRONMENT_LINE, "a file of environment variables, such as bin/env", _USE_ACTIVEMQ_XML),
        (_YAML_KEY, "a YAML file", _USE_ACTIVEMQ_XML),
        (_PROPERTY_LINE, "a properties file", _CHECK_WITH_ACTIVEMQ_XML),
    )
    for form, name, fix in forms:
        if 2 * sum(1 for line in lines if form.fullmatch(line)) >= len(lines):
            return ForeignFileKind(name, fix)
    return ForeignFileKind("a text file that is not XML", _USE_ACTIVEMQ_XML)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
