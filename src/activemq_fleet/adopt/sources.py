"""Read the arguments of ``activemq-fleet adopt`` into documents, each with its file, host and release."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lxml import etree

from activemq_fleet.addresses import check_host
from activemq_fleet.adopt.equal_meaning import with_names
from activemq_fleet.adopt.properties import (
    credentials_beside,
    read_properties,
    resolve_placeholders,
    with_placeholder_defaults,
)
from activemq_fleet.adopt.xml_diff import XmlElement, xml_element_of
from activemq_fleet.errors import InputError, ReleaseError
from activemq_fleet.grouping import inventory_groups
from activemq_fleet.naming import Identity, Naming
from activemq_fleet.releases import Release
from activemq_fleet.schema._documents import BEANS, CORE, UnreadableError, parse

ACTIVEMQ_XML = "activemq.xml"
# What the first comment of a file says that we rendered.
_OURS = re.compile(rb"<!-- ([^\n]*), release ([0-9.]+)\s+Made by activemq\.fleet from the inventory")
_ROLE = re.compile(rb"\(preferred master\)")
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]*")
_LARGEST = 16 << 20  # bytes
_LARGEST_BESIDE = 1 << 20
_BESIDE_CONF = ("jetty-spring.properties", "jetty.xml")
_BESIDE = ("bin/env", "bin/setenv", "etc/default/*", "systemd/*.service")
_PRIVATE = re.compile("[\ue000\ue001]")


@dataclass(frozen=True)
class Document:
    """An existing activemq.xml and the host it belongs to; ``broker`` is the element ``<broker>`` in ``root``."""

    host: str
    identity: Identity
    release: Release
    file: str
    root: XmlElement
    broker: XmlElement
    original: XmlElement
    """The document as it is, where ``root`` has names for connectors that have none, and hosts for placeholders."""
    preferred: bool | None = None
    """True for the preferred master where the file says so; None where it says nothing."""
    other_files: Mapping[str, str] = field(default_factory=dict)
    """The host's other configuration files, content by path in its tree."""


def read_sources(
    arguments: Sequence[str], releases: Sequence[str], naming: Naming, properties: Sequence[str] = ()
) -> list[Document]:
    """Return the activemq.xml files that ``HOST=FILE``, file and directory arguments name, sorted by host.

    ``releases`` are ``X`` (for all hosts) or ``HOST=X``; a host without one has the release that the comment of a file
    rendered by activemq.fleet names. ``properties`` are ``FILE`` or ``HOST=FILE``, with what placeholders stand for.
    Raises InputError or ReleaseError, naming file or host.
    """
    found: dict[str, Path] = {}
    for host, path in _files(arguments, naming):
        if host in found and found[host].resolve() != path.resolve():
            raise InputError(f"{path}: is the second file for {host}, after {found[host]}: name one of them")
        found[host] = path
    chosen = _releases(releases, found)
    values = read_properties(properties, found)
    documents = [_document(host, path, chosen.get(host), naming, values[host]) for host, path in sorted(found.items())]
    _refuse_doubles(documents)
    inventory_groups(document.identity for document in documents)
    return documents


def _files(arguments: Iterable[str], naming: Naming) -> Iterator[tuple[str, Path]]:
    for argument in arguments:
        host, file = "", argument
        if "=" in argument and not Path(argument).exists():
            host, _, file = argument.partition("=")
            if not _HOST.fullmatch(host):
                raise InputError(f"{argument}: {host!r} is not a host name: write HOST=FILE")
        if not file:
            raise InputError(f"{argument!r} names no file: write HOST=FILE, a file or a directory")
        path = Path(file)
        if path.is_dir():
            inside = sorted(path.rglob(ACTIVEMQ_XML))
            if not inside:
                raise InputError(f"{path}: there is no {ACTIVEMQ_XML} in it: give files of other names as HOST=FILE")
            if host and len(inside) > 1:
                raise InputError(f"{path}: holds {len(inside)} files {ACTIVEMQ_XML}: name the one of {host}")
        elif path.is_file():
            inside = [path]
        else:
            wrong = "is neither a file nor a directory" if path.exists() else "there is no such file or directory"
            raise InputError(f"{path}: {wrong}")
        yield from ((host or _host_of(found, naming), found) for found in inside)


def _host_of(path: Path, naming: Naming) -> str:
    """Return the host a file belongs to.

    Taken from ``…/hosts/HOST/conf/activemq.xml``, else from the nearest directory with a broker's name, else from the
    file's own name. Raises InputError where none of them names a broker.
    """
    for parts in (path.parts, path.resolve().parts):
        if len(parts) > 3 and (parts[-4], parts[-2]) == ("hosts", "conf"):
            return parts[-3]
        for part in reversed(parts[:-1]):
            if naming.matches(part):
                return part
    stem = path.name.removesuffix(".xml").removesuffix(".activemq")
    if naming.matches(stem):
        return stem
    raise InputError(
        f"{path}: cannot tell which host this file belongs to, for nothing in its path matches {naming.pattern}: "
        f"say how your hosts are called with --naming-pattern, which activemq-fleet names HOST... proposes, "
        f"or write HOST={path}"
    )


