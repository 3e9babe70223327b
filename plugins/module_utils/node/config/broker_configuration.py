# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Reads a broker's own configuration on its host: connectors, store, and an account to log in with."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from xml.etree import ElementTree

from ..files.untrusted_paths import open_directory
from ..host_paths import ACTIVEMQ_XML
from ..masking import mask_text
from ..text_lines import split_lines
from .probe_account import PROBE_PASSWORD_KEY, PROBE_USER, Login
from .versions import ConfigurationPaths

_SCHEME_HOST_PORT = re.compile(
    r"(?P<scheme>[a-z0-9+]+)://(?P<host>\[[0-9A-Fa-f:]+\]|[^:/?]*):(?P<port>\d+)(?=[/?#\s]|\Z)"
)
_CLIENT_AUTH = re.compile(r"[?&](transport\.)?needClientAuth=true(?![^&])")
_REFERENCE = re.compile(r"\$\{([^}]+)\}")
_PAIR_COMMENT = re.compile(rb"<!-- \S+: node \S+ \(preferred \w+\) of pair (\S+), release ")
_RELEASE_COMMENT = re.compile(rb"<!-- [^>]*, release (\d+)\.(\d+)\.(\d+)")
_HEAD_BYTES = 4096
"""The first bytes of an activemq.xml, in which its comment must be."""
_WILDCARDS = ("0.0.0.0", "::", "")  # noqa: S104 -- compared with addresses of connectors, never bound
_STORE_PARENTS = ("persistenceAdapter", "persistenceFactory")
_KAHADB_ELEMENTS = ("mKahaDB", "kahaDB")
"""Elements whose ``directory`` is a broker's store; the kahaDB elements of an mKahaDB have no directory."""
_URL_LOGIN = re.compile(r"(?<=//)[^/@]*@|(?:(?<=:thin:)|(?<=:oci:)).+(?=@)")
"""The user and password in a JDBC URL; in a URL of Oracle, they are before the last ``@``."""
_URL_COLON_PARAMETERS = re.compile(r"(?<=/)([^/:]*):\w+=.*", re.DOTALL)
"""The database in a JDBC URL of DB2 and Informix, and the parameters after it."""
_DATABASE_PARAMETERS = ("databasename", "database")
"""The parameters of a JDBC URL of SQL Server that select the database, in lower case."""
_STORE_FILE = re.compile(r"db(?:-\d+\.log|\.data|\.redo)|txStore")
FENCED = "generations"
"""The directory in a shared store of guards that contains the messages."""


@dataclass(frozen=True)
class Listener:
    """A listener of a broker: the address of one of its transportConnectors.

    It has a name, scheme and local address. A probe connects to this address. ``requires_client_certificate``: clients
    without a certificate are refused. ``bind`` is the address on which it listens, ``0.0.0.0`` for all.
    """

    name: str
    scheme: str
    address: tuple[str, int]
    requires_client_certificate: bool = False
    bind: str = "0.0.0.0"  # noqa: S104 -- nothing is bound here


@dataclass(frozen=True)
class DeployedBrokerSettings:
    """The deployed configuration of a broker, read from its activemq.xml.

    These are the parts that host modules need, such as connectors. It also has the accounts to log in with, and the
    store. ``login`` is the account of links or another account of the broker, ``probe_login`` the account of probes;
    both are empty if the broker has none. ``release`` is a tuple of numbers, empty if the file does not contain it.
    ``store`` is the directory of a kahaDB or mKahaDB, empty for another store. ``pure``: the broker is a node of a pure
    master/slave pair. ``consoles`` are the addresses and ports of web consoles, which a standby opens only at a
    failover.
    """

    listeners: tuple[Listener, ...] = ()
    consoles: tuple[tuple[str, int], ...] = ()
    login: Login = field(default=Login(), repr=False)
    probe_login: Login = field(default=Login(), repr=False)
    release: tuple[int, ...] = ()
    store: str = ""
    pure: bool = False
    persistence: dict[str, Any] = field(default_factory=dict)


def read_deployed_broker_settings(layout: ConfigurationPaths, name: str | None) -> DeployedBrokerSettings:
    """Read the deployed configuration of a broker from its activemq.xml.

    Returns its connectors, accounts and store. ``name`` is a version of the configuration; for None the result is
    empty. Raises OSError or ElementTree.ParseError when it cannot be read.
    """
    if name is None:
        return DeployedBrokerSettings()
    base, conf = layout.base, os.path.join(layout.directory(name), "conf")
    with open(os.path.join(conf, "activemq.xml"), "rb") as file:
        document = file.read()
    root = ElementTree.fromstring(document)  # noqa: S314 -- root's own file
    release = _RELEASE_COMMENT.search(document[:_HEAD_BYTES])
    passwords = _read_passwords(conf)
    return DeployedBrokerSettings(
        listeners=tuple(_parse_listeners(root)),
        consoles=tuple(_read_console_addresses(root, conf)),
        login=_find_login(root, passwords),
        probe_login=_find_probe_login(root, passwords),
        release=tuple(map(int, release.groups())) if release else (),
        store=_store_directory(root, base, conf),
        pure=_is_pure(root),
        persistence=_store_facts(root),
    )


