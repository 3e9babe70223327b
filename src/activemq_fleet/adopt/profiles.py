"""Propose the high-availability profile of each pair, and the variables of its store and lock."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Collection, Sequence

from activemq_fleet.adopt.compared_element import PLACEHOLDERS, ComparedElement
from activemq_fleet.adopt.equal_meaning import expand_directory_placeholders
from activemq_fleet.adopt.placeholders import placeholder_names
from activemq_fleet.adopt.proposal import ProposedVariablesByHost
from activemq_fleet.adopt.secrets import TextWithSecretLabels, attribute_contains_clear_text_password
from activemq_fleet.adopt.sources import AdoptedDocument
from activemq_fleet.errors import InputError
from activemq_fleet.network.uri_parser import Uri, has_placeholder
from activemq_fleet.node.host_paths import STORE_MARKER
from activemq_fleet.node.protocols import protocol_name_of_scheme
from activemq_fleet.profiles import NONE, PURE, SHARED_FILE, SHARED_JDBC
from activemq_fleet.render.store_and_lock import JDBC_DATA_SOURCE_ID, default_guarded_broker_lock_intervals_ms

# Paths at which operators usually mount shared storage.
_SHARED_PATH = re.compile(r"^/(?:srv|mnt|nfs|net|shared|media|cluster)/|nfs|shared|gfs|san\b", re.IGNORECASE)
REPLICATION = "replication"
_FENCED_PATH = "/data/fence/store"
"""The end of a KahaDB directory that is the link of a guard (``render.broker_paths.kahadb_directory_in_xml``)."""
_KAHADB = ("kahaDB", "mKahaDB")
_DATABASE_LOCKER = """<persistenceAdapter>
  <jdbcPersistenceAdapter>
    <locker>
      <database-locker/>
    </locker>
  </jdbcPersistenceAdapter>
