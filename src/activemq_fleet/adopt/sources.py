"""Convert the arguments of ``activemq-fleet adopt`` to documents, each with its file, host and release."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lxml import etree

from activemq_fleet.addresses import validated_host_name
from activemq_fleet.adopt.compared_element import ComparedElement, compared_element_from_lxml
from activemq_fleet.adopt.equal_meaning import with_default_connector_names
from activemq_fleet.adopt.placeholders import (
    HostProperties,
    element_with_placeholder_defaults,
    read_adjacent_credentials_properties,
    read_properties_by_host,
    replace_known_placeholders,
)
from activemq_fleet.adopt.untrusted_companion_files import (
    CompanionFiles,
    find_files_by_name,
    read_bytes_within_size_limit,
)
from activemq_fleet.errors import InputError, ReleaseError
from activemq_fleet.findings import join_problem_and_remedy
from activemq_fleet.group_names import inventory_groups_of_brokers
from activemq_fleet.lint.file_kinds import foreign_file_kind
from activemq_fleet.lint.versions_placeholders import first_template_mark_with_position
from activemq_fleet.naming import Identity, Naming, hosts_with_full_or_short_name
from activemq_fleet.naming_proposal import adopt_command_line, propose_naming, propose_single_broker_naming
from activemq_fleet.releases import Release
from activemq_fleet.render.rendered_header import read_activemq_xml_header
from activemq_fleet.schema import (
    BEANS,
    CORE,
    UnreadableXmlError,
    decode_xml_document,
    local_name,
    namespace_of,
    parse_xml_root_element,
)

ACTIVEMQ_XML = "activemq.xml"
_HOST_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]*")
_MAXIMUM_FILE_BYTES = 16 << 20
_SIBLING_FILES = ("jetty-spring.properties", "jetty.xml")
_INSTALLATION_FILES = ("bin/env", "bin/setenv")
_INSTALLATION_DIRECTORIES = (("etc/default", ""), ("systemd", ".service"))
# Names of files and directories that are not host names.
_USUAL_FILE_NAME = re.compile(
    r"(?i)(apache-)?activemq([-.\d]*)|broker|conf|config|etc|hosts?|opt|home|srv|tmp|data|xml|.*config"
)
_CONF_REFERENCE = re.compile(r"\./|file:\$\{activemq\.(?:conf|base\}/conf)\}?/")
_PATH_HINT = "name the activemq.xml that the broker reads"
_SECRET_LABEL_MARKS = re.compile("[\ue000\ue001]")


@dataclass(frozen=True)
class AdoptedDocument:
    """An existing activemq.xml to adopt.

    It has the host that it belongs to. ``broker`` is the element ``<broker>`` in ``root``.
    """

    host: str
    identity: Identity
    release: Release
    file: str
    root: ComparedElement
    broker: ComparedElement
    content: bytes
    """The document with the values of known placeholders, as XML."""
    original: ComparedElement
    """The unchanged document; ``root`` has added names of connectors, and hosts in place of placeholders."""
    preferred: bool | None = None
    """True for the preferred master, False for the preferred slave; None if the file does not show the role."""
    other_files: Mapping[str, str] = field(default_factory=dict)
    """The host's other configuration files, content by path in its tree."""
    files_read: tuple[str, ...] = ()
    """The paths of all files that were read, the document first."""
    files_refused: tuple[str, ...] = ()
    """The reason, in one sentence, for each file next to the document that was not read."""
    remarks: tuple[str, ...] = ()
    """Notes for the operator about the form of the file, each a sentence."""


def read_adopted_documents(
    arguments: Sequence[str], releases: Sequence[str], naming: Naming, properties: Sequence[str] = ()
) -> list[AdoptedDocument]:
    """Return a list of the existing activemq.xml files that arguments name, read and parsed, one per host.

    The list is sorted by host. An argument is ``HOST=FILE``, a file or a directory. ``releases`` are ``X`` (for
    all hosts) or ``HOST=X``; a host without one has the release that the comment of a file rendered by activemq.fleet
    names. ``properties`` are ``FILE`` or ``HOST=FILE``, with the values of placeholders. Raises InputError or
    ReleaseError, naming file or host.
    """
    files = list(_source_files(arguments, naming))
    paths: dict[str, Path] = {}
    roots: dict[str, Path | None] = {}
    for host, path, root in files:
        if host and host in paths and paths[host].resolve() != path.resolve():
            raise InputError(
                f"{path}: the file {paths[host]} was also given for host {host}. Name only one of the two files"
            )
        paths[host], roots[host] = path, root
    _check_host_names(files, naming)
    release_by_host = _release_by_host(releases, paths)
    values = read_properties_by_host(properties, paths)
    documents = [
        _adopted_document(host, path, roots[host], release_by_host.get(host), naming, values[host])
        for host, path in sorted(paths.items())
    ]
    _check_nodes_unique(documents)
    inventory_groups_of_brokers(document.identity for document in documents)
    return documents


