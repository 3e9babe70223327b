"""Read the values of ``${name}`` placeholders, and replace the placeholders in a document."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from lxml import etree

from activemq_fleet.adopt.compared_element import ComparedElement
from activemq_fleet.adopt.untrusted_companion_files import CompanionFiles
from activemq_fleet.errors import InputError
from activemq_fleet.given_files import read_beginning_of_file_or_pipe
from activemq_fleet.naming import hosts_with_full_or_short_name
from activemq_fleet.node.text_lines import split_lines
from activemq_fleet.schema import LONGEST_VALUE

PLACEHOLDER = re.compile(r"\$\{([A-Za-z0-9][A-Za-z0-9._-]*)\}")
"""A reference to a property, ``${name}``, but not one with a default, ``${name:default}``."""
UNKNOWN_HOST = ".invalid"
"""The domain of host names that represent unknown hosts; it never resolves (RFC 2606)."""
_PLACEHOLDER_WITH_DEFAULT = re.compile(r"\$\{[A-Za-z0-9][A-Za-z0-9._-]*:([^${}]*)\}")
_ANY_PLACEHOLDER = re.compile(r"\$\{([A-Za-z0-9][A-Za-z0-9._-]*)(?::[^${}]*)?\}")
_REFERENCE_FORMS = tuple(
    (re.compile(before + PLACEHOLDER.pattern + after), form)
    for before, after, form in (
        (r"^\s*", r"\s*$", f"static:(tcp://{{}}{UNKNOWN_HOST}:61616)"),
        (r"(?<=[(,])\s*", r"\s*(?=[,)])", f"tcp://{{}}{UNKNOWN_HOST}:61616"),
        ("(?<=://)", rf"(?::{PLACEHOLDER.pattern})?(?=[/?,)]|$)", f"{{}}{UNKNOWN_HOST}:61616"),
        ("(?<=://)", r"(?=:\d)", f"{{}}{UNKNOWN_HOST}"),
    )
)
"""A pattern for a placeholder at each position of a bridge's URI, with its replacement."""
_PROPERTY_LINE = re.compile(r"(?:export\s+)?([A-Za-z][A-Za-z0-9._-]*)\s*[=:]\s*(.*)")
_JAVA_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.))")
_JAVA_ESCAPES = MappingProxyType({"t": "\t", "n": "\n", "r": "\r", "f": "\f"})
_QUOTED_VALUE = re.compile(r"""(?:"((?:[^"\\]|\\.)*)"|'([^']*)')(?:\s*;.*|\s+#.*)?""")
"""A value in the quotes of a shell; a semicolon with another command, or a comment, may follow."""
_WINDOWS_DIRECTORY = re.compile(r'"([^"]*\\)"')
"""A value in quotes that ends with a backslash. A shell rejects it, but other programs read such a file, too."""
_EXPORT_COMMAND = re.compile(r";\s*(?:export\s.*)?$")
_SHELL_ESCAPE = re.compile(r'\\(["\\$`])')
"""An escape of a shell in double quotes. A backslash before another character is a part of the value."""
_NOT_IN_XML = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_MAXIMUM_FILE_BYTES = 1 << 20


@dataclass(frozen=True)
class HostProperties:
    """The properties of one host, which are the values of its ``${name}`` placeholders.

    The properties files that define them are included.
    """

    values: Mapping[str, str] = field(default_factory=dict)
    files: tuple[str, ...] = ()

    def __or__(self, other: HostProperties) -> HostProperties:
        """Return the properties of both, in which the values of ``other`` take precedence."""
        return HostProperties({**self.values, **other.values}, (*self.files, *other.files))