def deployed_pair_name(layout: ConfigurationPaths) -> str | None:
    """Return the name of the pair in the deployed configuration of a broker; None without one.

    The configuration is activemq.xml. A comment in the file contains it. Raises NodeError if ``current`` is not a link
    to a version.
    """
    version = layout.current_version()
    pair_comment = (
        _PAIR_COMMENT.search((version.read_installed_file(ACTIVEMQ_XML) or b"")[:_HEAD_BYTES]) if version else None
    )
    return pair_comment[1].decode(errors="replace") if pair_comment else None


def message_store_facts(activemq_xml: bytes, base: str) -> dict[str, Any]:
    """Return facts about the message store that an activemq.xml configures, as a dictionary.

    ``base`` is the directory of the broker. ``kind`` is the element of the store, None without a store or without
    persistence. ``directory`` is that of a kahaDB or mKahaDB as the file names it, else None. ``openwire`` is the value
    of ``storeOpenWireVersion``, or None. ``pure``: the broker is a node of a pure master/slave pair. ``database`` is
    the JDBC URL of the store without its login and parameters, ``stores`` the destinations of the stores of an mKahaDB
    in words; None for another store.
    """
    root = ElementTree.fromstring(activemq_xml)  # noqa: S314 -- root's own file
    directory = _store_directory(root, base, os.path.join(base, "current", "conf"))
    return {**_store_facts(root), "directory": directory or None}


def _store_directory(root: ElementTree.Element, base: str, conf: str) -> str:
    """Return the directory of a broker's kahaDB or mKahaDB; empty for another store."""
    paths = {"activemq.base": base, "activemq.data": os.path.join(base, "data"), "activemq.conf": conf}
    stores = [
        element.get("directory", "") for name in _KAHADB_ELEMENTS for element in elements_with_local_name(root, name)
    ]
    return _REFERENCE.sub(lambda reference: paths.get(reference[1], reference[0]), stores[0]) if stores else ""


def _store_facts(root: ElementTree.Element) -> dict[str, Any]:
    brokers = elements_with_local_name(root, "broker")
    openwire = brokers[0].get("storeOpenWireVersion") if brokers else None
    kinds = [child for name in _STORE_PARENTS for element in elements_with_local_name(root, name) for child in element]
    return {
        "kind": kinds[0].tag.rpartition("}")[2] if kinds else None,
        "openwire": int(openwire) if openwire and openwire.isdecimal() else None,
        "pure": _is_pure(root),
        "database": _database_url(root, kinds[0]) if kinds else None,
        "stores": ", ".join(sorted(map(_filter_text, elements_with_local_name(root, "filteredKahaDB")))) or None,
    }


def _database_url(root: ElementTree.Element, store: ElementTree.Element) -> str | None:
    """Return the JDBC URL of a store without its login and parameters; None for a store that is not in a database."""
    data_source = store.get("dataSource", "").lstrip("#")
    for bean in elements_with_local_name(root, "bean") if data_source else ():
        if bean.get("id") == data_source:
            for child in bean:
                if child.get("name") == "url" and child.get("value"):
                    return _url_without_login_and_parameters(child.get("value", ""))
    return None


def _url_without_login_and_parameters(url: str) -> str:
    location, *parameters = url.partition("?")[0].split(";")
    kept = [text for text in parameters if text.partition("=")[0].strip().lower() in _DATABASE_PARAMETERS]
    location = _URL_COLON_PARAMETERS.sub(r"\1", _URL_LOGIN.sub("", location))
    return str(mask_text(";".join([location, *kept])))


def _filter_text(entry: ElementTree.Element) -> str:
    """Return the destinations of a filteredKahaDB element, a store of an mKahaDB, in words."""
    names = [f"{kind} {entry.get(kind)}" for kind in ("queue", "topic") if entry.get(kind)]
    text = " and ".join(names) or "all other destinations"
    return f"{text} (each separately)" if entry.get("perDestination") == "true" else text


def _is_pure(root: ElementTree.Element) -> bool:
    has_waiting_master = any(
        broker.get("waitForSlave") == "true" for broker in elements_with_local_name(root, "broker")
    )
    return has_waiting_master or bool(elements_with_local_name(root, "masterConnector"))


def was_store_ever_used(store: str, root_fd: int | None = None) -> bool:
    """Return whether the files in the directory of a kahaDB store show that a broker has ever used the store.

    A directory that does not exist is an unused store. ``root_fd``: the descriptor of a directory from which the path
    starts, in place of ``/``. Raises UntrustedPathError for a store behind a link of an untrusted account; OSError for
    a directory that cannot be read.
    """
    try:
        with open_directory(store, root_fd) as directory:
            names = directory.entry_names()
    except FileNotFoundError:
        return False
    return any(_STORE_FILE.fullmatch(name) for name in names) or FENCED in names