def _source_files(arguments: Iterable[str], naming: Naming) -> Iterator[tuple[str, Path, Path | None]]:
    """Yield the host and path of each file, and the directory below which it was found; None for a named file.

    The host is "" if neither the argument nor the path shows it.
    """
    for argument in arguments:
        host, file = "", argument
        if "=" in argument and not Path(argument).exists():
            host, _, file = argument.partition("=")
            if not _HOST_NAME.fullmatch(host):
                raise InputError(
                    f"{argument}: {host!r} is not a host name: write HOST=FILE with the name of the broker's host"
                )
        if not file:
            raise InputError(f"the argument {argument!r} contains no path: write a file, a directory or HOST=FILE")
        path = Path(file)
        root = path if path.is_dir() else None
        if root is not None:
            xml_paths = list(find_files_by_name(root, ACTIVEMQ_XML))
            if not xml_paths:
                raise InputError(
                    f"{path}: the directory contains no {ACTIVEMQ_XML}: if the file has another name, give it as "
                    "HOST=FILE"
                )
            if host and len(xml_paths) > 1:
                raise InputError(
                    f"{path}: the directory contains {len(xml_paths)} files named {ACTIVEMQ_XML}: give the file of "
                    f"this host as {host}=FILE"
                )
        elif path.is_file() or path.is_fifo():
            xml_paths = [path]
        else:
            raise InputError(
                f"{path}: this is neither a file nor a directory: name an activemq.xml or a directory"
                if path.exists()
                else f"{path}: there is no such file or directory: correct the path"
            )
        yield from ((host or _host_of(xml_path, naming), xml_path, root) for xml_path in xml_paths)


def _host_of(path: Path, naming: Naming) -> str:
    """Return the host to which a file belongs; "" for an unknown one.

    It is taken from ``…/hosts/HOST/conf/activemq.xml``, or from the nearest directory with a broker's name, or from the
    name of the file.
    """
    for parts in (path.parts, path.resolve().parts):
        if len(parts) > 3 and (parts[-4], parts[-2]) == ("hosts", "conf"):
            return parts[-3]
        names = [part for part in reversed(parts[:-1]) if naming.matches_pattern(part)]
        # A pattern for any name also matches directories such as conf.
        unusual = (name for name in names if not _USUAL_FILE_NAME.fullmatch(name))
        if names:
            return next(unusual, names[0])
    stem = _file_stem(path)
    return stem if naming.matches_pattern(stem) else ""


def _file_stem(path: Path) -> str:
    return path.name.removesuffix(".xml").removesuffix(".activemq")


class UnparsedHostNamesError(InputError):
    """An error for host names that the naming convention cannot parse.

    It proposes conventions that parse them. ``files`` are the paths by host, ``conventions`` the proposed ones by the
    condition under which each fits.
    """

    def __init__(self, reason: str, files: Mapping[str, str], conventions: Mapping[str, Naming]) -> None:
        """Make an error with the command lines that adopt the files."""
        self.files, self.conventions = files, conventions
        choice = "Run a command that is printed below, or set" if conventions else "Set"
        hint = f"{choice} --naming-pattern to a pattern for your host names: see `activemq-fleet help names`"
        super().__init__(f"{reason}. {hint}", remedies=self._commands(()))

    def error_with_options_in_adopt_commands(self, options: Sequence[str]) -> InputError:
        """Return a copy of the error whose proposed ``adopt`` commands have additional command-line options."""
        return InputError(*self.lines, remedies=self._commands(options))

    def _commands(self, options: Sequence[str]) -> dict[str, str]:
        """Return a command line for each proposed naming convention, by the sentence that introduces it."""
        return {
            f"{condition}:": adopt_command_line(self.files, naming, options)
            for condition, naming in self.conventions.items()
        }