def read_properties_by_host(arguments: Sequence[str], hosts: Collection[str]) -> dict[str, HostProperties]:
    """Read the values of ``${name}`` placeholders from the files of ``--properties`` arguments, by host.

    Arguments are ``FILE`` (for all hosts) and ``HOST=FILE``. A file has a line ``NAME=VALUE`` for each, as Java's
    properties and environment files have. In a file whose name ends with ``.properties``, the escapes of Java are
    decoded; in another file, quotes around a value and a comment after them are removed. Properties of one host take
    precedence. Raises InputError that names the argument, or the file and its line.
    """
    common = HostProperties()
    properties_by_host = dict.fromkeys(hosts, HostProperties())
    for text in arguments:
        name, separator, file = text.partition("=")
        is_for_all_hosts = not separator or Path(text).is_file()
        if not (text if is_for_all_hosts else file):
            raise InputError(
                f"the value {text!r} of --properties contains no path: write FILE or HOST=FILE, or check the shell "
                "variable that contains the path"
            )
        if is_for_all_hosts:
            common |= HostProperties(_read_file(Path(text)), (text,))
            continue
        named_hosts = hosts_with_full_or_short_name(name, hosts)
        if not named_hosts:
            raise InputError(
                f"--properties {text}: no activemq.xml of the host {name} was given: write FILE for all hosts, or "
                "HOST=FILE with a host whose activemq.xml is given"
            )
        for host in named_hosts:
            properties_by_host[host] |= HostProperties(_read_file(Path(file)), (file,))
    return {host: common | properties for host, properties in properties_by_host.items()}


def read_adjacent_credentials_properties(document: Path, companions: CompanionFiles) -> dict[str, str]:
    """Read the credentials.properties next to an activemq.xml, and return its properties.

    There are none if this project rendered that file. Lines and values in forms that only a broker understands are left
    out, such as ``ENC(…)``, and so are values with a character that XML cannot hold.
    """
    content = companions.read_text(document.parent / "credentials.properties") or ""
    if "Made by activemq.fleet" in content:
        return {}
    matches = (_PROPERTY_LINE.fullmatch(line.strip()) for _, line in _joined_java_lines(split_lines(content)))
    values = {
        match[1]: _decode_java_escapes(match[2]) for match in matches if match and not match[2].startswith("ENC(")
    }
    return {name: value for name, value in values.items() if not _NOT_IN_XML.search(value)}


def replace_known_placeholders(root: etree._Element, properties: Mapping[str, str], file: str) -> None:
    """Replace placeholders ``${name}`` in an XML tree in place by their values in ``properties``; nothing is returned.

    The attributes and texts of ``root`` and of all elements below it are changed. Unknown placeholders stay. Raises
    InputError for a value that XML cannot hold or that is too long; the error names the document by ``file``.
    """

    def resolve(text: str, line: int) -> str:
        value = _ANY_PLACEHOLDER.sub(lambda match: properties.get(match[1], match[0]), text)
        if len(value) > LONGEST_VALUE and value != text:
            raise InputError(
                f"{file}:{line}: a value of this element has more than {LONGEST_VALUE} characters after its "
                "placeholders ${…} are replaced by the values of --properties. Shorten these values in the files of "
                "--properties"
            )
        return value

    for element in root.iter(etree.Element):
        line = int(str(element.sourceline))
        try:
            for name, value in element.attrib.items():
                element.set(name, resolve(str(value), line))
            element.text = element.text and resolve(element.text, line)
            element.tail = element.tail and resolve(element.tail, line)
        except ValueError:
            raise InputError(
                f"{file}:{line}: a placeholder ${{…}} of this element has a value with a character that XML does not "
                "permit. Remove this character, or the escape for it, from the file of --properties"
            ) from None


def placeholder_names(text: str) -> list[str]:
    """Return the names of the placeholders, such as ``${name}``, in a text.

    Each is listed once, whether it has a default or not.
    """
    return list(dict.fromkeys(_ANY_PLACEHOLDER.findall(text)))