def _releases(arguments: Sequence[str], hosts: Mapping[str, Path]) -> dict[str, str]:
    chosen: dict[str, str] = {}
    for text in arguments:
        name, separator, release = text.rpartition("=")
        if not separator:
            chosen = dict.fromkeys(hosts, release) | chosen
            continue
        named = [host for host in hosts if name in (host, host.partition(".")[0])]
        if not named:
            raise InputError(f"--release {text}: there is no file of {name}")
        chosen |= dict.fromkeys(named, release)
    return chosen


def read_addresses(arguments: Sequence[str], documents: Sequence[Document]) -> dict[str, str]:
    """Return the address of each host, by host, from ``HOST=ADDRESS`` arguments.

    Raises InputError for a host without a file and for an invalid address.
    """
    found = {}
    for text in arguments:
        name, separator, address = text.partition("=")
        named = [document.host for document in documents if name in (document.host, document.identity.host)]
        if not separator or len(named) != 1:
            raise InputError(f"--address {text}: say HOST=ADDRESS, of a host whose file is given")
        try:
            found[named[0]] = check_host(address)
        except ValueError as error:
            raise InputError(f"--address {text}: {error}") from None
    return found


def _document(host: str, path: Path, release: str | None, naming: Naming, properties: Mapping[str, str]) -> Document:
    identity = naming.identify(host) if naming.matches(host) else None
    if identity is None or not _HOST.fullmatch(host):
        raise InputError(
            f"{path}: its host {host} does not match {naming.pattern}: say how yours are called with --naming-pattern, "
            "which activemq-fleet names HOST... proposes"
        )
    content, original = _read(path, {**credentials_beside(path), **properties})
    tree = with_placeholder_defaults(with_names(original))
    ours = _OURS.search(content)
    if release is None and ours is None:
        raise InputError(f"{path}: does not say which release reads it: add --release {host}=5.18.3, or which it is")
    return Document(
        host=host,
        identity=identity,
        release=_release(release or (ours[2].decode() if ours else ""), path),
        file=path.name,
        root=tree,
        broker=next(child for child in tree.children if child.tag == f"{{{CORE}}}broker"),
        original=original,
        preferred=_ROLE.search(ours[1]) is not None if ours else None,
        other_files=_other_files(path, _imports(tree)),
    )


def _read(path: Path, properties: Mapping[str, str]) -> tuple[bytes, XmlElement]:
    if path.stat().st_size > _LARGEST:
        raise InputError(f"{path}: has more than {_LARGEST >> 20} MiB: no activemq.xml is so long")
    content = path.read_bytes()
    try:
        root = parse(content)
    except UnreadableError as error:
        raise InputError(f"{path}:{error.problem.line}:{error.problem.column}: {error.problem.message}") from None
    brokers = root.findall(f"{{{CORE}}}broker") if root.tag == f"{{{BEANS}}}beans" else []
    if len(brokers) != 1:
        raise InputError(f"{path}: {_no_broker(str(root.tag), len(brokers))}")
    resolve_placeholders(root, properties, str(path))
    if _PRIVATE.search(etree.tostring(root, encoding="unicode")):
        raise InputError(f"{path}: holds the character U+E000 or U+E001, which stands for nothing: remove it")
    return content, xml_element_of(root)


def _imports(root: XmlElement) -> Iterator[str]:
    """Yield the names of the files beside an activemq.xml that it imports."""
    for node in root.children:
        name = node.get("resource")
        if node.tag == f"{{{BEANS}}}import" and ".." not in name and not name.startswith("/") and ":" not in name:
            yield name


def _other_files(path: Path, imports: Iterable[str]) -> dict[str, str]:
    found = {name: path.parent / name for name in (*_BESIDE_CONF, *imports)}
    if path.parent.name == "conf":
        tree = path.parents[1]
        found |= {str(file.relative_to(tree)): file for pattern in _BESIDE for file in sorted(tree.glob(pattern))}
    return {
        name: file.read_text(errors="replace")
        for name, file in found.items()
        if file.is_file() and file.stat().st_size <= _LARGEST_BESIDE
    }


def _release(text: str, path: Path) -> Release:
    try:
        return Release.of(text)
    except ReleaseError as error:
        raise ReleaseError(f"{path}: {error}") from None


def _no_broker(root: str, number: int) -> str:
    if number:
        return f"holds {number} <broker>; make a file of each"
    if root != f"{{{BEANS}}}beans":
        name = root.rpartition("}")[2]
        return f"its root <{name}> is not <beans> of {BEANS}: it is of a release before 5.3, or no activemq.xml"
    return f"has no <broker> of {CORE}: it is of a release before 5.3, or no activemq.xml"


def _refuse_doubles(documents: Iterable[Document]) -> None:
    seen: dict[tuple[str, str], Document] = {}
    for document in documents:
        other = seen.setdefault((document.identity.pair, document.identity.node), document)
        if other is not document:
            raise InputError(
                f"{document.host} and {other.host} are both node {document.identity.node} of pair "
                f"{document.identity.pair}: --naming-pattern decides what a name says"
            )