def _check_host_names(files: Sequence[tuple[str, Path, Path | None]], naming: Naming) -> None:
    """Raise UnparsedHostNamesError for files without a host name that the naming convention can parse."""
    unparsed = [(host, path) for host, path, _ in files if not naming.matches_pattern(host)]
    if not unparsed:
        return
    wrong_host = next(
        (f"{path}: {host!r} is not a host name" for host, path in unparsed if host and not _HOST_NAME.fullmatch(host)),
        "",
    )
    if wrong_host:
        raise InputError(f"{wrong_host}: write the argument HOST=FILE with the name of its host")
    host, path = unparsed[0]
    probable_hosts = {path: host or _probable_host(path) for host, path, _ in files}
    if len(set(probable_hosts.values())) < len(probable_hosts):
        probable_hosts = {path: f"HOST{number}" for number, path in enumerate(probable_hosts, 1)}
    names = list(probable_hosts.values())
    pair_naming = propose_naming(names)
    if pair_naming and len(pair_naming.identities) < len(names):
        pair_naming = None
    single_broker_naming = propose_single_broker_naming(names, pair_naming, are_brokers=True)
    by_host = {probable_host: str(path) for path, probable_host in probable_hosts.items()}
    reason = f"the host name {host} does not match the naming pattern {naming.pattern}"
    if not host:
        reason = (
            f"the host of this file is unknown, because no part of its path matches the naming pattern {naming.pattern}"
        )
        if pair_naming or single_broker_naming:
            reason += f". The commands below use the assumed host name {probable_hosts[path]}"
    proposals = {"If the brokers are pairs": pair_naming, "If the brokers are not pairs": single_broker_naming}
    conventions = {condition: proposal.naming for condition, proposal in proposals.items() if proposal}
    raise UnparsedHostNamesError(f"{path}: {reason}", by_host, conventions)


def _probable_host(path: Path) -> str:
    """Return the probable name of a file's host: the name of the file, or of the nearest directory above it."""
    parts = (_file_stem(path), *reversed(path.resolve().parts[1:-1]))
    return next((part for part in parts if _HOST_NAME.fullmatch(part) and not _USUAL_FILE_NAME.fullmatch(part)), "HOST")


def _release_by_host(arguments: Sequence[str], hosts: Mapping[str, Path]) -> dict[str, str]:
    releases: dict[str, str] = {}
    for text in arguments:
        name, separator, release = text.rpartition("=")
        if not separator:
            releases = dict.fromkeys(hosts, release) | releases
            continue
        named_hosts = hosts_with_full_or_short_name(name, hosts)
        if not named_hosts:
            raise InputError(
                f"--release {text} names the host {name}, but no file of this host was given: write --release RELEASE "
                "for all hosts, or --release HOST=RELEASE for a host whose file is given"
            )
        releases |= dict.fromkeys(named_hosts, release)
    return releases


def parse_addresses_by_host(arguments: Sequence[str], documents: Sequence[AdoptedDocument]) -> dict[str, str]:
    """Return the address of each host, by host, from ``HOST=ADDRESS`` arguments.

    HOST is the host of one of ``documents``, or its short name. Raises InputError for a host without a file and for an
    invalid address.
    """
    address_by_host = {}
    for text in arguments:
        name, separator, address = text.partition("=")
        matching_hosts = hosts_with_full_or_short_name(name, [document.host for document in documents])
        if not separator or len(matching_hosts) != 1:
            raise InputError(
                f"--address {text}: {_reason_for_address(name, separator, [document.host for document in documents])}"
            )
        try:
            address_by_host[matching_hosts[0]] = validated_host_name(address)
        except ValueError as error:
            raise InputError(f"--address {text}: {error}") from None
    return address_by_host


def _reason_for_address(name: str, separator: str, hosts: Sequence[str]) -> str:
    if not separator:
        return f"the value of --address has no host: write HOST=ADDRESS, such as {hosts[0]}=192.0.2.10"
    return f"none of the given activemq.xml files belongs to the host {name!r}: use one of the hosts {', '.join(hosts)}"