def element_with_placeholder_defaults(element: ComparedElement) -> ComparedElement:
    """Return a copy of an XML element with placeholders replaced by their defaults.

    Each ``${NAME:DEFAULT}`` in its connectors' attributes becomes DEFAULT. The connectors are the networkConnectors and
    transportConnectors at any depth.

    A placeholder without a default in a networkConnector's URI becomes a host name below ``UNKNOWN_HOST``, which is
    derived from its name. The operator must replace it.
    """
    attributes = element.attributes
    if element.name in ("networkConnector", "transportConnector"):
        attributes = {name: _PLACEHOLDER_WITH_DEFAULT.sub(r"\1", value) for name, value in attributes.items()}
    if element.name == "networkConnector" and "${" in element.get("uri"):
        uri = attributes["uri"]
        for pattern, form in _REFERENCE_FORMS:
            uri = pattern.sub(lambda match, form=form: form.format(_placeholder_host(match[1])), uri)  # type: ignore[misc]
        attributes = {**attributes, "uri": uri}
    return replace(
        element, attributes=attributes, children=tuple(map(element_with_placeholder_defaults, element.children))
    )


def unknown_bridge_target_hint(target_host: str) -> str:
    """Return a hint for the operator about a bridge whose target address belongs to no known host.

    It is a part of a note.
    """
    if target_host.endswith(UNKNOWN_HOST):
        return (
            "no file defines the placeholder in this address. Adopt again with --properties FILE, or correct the "
            "address in activemq_links"
        )
    return "if the address belongs to one of the hosts, adopt again with --address HOST=ADDRESS"


def _placeholder_host(name: str) -> str:
    return re.sub("[^a-z0-9]+", "-", name.lower()).strip("-")


def _read_file(path: Path) -> dict[str, str]:
    try:
        content = read_beginning_of_file_or_pipe(path, _MAXIMUM_FILE_BYTES + 1)
    except OSError as error:
        raise InputError(
            f"--properties {path}: the file cannot be read ({error.strerror or error}): name a regular file "
            "that this account can read"
        ) from None
    if len(content) > _MAXIMUM_FILE_BYTES:
        raise InputError(
            f"{path}: the file has more than {_MAXIMUM_FILE_BYTES >> 20} MiB, which is too large for a properties "
            "file: correct the path after --properties"
        )
    lines = split_lines(content.decode(errors="replace"))
    properties = {}
    is_java_file = path.suffix == ".properties"
    for number, text in _joined_java_lines(lines) if is_java_file else enumerate(lines, start=1):
        line = text.strip()
        if not line or line[0] in "#!":
            continue
        match = _PROPERTY_LINE.fullmatch(line)
        if match is None:
            raise InputError(
                f"{path}:{number}: the line is not of the form NAME=VALUE: correct it, or begin it with # if it is a "
                "comment"
            )
        properties[match[1]] = _decode_java_escapes(match[2]) if is_java_file else _unquote_shell_value(match[2])
    return properties


def _joined_java_lines(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield the lines of a Java properties file, each with its number.

    A line that ends with an odd number of backslashes continues on the next one, unless it is a comment.
    """
    first, joined = 0, ""
    for number, line in enumerate(lines, start=1):
        first, joined = first or number, joined + line.removesuffix("\r").lstrip()
        if not joined.startswith(("#", "!")) and (len(joined) - len(joined.rstrip("\\"))) % 2:
            joined = joined[:-1]
            continue
        yield first, joined
        first, joined = 0, ""
    if joined:
        yield first, joined


def _unquote_shell_value(text: str) -> str:
    """Return a value of an environment file without its quotes, and without a command or comment after them."""
    match = _QUOTED_VALUE.fullmatch(text)
    if match is not None:
        return match[2] if match[1] is None else _SHELL_ESCAPE.sub(r"\1", match[1])
    match = _WINDOWS_DIRECTORY.fullmatch(text)
    if match is not None:
        return match[1]
    return text if text.startswith(('"', "'")) else _EXPORT_COMMAND.sub("", text).rstrip()


def _decode_java_escapes(text: str) -> str:
    """Return a value of a Java properties file without its escapes, such as ``\\:`` and ``\\u00e9``."""
    value = _JAVA_ESCAPE.sub(
        lambda match: chr(int(match[1], 16)) if match[1] else _JAVA_ESCAPES.get(match[2], match[2]), text
    )
    # Two escapes of UTF-16 may be one character.
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