</persistenceAdapter>"""
_DEFAULT_BROKER_NAMES = ("", "localhost")
_LOCK_INTERVAL_ATTRIBUTES = ("lockKeepAlivePeriod", "databaseLockedWaitDelay")


def propose_ha_profiles(proposal: ProposedVariablesByHost, shared: Collection[str] = ()) -> None:
    """Propose the high-availability profile (``activemq_ha``) of every pair.

    The variables of the profile are proposed, too. ``shared`` names pairs whose nodes share a KahaDB store that no file
    shows to be shared. Raises InputError for one that is no pair with two such stores.
    """
    stores = {
        pair: [_store_element(document) for document in documents]
        for pair, documents in proposal.existing_activemq_xml_by_pair().items()
    }
    for pair in shared:
        if [store.name in _KAHADB for store in stores.get(pair, []) if store] != [True, True]:
            raise InputError(
                f"--shared-store {pair}: the given files contain no pair {pair} of two brokers with kahaDB stores. "
                "Correct the name of the pair, and adopt the files of both its nodes together"
            )
    for pair, documents in proposal.existing_activemq_xml_by_pair().items():
        if len(documents) == 2 and _is_pure_pair(documents):
            _propose_pure(proposal, documents)
        elif len(documents) == 2 and _share_database(documents):
            _propose_jdbc(proposal, documents)
        elif len(documents) == 2 and (pair in shared or _share_directory(documents)):
            for document in documents:
                proposal[document.host]["ha"] = SHARED_FILE.name
                _propose_lock(proposal, document, "shared-file-locker", 1000, 2000)
            _note_missing_store_marker(proposal, pair, documents)
        else:
            for document in documents:
                proposal[document.host]["ha"] = NONE.name
            if len(documents) == 1 and "node" not in proposal.naming.stated:
                proposal.add_note(
                    [documents[0].host],
                    f"only this node of pair {pair} was given, so adopt set activemq_ha: none. "
                    "If the pair has a second node, adopt the files of both nodes together",
                )
            elif len(documents) > 1 and (possible_store := _store_that_may_be_shared(pair, documents)):
                proposal.add_note(
                    [document.host for document in documents],
                    f"the files do not show that both nodes of pair {pair} share {possible_store[0]}, so adopt made "
                    f"each node a single broker (activemq_ha: none). If the nodes share it, {possible_store[1]}",
                    is_urgent=True,
                )
        for document in documents:
            _propose_store(proposal, document)
            _propose_broker_name(proposal, document)


def _note_missing_store_marker(
    proposal: ProposedVariablesByHost, pair: str, documents: Sequence[AdoptedDocument]
) -> None:
    """Add a note that an adopted store requires the marker that stores of activemq.fleet have."""
    if any(document.preferred is None for document in documents):
        directory = kahadb_directory(documents[0]) or "STORE"
        path = shlex.quote(f"{directory}/{STORE_MARKER}")
        proposal.add_note(
            [document.host for document in documents],
            f"the playbook activemq.fleet.site starts these brokers only if the shared store {directory} contains the "
            f"file {STORE_MARKER} with the name of the pair. Mount the store on both hosts, and run on one of them, "
            f"with the account that owns the store: `echo {shlex.quote(pair)} > {path}`",
            is_urgent=True,
        )


def master_connector_element(document: AdoptedDocument) -> ComparedElement | None:
    """Return the masterConnector element of an activemq.xml, or None if the broker is not a pure slave.

    A pure slave connects to its master by this element.
    """
    return document.broker.find("services/masterConnector")


def pure_master_address(document: AdoptedDocument) -> tuple[str, int] | None:
    """Return the address (host, port) of the master to which a pure slave connects, or None."""
    connector = master_connector_element(document)
    transport_uris = Uri.parse(connector.get("remoteURI")).transport_uris if connector else ()
    return next(
        ((transport.host, transport.port) for transport in transport_uris if transport.host and transport.port), None
    )


def _is_pure_pair(documents: Sequence[AdoptedDocument]) -> bool:
    slaves = [document for document in documents if master_connector_element(document)]
    return len(slaves) == 1 and all(document.release.has_pure_master_slave for document in documents)


def _propose_pure(proposal: ProposedVariablesByHost, documents: Sequence[AdoptedDocument]) -> None:
    slave, master = sorted(documents, key=lambda document: master_connector_element(document) is None)
    for document in documents:
        proposal[document.host]["ha"] = PURE.name
        proposal.propose_preferred_master_unless_default(document.host, master.identity.node)
    master_address = pure_master_address(slave)
    if master_address is None:
        return
    connectors = master.broker.find_all("transportConnectors/transportConnector")
    for connector in connectors:
        is_replication_connector = connector.get("name") == REPLICATION
        if not connector.get("uri").partition("?")[0].endswith(f":{master_address[1]}"):
            continue
        if not is_replication_connector and not _is_used_only_by_slaves(connector, connectors):
            proposal.slaves_at_client_connectors.add(slave.host)
            continue
        if not is_replication_connector:  # A fragment can change a connector that has the name of the rendered one.
            proposal.exclude_elements_from_fragments(connector)
        for document in documents:
            proposal.propose_value_if_valid(document.host, "replication_port", master_address[1])


def _is_used_only_by_slaves(connector: ComparedElement, connectors: Sequence[ComparedElement]) -> bool:
    """Return whether only slaves of pairs use one of a broker's transportConnectors, and no clients do.

    Clients use the only OpenWire connector of a broker, whatever its name is.
    """
    openwire_connectors = [
        other for other in connectors if protocol_name_of_scheme(other.get("uri").partition(":")[0]) == "openwire"
    ]
    is_named_for_clients = "discoveryUri" in connector.attributes or connector.get("name") in ("openwire", "default")
    return len(openwire_connectors) > 1 and not is_named_for_clients


def _store_element(document: AdoptedDocument) -> ComparedElement | None:
    adapter = document.broker.find("persistenceAdapter")
    return adapter.children[0] if adapter and adapter.children else None


def kahadb_directory(document: AdoptedDocument) -> str:
    """Return the directory of the KahaDB store in an activemq.xml, or "" for another store or a missing attribute.

    Placeholders in the directory stay.
    """
    store = _store_element(document)
    return store.get("directory") if store is not None and store.name in _KAHADB else ""


def _share_directory(documents: Sequence[AdoptedDocument]) -> bool:
    """Return whether both nodes of a pair use one absolute KahaDB directory that is evidently shared.

    Evidence is an equal broker name, a configured lock on both nodes, or a path where shared storage is usually
    mounted. A missing name, the default localhost, and a name with a placeholder are no evidence, because independent
    brokers have them. With guards each node has a separate path.
    """
    stores = [store for document in documents if (store := _store_element(document)) and store.name in _KAHADB]
    directories = {store.get("directory") for store in stores}
    if len(stores) == 2 and all(directory.endswith(_FENCED_PATH) for directory in directories):
        return True
    if len(stores) != 2 or len(directories) != 1 or not next(iter(directories)).startswith("/"):
        return False
    names = {document.broker.get("brokerName") for document in documents}
    are_locked = all(
        store.find("locker") or any(name in store.attributes for name in _LOCK_INTERVAL_ATTRIBUTES) for store in stores
    )
    name = names.pop() if len(names) == 1 else ""
    have_same_name = name not in _DEFAULT_BROKER_NAMES and not has_placeholder(name)
    return have_same_name or are_locked or bool(_SHARED_PATH.search(directories.pop()))


def _store_that_may_be_shared(pair: str, documents: Sequence[AdoptedDocument]) -> tuple[str, str] | None:
    """Return the store that the nodes of a pair may share, and the fix for that case; None if they share no store."""
    stores = [store for document in documents if (store := _store_element(document))]
    if len(stores) == len(documents) and all(store.name == "jdbcPersistenceAdapter" for store in stores):
        return "a database", f"set activemq_ha: {SHARED_JDBC.name}, and activemq_jdbc"
    paths = {kahadb_directory(document) for document in documents}
    if len(paths) != 1 or "" in paths:
        return None
    return f"the store {paths.pop()}", f"adopt again with --shared-store {pair}"


def _propose_lock(
    proposal: ProposedVariablesByHost,
    document: AdoptedDocument,
    locker: str,
    default_acquire: int,
    default_keepalive: int,
) -> None:
    """Propose the lock intervals of a store if they differ from the defaults.

    ``default_acquire`` and ``default_keepalive`` are those of a broker without a guard, in ms.

    ``locker`` is the name of the element that configures the lock.
    """
    store = _store_element(document)
    if store is None:
        return
    fence = "none"
    if store.get("directory").endswith(_FENCED_PATH):
        fence = "guard"
        default_acquire, default_keepalive = default_guarded_broker_lock_intervals_ms(document.release)
    locker_element = store.find(f"locker/{locker}")
    acquire_text = (
        locker_element.get("lockAcquireSleepInterval") if locker_element else store.get("databaseLockedWaitDelay")
    )
    keepalive_text = store.get("lockKeepAlivePeriod")
    _propose_interval(proposal, document, "lock_acquire_interval", acquire_text, default_acquire, fence)
    _propose_interval(proposal, document, "lock_keepalive_interval", keepalive_text, default_keepalive, fence)


def _propose_interval(
    proposal: ProposedVariablesByHost, document: AdoptedDocument, name: str, text: str, default: int, fence: str
) -> None:
    if text.isascii() and text.isdigit() and int(text) != default:
        proposal.propose_value_if_valid(document.host, name, int(text), fence=fence)


def _propose_store(proposal: ProposedVariablesByHost, document: AdoptedDocument) -> None:
    store = _store_element(document)
    if store is None or store.name not in _KAHADB:
        return
    if store.get("directory").endswith(_FENCED_PATH):
        proposal.propose_value_if_valid(document.host, "fence", "guard")
        proposal.add_note(
            [document.host],
            "the files do not show the directory of the shared store, because the guard (the program that "
            "activemq_fence: guard starts) sets it. Set activemq_store_directory to the path after --store in the "
            f"broker's systemd unit. The default is /srv/activemq/{document.identity.pair}",
            is_urgent=True,
        )
    else:
        proposal.propose_value_if_valid(document.host, "store_directory", store.get("directory"))


def propose_store_directories_below_base(proposal: ProposedVariablesByHost) -> None:
    """Propose ``activemq_store_directory`` for hosts whose activemq.xml has a store below ``${activemq.base}``.

    In the proposed path, the directory that is already proposed replaces the placeholder. Add a note for a store whose
    location only the host can show, because the broker would start with an empty one.
    """
    for document in proposal.documents:
        directories = proposal.activemq_base_and_data_directories(document.host)
        path = expand_directory_placeholders(kahadb_directory(document), directories).rstrip("/")
        if path not in (kahadb_directory(document), f"{directories['data']}/kahadb"):
            proposal.propose_value_if_valid(document.host, "store_directory", path)
    hosts_by_directory = defaultdict(list)
    for document in proposal.documents:
        if _has_relative_store(proposal, document):
            hosts_by_directory[kahadb_directory(document)].append(document.host)
    for path, hosts in hosts_by_directory.items():
        names = [name for name in placeholder_names(path) if not name.startswith("activemq.")]
        properties_hint = f", or adopt again with --properties FILE that defines {', '.join(names)}" if names else ""
        proposal.add_note(
            hosts,
            f"the file has the store directory {path}, which is not an absolute path. Set activemq_store_directory to "
            f"the absolute path of this directory on the host{properties_hint}. Otherwise the broker starts with an "
            "empty store",
            is_urgent=True,
        )
    if default_stores := [document.host for document in proposal.documents if _has_default_store(document)]:
        proposal.add_note(
            default_stores,
            "the file has no persistenceAdapter, so the store is the directory BROKERNAME/KahaDB below dataDirectory. "
            "Set activemq_store_directory to the absolute path of this directory on the host. Otherwise the broker "
            "starts with an empty store",
            is_urgent=True,
        )


def hosts_with_unknown_store_path(proposal: ProposedVariablesByHost) -> list[str]:
    """Return the hosts whose files do not show the absolute path of the broker's store."""
    return [
        document.host
        for document in proposal.documents
        if _has_relative_store(proposal, document) or _has_default_store(document)
    ]