def _adopted_document(
    host: str, path: Path, root: Path | None, release: str | None, naming: Naming, properties: HostProperties
) -> AdoptedDocument:
    identity = naming.identify_broker(host)
    if identity is None or not _HOST_NAME.fullmatch(host):
        raise InputError(
            f"{path}: the host name {host!r} does not match the naming pattern {naming.pattern}: "
            f"write HOST={path} with the name of the host, or set --naming-pattern"
        )
    companions = CompanionFiles(root or _installation_directory(path))
    content, root_element, remarks = _read_document(
        path, root, {**read_adjacent_credentials_properties(path, companions), **properties.values}
    )
    original = compared_element_from_lxml(root_element)
    tree = element_with_placeholder_defaults(with_default_connector_names(original))
    header = read_activemq_xml_header(content)
    if release is None and header is None:
        raise InputError(
            f"{path}: the file does not show the release of its broker: add --release RELEASE for all hosts, or "
            f"--release {host}=RELEASE for this one, such as 5.18.3"
        )
    return AdoptedDocument(
        host=host,
        identity=identity,
        release=_parse_release(release or (header.release if header else ""), path),
        file=path.name,
        root=tree,
        broker=next(child for child in tree.children if child.tag == f"{{{CORE}}}broker"),
        content=etree.tostring(root_element.getroottree(), encoding="UTF-8"),
        original=original,
        preferred=header.is_preferred_master if header else None,
        other_files=_other_files(path, imported_file_paths(tree), companions),
        files_read=tuple(map(str, (path, *companions.read, *properties.files))),
        files_refused=tuple(companions.refused),
        remarks=remarks,
    )


def _installation_directory(path: Path) -> Path:
    """Return the directory that contains an activemq.xml and the files that belong to it."""
    return path.parents[1] if path.parent.name == "conf" else path.parent


def _read_document(
    path: Path, root: Path | None, properties: Mapping[str, str]
) -> tuple[bytes, etree._Element, tuple[str, ...]]:
    """Return the content of an activemq.xml, its <beans> with the values of known placeholders, and remarks about it.

    Raises InputError for another kind of file, or for a file that does not have exactly one broker.
    """
    content = read_bytes_within_size_limit(path, root, _MAXIMUM_FILE_BYTES, "Or name the file itself as HOST=FILE")
    kind = foreign_file_kind(content, str(path))
    mark = None if kind and b"\0" in content else first_template_mark_with_position(decode_xml_document(content, None))
    remarks = []
    if mark:
        line, column, text = mark
        remarks.append(
            f"the file is a template, and adopt took {text[:40]!r} in line {line} as plain text. Render the template "
            "first with the tool that installs it, and adopt the result"
        )
    if kind and not mark:
        mistake = f"the file is {kind.name}, not an activemq.xml"
        raise InputError(f"{path}: {join_problem_and_remedy(mistake, kind.fix)}")
    try:
        element = parse_xml_root_element(content)
    except UnreadableXmlError as error:
        if mark:
            reason = f"the file is a template with {text[:40]!r}: render it first, and adopt the result"
            raise InputError(f"{path}:{line}:{column}: {reason}") from None
        problem = error.problem
        text = join_problem_and_remedy(problem.message, problem.fix) if problem.fix else problem.message
        raise InputError(f"{path}:{problem.line}:{problem.column}: {text}") from None
    if element.tag == f"{{{CORE}}}broker":
        element = _wrap_in_beans(element)
        remarks.append(
            "the root element of the file is <broker>. The rendered file has <broker> inside <beans>, with the same "
            "meaning: no action is necessary"
        )
    brokers = element.findall(f"{{{CORE}}}broker") if element.tag == f"{{{BEANS}}}beans" else []
    if len(brokers) != 1:
        raise InputError(f"{path}: {_no_broker_message(element, len(brokers))}")
    replace_known_placeholders(element, properties, str(path))
    if _SECRET_LABEL_MARKS.search(etree.tostring(element, encoding="unicode")):
        raise InputError(
            f"{path}: the file has the private character U+E000 or U+E001, which adopt does not accept: remove the "
            "character"
        )
    return content, element, tuple(remarks)


def _wrap_in_beans(broker: etree._Element) -> etree._Element:
    """Return a ``<beans>`` element with the broker inside, for a file whose root is the broker."""
    beans = parse_xml_root_element(f'<beans xmlns="{BEANS}"/>'.encode())
    beans.append(broker)
    return beans