def elements_with_local_name(root: ElementTree.Element, name: str) -> list[ElementTree.Element]:
    """Return the XML elements with a local name in a tree, in any namespace.

    ``root`` itself is included.
    """
    return [element for element in root.iter() if element.tag.rpartition("}")[2] == name]


def _parse_listeners(root: ElementTree.Element) -> list[Listener]:
    listeners = []
    for element in elements_with_local_name(root, "transportConnector"):
        uri = element.get("uri", "")
        parts = scheme_host_and_port(uri)
        if parts:
            scheme, host, port = parts
            probe_host = "127.0.0.1" if host in _WILDCARDS else host
            name, needs_certificate = element.get("name", scheme), requires_client_certificate(uri)
            listeners.append(Listener(name, scheme, (probe_host, port), needs_certificate, host or Listener.bind))
    return listeners


def _read_console_addresses(root: ElementTree.Element, conf: str) -> Iterator[tuple[str, int]]:
    """Yield addresses and ports of the consoles in the files that activemq.xml imports; a port of 0 is left out."""
    for name in {os.path.basename(element.get("resource", "")) for element in elements_with_local_name(root, "import")}:
        try:
            console = ElementTree.parse(os.path.join(conf, name)).getroot()  # noqa: S314 -- root's own file
        except (OSError, ElementTree.ParseError):
            continue
        # From 6.3 on the address is in a properties file next to the console's.
        settings = _read_properties_file(os.path.join(conf, name.replace(".xml", ".properties")))
        addresses = [(settings.get("jetty.http.host"), settings.get("jetty.http.port"))]
        for bean in elements_with_local_name(console, "bean"):
            values = {child.get("name"): child.get("value") for child in bean if child.tag.endswith("property")}
            addresses.append((values.get("host"), values.get("port")))
        for host, port in addresses:
            if port and port.isdecimal() and int(port):
                yield host or Listener.bind, int(port)


def requires_client_certificate(uri: str) -> bool:
    """Return whether a connector's URI requires clients to present a certificate."""
    return _CLIENT_AUTH.search(uri) is not None


def scheme_host_and_port(uri: str) -> tuple[str, str, int] | None:
    """Return the scheme, host and port with which a URI begins; None if it has none.

    The host may be empty.
    """
    match = _SCHEME_HOST_PORT.match(uri)
    return (match["scheme"], match["host"].strip("[]"), int(match["port"])) if match else None


def _read_passwords(conf: str) -> dict[str, str]:
    """Return the entries of a version's credentials.properties; none without the file."""
    return _read_properties_file(os.path.join(conf, "credentials.properties"))


def _read_properties_file(path: str) -> dict[str, str]:
    """Return the entries of a properties file; none without the file."""
    try:
        with open(path, encoding="latin-1") as file:
            return dict(parse_property_entries(file.read()))
    except OSError:
        return {}


def _find_login(root: ElementTree.Element, passwords: dict[str, str]) -> Login:
    """Return a broker account whose password is in the credentials file, if possible that of network connectors."""
    users = [
        user for user in elements_with_local_name(root, "authenticationUser") if user.get("username") != PROBE_USER
    ]
    users.sort(key=lambda user: "activemq.network.password" not in user.get("password", ""))
    for user in users:
        reference = _REFERENCE.fullmatch(user.get("password", ""))
        password = passwords.get(reference[1]) if reference else None
        if password:
            return Login(user.get("username", ""), password)
    return Login()


def _find_probe_login(root: ElementTree.Element, passwords: dict[str, str]) -> Login:
    """Return the account for probes of a broker; an empty login if its activemq.xml has other accounts only."""
    names = {user.get("username") for user in elements_with_local_name(root, "authenticationUser")}
    password = passwords.get(PROBE_PASSWORD_KEY)
    return Login(PROBE_USER, password) if password and (not names or PROBE_USER in names) else Login()


_PROPERTY_ENTRY = re.compile(r"(?P<key>(?:\\.|[^\\=#!])(?:\\.|[^\\=])*)=(?P<value>.*)")
_ESCAPE = re.compile(r"\\(?:u(?P<code>[0-9A-Fa-f]{4})|(?P<char>.))")
_ESCAPED_CHARS = {"n": "\n", "r": "\r", "t": "\t", "f": "\f"}


def parse_property_entries(text: str) -> list[tuple[str, str]]:
    """Parse the text of a properties file, and return the list of its (key, value) entries.

    Each line has one ``key=value``, as ``render`` writes it.
    """
    # Java accepts three line ends in such a file.
    lines = split_lines(text.replace("\r\n", "\n").replace("\r", "\n"))
    entries = [_PROPERTY_ENTRY.fullmatch(line) for line in lines]
    return [(_unescape(entry["key"]), _unescape(entry["value"])) for entry in entries if entry]


def _unescape(text: str) -> str:
    def unescaped(escape: re.Match[str]) -> str:
        return chr(int(escape["code"], 16)) if escape["code"] else _ESCAPED_CHARS.get(escape["char"], escape["char"])

    # A character beyond U+FFFF is written as two surrogates.
    return _ESCAPE.sub(unescaped, text).encode("utf-16", "surrogatepass").decode("utf-16")