def _has_relative_store(proposal: ProposedVariablesByHost, document: AdoptedDocument) -> bool:
    """Return whether a file has a store directory whose absolute path only the host can show."""
    path = kahadb_directory(document)
    return bool(path) and not path.startswith("/") and "base" not in proposal[document.host]


def _has_default_store(document: AdoptedDocument) -> bool:
    """Return whether a broker stores its messages although its activemq.xml configures no store."""
    configures_store = any(document.broker.find(name) for name in ("persistenceAdapter", "persistenceFactory"))
    return not configures_store and document.broker.get("persistent") != "false"


def _propose_broker_name(proposal: ProposedVariablesByHost, document: AdoptedDocument) -> None:
    is_shared = proposal.proposed_ha_profile(document.host).shares_store
    name = document.broker.get("brokerName")
    if name != (document.identity.pair if is_shared else document.identity.short_host_name):
        proposal.propose_value_if_valid(document.host, "broker_name", name)


def _jdbc_data_source_bean(document: AdoptedDocument) -> ComparedElement | None:
    """Return the data source bean of a JDBC store.

    None is returned if ``activemq_jdbc`` cannot express it.
    """
    store = _store_element(document)
    if store is None or store.name != "jdbcPersistenceAdapter" or not document.release.has_lockers:
        return None
    bean_id = store.get("dataSource").removeprefix("#")
    beans = [node for node in document.root.children if node.name == "bean" and node.get("id") == bean_id != ""]
    required_properties = {"driverClassName", "url", "username"}
    return beans[0] if beans and required_properties <= _bean_properties(beans[0]).keys() else None