def imported_file_paths(root: ComparedElement) -> list[str]:
    """Return the paths of the files that an activemq.xml imports.

    They are below its directory, without the prefixes that represent the directory. Resources elsewhere are returned as
    they are.
    """
    return [
        _CONF_REFERENCE.sub("", node.get("resource"), count=1)
        if _CONF_REFERENCE.match(node.get("resource"))
        else node.get("resource")
        for node in root.children
        if node.tag == f"{{{BEANS}}}import"
    ]


def _other_files(path: Path, imports: Iterable[str], companions: CompanionFiles) -> dict[str, str]:
    """Return the texts of the files next to an activemq.xml and in its tree, by path in the tree."""
    paths = {name: path.parent / name for name in (*_SIBLING_FILES, *filter(_is_below_directory, imports))}
    if path.parent.name == "conf":
        tree = path.parents[1]
        paths |= {name: tree / name for name in _INSTALLATION_FILES}
        for directory, suffix in _INSTALLATION_DIRECTORIES:
            names = [name for name in companions.sorted_entry_names(tree / directory) if name.endswith(suffix)]
            paths |= {f"{directory}/{name}": tree / directory / name for name in names}
    return {name: text for name, file in paths.items() if (text := companions.read_text(file)) is not None}


def _is_below_directory(resource: str) -> bool:
    return ".." not in resource and not resource.startswith("/") and ":" not in resource


def _parse_release(text: str, path: Path) -> Release:
    try:
        return Release.of(text)
    except ReleaseError as error:
        raise ReleaseError(f"{path}: {error}") from None


def _no_broker_message(root: etree._Element, number: int) -> str:
    """Return the error about a file that does not have exactly one broker element, and the remedy."""
    if number:
        return (
            f"the file has {number} <broker> elements: write each <broker> into a separate file, and adopt these files"
        )
    if root.tag != f"{{{BEANS}}}beans":
        if local_name(str(root.tag)) == "beans":
            namespace = namespace_of(str(root.tag))
            namespace_text = f"the namespace {namespace}" if namespace else "no namespace"
            return f"the root element <beans> has {namespace_text}: set its attribute xmlns to {BEANS}"
        return (
            f"the root element is <{local_name(str(root.tag))}>, but adopt reads files with the root <beans> of the "
            f"namespace {BEANS}: {_PATH_HINT}"
        )
    nested_broker = next(root.iter(f"{{{CORE}}}broker"), None)
    if nested_broker is not None:
        nested_beans = nested_broker.getparent()
        profile = nested_beans.get("profile") if nested_beans is not None else None
        profile_suffix = f' with the profile "{profile}"' if profile else ""
        return (
            f"<broker> is in a nested <beans>{profile_suffix}, which adopt does not read: move <broker> directly into "
            "the root element. If the file has several Spring profiles, move the <broker> of the active profile"
        )
    foreign_broker = next((node for node in root.iter(etree.Element) if local_name(str(node.tag)) == "broker"), None)
    if foreign_broker is not None:
        namespace = namespace_of(str(foreign_broker.tag))
        namespace_text = f"the namespace {namespace}" if namespace else "no namespace"
        return (
            f"<broker> has {namespace_text}, but releases from 5.0 on read only the namespace {CORE}: correct its xmlns"
        )
    classes = [str(node.get("class")) for node in root.iter(f"{{{BEANS}}}bean")]
    broker_class = next((name for name in classes if "broker" in name.rpartition(".")[2].lower()), None)
    if broker_class:
        return (
            f"the broker is a bean of the class {broker_class}, but adopt reads only <broker> of the namespace {CORE}: "
            "rewrite the bean as <broker>"
        )
    imports = [str(node.get("resource")) for node in root.findall(f"{{{BEANS}}}import")]
    if imports:
        return f"the file has no <broker>, but imports {', '.join(imports)}: name the imported file that has <broker>"
    return (
        f"the file has no <broker>, so it is a Spring context without a broker, such as that of a client: {_PATH_HINT}"
    )


def _check_nodes_unique(documents: Iterable[AdoptedDocument]) -> None:
    documents_by_node: dict[tuple[str, str], AdoptedDocument] = {}
    for document in documents:
        other = documents_by_node.setdefault((document.identity.pair, document.identity.node), document)
        if other is not document:
            raise InputError(
                f"{document.host} and {other.host} are both node {document.identity.node} of pair "
                f"{document.identity.pair}: set --naming-pattern to a pattern that distinguishes the nodes"
            )