def _bean_properties(bean: ComparedElement) -> dict[str, str]:
    """Return the properties of a Spring bean, by name."""
    return {
        child.get("name"): child.get("value") or next((value.normalized_text for value in child.children), "")
        for child in bean.children
        if child.name == "property" and not bean.get("class").endswith(PLACEHOLDERS)
    }


def _share_database(documents: Sequence[AdoptedDocument]) -> bool:
    beans = [_jdbc_data_source_bean(document) for document in documents]
    return None not in beans and len({_bean_properties(bean)["url"] for bean in beans if bean}) == 1


def _propose_jdbc(proposal: ProposedVariablesByHost, documents: Sequence[AdoptedDocument]) -> None:
    is_proposed = all(_propose_database(proposal, document) for document in documents)
    for document in documents:
        proposal[document.host]["ha"] = SHARED_JDBC.name if is_proposed else NONE.name
        if not is_proposed:
            proposal[document.host].pop("jdbc", None)
            continue
        bean = _jdbc_data_source_bean(document)
        proposal.exclude_elements_from_fragments(bean)
        if bean is not None:
            proposal.renamed_beans[document.host] = {bean.get("id"): JDBC_DATA_SOURCE_ID}
        _propose_lock(proposal, document, "lease-database-locker", 10_000, 5000)
        if _uses_default_database_locker(document):
            entry = {"xml": TextWithSecretLabels(_DATABASE_LOCKER)}
            proposal[document.host].setdefault("xml_fragments", []).append(entry)
    hosts = [document.host for document in documents if _uses_default_database_locker(document)]
    if is_proposed and hosts:
        proposal.add_note(
            hosts,
            "adopt keeps the lock of the original brokers, <database-locker>, in activemq_xml_fragments. A broker with "
            "this lock and a broker with <lease-database-locker>, the default of activemq.fleet, do not exclude each "
            "other. To change to the default later, stop the brokers on both nodes of the pair, remove <locker> from "
            "activemq_xml_fragments, and run the playbook site for both nodes",
        )


def _uses_default_database_locker(document: AdoptedDocument) -> bool:
    """Return whether a JDBC store configures no lock, so that it has ActiveMQ's default, a transaction on a row.

    The lease that activemq.fleet renders does not lock this row, so that an old broker with the default lock would
    become master while a new broker with the lease is master.
    """
    store = _store_element(document)
    return (
        store is not None
        and store.find("locker") is None
        and "locker" not in store.attributes
        and store.get("useLock") != "false"
    )


def _propose_database(proposal: ProposedVariablesByHost, document: AdoptedDocument) -> bool:
    bean = _jdbc_data_source_bean(document)
    if bean is None or attribute_contains_clear_text_password("url", _bean_properties(bean)["url"]):
        return False
    values = _bean_properties(bean)
    user = values["username"]
    secret = proposal.secrets.secret_file_reference_for(
        "jdbc", values.get("password", ""), f"password of the database user {user}"
    )
    value = {"url": values["url"], "driver": values["driverClassName"], "username": user, "password": secret}
    return proposal.propose_value_if_valid(document.host, "jdbc", value)
