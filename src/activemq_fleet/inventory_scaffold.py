"""Write a first inventory for given hosts: names read as pairs, safe values set explicitly, and no secret in a file."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from activemq_fleet.addresses import host_name_without_domain, validated_host_name
from activemq_fleet.errors import InputError
from activemq_fleet.group_names import GROUPS_OF_EVERY_INVENTORY
from activemq_fleet.inventory_yaml import plain_variables_to_yaml
from activemq_fleet.naming import (
    DEFAULT_MASTER_NODE,
    PARITY_VARIABLE,
    PATTERN_VARIABLE,
    Identity,
    Naming,
    UnparsableBrokerNameError,
)
from activemq_fleet.naming_proposal import propose_naming
from activemq_fleet.node.text_lines import split_lines
from activemq_fleet.profiles import SHARED_FILE
from activemq_fleet.releases import Release
from activemq_fleet.settings.json_schemas import read_json_schema_text
from activemq_fleet.topology import build_fleet

_DEFAULT_GROUP = "brokers"
_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_STANDALONE = {"activemq_ha": "none", "activemq_fence": "none", "activemq_watchdog": "warn"}
_ACCOUNT_ID = 990
_SCHEMAS = ".schemas"
_INVALID_PAIR_NAME_CHARACTERS = re.compile(r"[^A-Za-z0-9_-]+")
_ACL = [
    {"destination": ">", "kind": kind, "read": "apps", "write": "apps", "admin": "apps"} for kind in ("queue", "topic")
]
_PASSWORD = "not-the-password"  # noqa: S105 -- replaces the passwords that Ansible creates, while the fleet is checked


@dataclass(frozen=True, slots=True)
class InventoryScaffoldRequest:
    """The request for a scaffolded inventory: a first inventory for given hosts.

    The request has the hosts, the release and properties of the installation. A host is a name or an address; two with
    a comma between them are a pair, whatever their names are. ``archive`` is the path of the release's archive and
    ``sha512`` its checksum; both are None if the release is already installed. ``tls``: connectors and links encrypt.
    """

    hosts: tuple[str, ...]
    release: str
    archive: str | None = None
    sha512: str | None = None
    tls: bool = False


@dataclass(frozen=True, slots=True)
class _NamedHosts:
    """Hosts with their naming variables: ``common`` for all hosts, and ``host_variables`` for single hosts."""

    identities: tuple[Identity, ...]
    common: Mapping[str, str] = field(default_factory=dict)
    host_variables: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def host_identities_by_pair(self) -> dict[str, list[Identity]]:
        """The identities (group, pair and node) of the hosts, in a list per pair, by name of the pair.

        A broker without a peer is alone under its name.
        """
        members: dict[str, list[Identity]] = defaultdict(list)
        for identity in self.identities:
            members[identity.pair].append(identity)
        return members

    @property
    def standalone_hosts(self) -> frozenset[str]:
        """The names of standalone hosts, whose brokers have no peer."""
        return frozenset(
            identity.name
            for members in self.host_identities_by_pair.values()
            if sorted(member.role for member in members) != ["master", "slave"]
            for identity in members
        )


@dataclass(frozen=True, slots=True)
class ScaffoldedInventory:
    """A scaffolded inventory: a generated first inventory for given hosts.

    ``files`` are its files, content by path. There is one sentence for each pair and each broker without a peer.
    """

    files: Mapping[str, bytes]
    readings: tuple[str, ...]


def scaffold_inventory(request: InventoryScaffoldRequest) -> ScaffoldedInventory:
    """Return a scaffolded inventory: the files of a first inventory for the requested hosts.

    A sentence for each pair and each broker without a peer is included. The sentences state how the host names were
    understood. Raises InputError for hosts that cannot be brokers.
    """
    Release.of(request.release)
    named = _read_names(request.hosts)
    _check_fleet(request, named)
    texts = {
        "hosts.yml": "".join(_inventory_file_lines(named)),
        "group_vars/all.yml": "".join(_variable_lines(request, named)),
        "zz.activemq.yml": "---\n# Puts brokers into groups such as activemq_masters and activemq_pair_NAME.\n"
        "plugin: activemq.fleet.topology\n",
        ".gitignore": ".secrets/\n",
        **{f"{_SCHEMAS}/{kind}.schema.json": read_json_schema_text(kind) for kind in ("inventory", "variables")},
    }
    return ScaffoldedInventory(
        {path: text.encode() for path, text in texts.items()}, tuple(_interpretation_lines(named))
    )


def _interpretation_lines(named: _NamedHosts) -> Iterator[str]:
    for pair, members in named.host_identities_by_pair.items():
        group = members[0].group
        if members[0].name in named.standalone_hosts:
            yield from (f"{member.name}: a single broker of group {group}" for member in members)
        else:
            master, slave = (member.name for member in sorted(members, key=lambda member: member.role))
            yield f"{pair}: a pair of group {group}, {master} (preferred master) and {slave}"


def _read_names(arguments: Sequence[str]) -> _NamedHosts:
    """Return hosts with their naming variables, as few as possible, by the convention that matches the most names."""
    pairs = [tuple(argument.split(",")) for argument in arguments if "," in argument]
    for pair in pairs:
        if len(pair) != 2:
            raise InputError(
                f"{','.join(pair)}: the argument names {len(pair)} hosts, but a pair has two nodes: write NODE1,NODE2"
            )
    names = [name for argument in arguments for name in argument.split(",")]
    checked_names = set()
    for name in names:
        try:
            validated_host_name(name)
        except ValueError as error:
            raise InputError(f"host argument {name!r}: {error}") from None
        if name in GROUPS_OF_EVERY_INVENTORY:
            raise InputError(
                f"host argument {name!r}: every Ansible inventory has a group of this name. Give the host another "
                "name, and set its ansible_host in the inventory to its address"
            )
        if name in checked_names:
            raise InputError(f"the arguments list the host {name} twice: list each host once")
        checked_names.add(name)
    single_hosts = [argument for argument in arguments if "," not in argument]
    naming, common = _best_naming_convention([name for name in single_hosts if not _is_address(name)])
    identities_by_name = {
        name: identity
        for name in single_hosts
        if (identity := _identity_or_none(naming, name)) and not _is_address(name)
    }
    pairs_and_other_hosts = [*pairs, *((name,) for name in single_hosts if name not in identities_by_name)]
    host_variables = {
        name: variables
        for members, pair_name in _pair_name_by_hosts(pairs_and_other_hosts).items()
        for name, variables in _explicit_identity_variables(members, pair_name).items()
    }
    if common and host_variables:
        # The pattern and the node marks of all hosts would also apply to these hosts.
        host_variables |= {name: _identity_variables(identity) for name, identity in identities_by_name.items()}
        common = {}
    identities = []
    for name in names:
        identity = Naming.naming_of_host(name, {**common, **host_variables.get(name, {})}).identify_broker(name)
        assert identity is not None  # noqa: S101 -- the convention or the variables match the name
        identities.append(identity)
    return _NamedHosts(tuple(identities), common, host_variables)


def _is_address(name: str) -> bool:
    return ":" in name or name.rpartition(".")[2].isdigit()


def _identity_variables(identity: Identity) -> dict[str, str]:
    """Return the variables that give a host its identity, without any naming convention."""
    node = DEFAULT_MASTER_NODE if identity.role == "master" else "b"
    return {"activemq_group": identity.group, "activemq_pair": identity.pair, "activemq_node": node}


def _best_naming_convention(names: Sequence[str]) -> tuple[Naming, dict[str, str]]:
    """Return the naming convention that matches the most names, and the variables of all hosts that set it."""
    default = Naming()
    parsed_names = [name for name in names if _identity_or_none(default, name)]
    proposal = propose_naming(names) if len(parsed_names) < len(names) else None
    if proposal is None or len(proposal.identities) <= len(parsed_names):
        return default, {}
    return proposal.naming, proposal.variables()


def _identity_or_none(naming: Naming, name: str) -> Identity | None:
    try:
        return naming.identify_broker(name)
    except UnparsableBrokerNameError:
        return None


def _pair_name_by_hosts(pairs_and_single_hosts: Iterable[tuple[str, ...]]) -> dict[tuple[str, ...], str]:
    """Return the name of each pair and single host, made of its short host names.

    It is made of the whole host names if the short names are those of two pairs or single hosts.
    """
    short_names = {hosts: _pair_name(map(host_name_without_domain, hosts)) for hosts in pairs_and_single_hosts}
    numbers = Counter(short_names.values())
    return {hosts: name if numbers[name] == 1 else _pair_name(hosts) for hosts, name in short_names.items()}


def _pair_name(names: Iterable[str]) -> str:
    return _INVALID_PAIR_NAME_CHARACTERS.sub("-", "-".join(names)).strip("-")


def _explicit_identity_variables(members: Sequence[str], pair: str) -> dict[str, dict[str, str]]:
    """Return by host the variables of the nodes of a pair, or of a single host, whose names have no group or node."""
    identities = {
        host: {"activemq_group": _DEFAULT_GROUP, "activemq_pair": pair, "activemq_node": node}
        for host, node in zip(members, "ab", strict=False)
    }
    for host, variables in identities.items():
        # The default name of the broker would be an address, or a short host name that another host has, too.
        if _is_address(host) or pair == _pair_name([host]) != host:
            variables["activemq_broker_name"] = pair
    return identities


def _check_fleet(request: InventoryScaffoldRequest, named: _NamedHosts) -> None:
    """Raise InputError for the first error or warning about the topology that the inventory would have."""
    common = {**_common_settings(request, named), **named.common}
    variables = {
        identity.name: {
            **common,
            "activemq_network_username": "network",
            "activemq_network_password": _PASSWORD,
            "activemq_users": [{"name": "app", "groups": ["apps"], "password": _PASSWORD}],
            "activemq_acl": _ACL,
            **_host_variables(named, identity.name),
        }
        for identity in named.identities
    }
    for finding in build_fleet(variables, {}).findings:
        if finding.severity != "info":
            raise InputError(f"{finding.host}: {finding.message_and_fix_sentences}")


def _host_variables(named: _NamedHosts, host: str) -> dict[str, str]:
    """Return the variables of one host: the parts of its identity, and those of a broker without a peer among pairs."""
    standalone = named.standalone_hosts
    is_standalone_among_pairs = host in standalone and len(standalone) < len(named.identities)
    return {**named.host_variables.get(host, {}), **(_STANDALONE if is_standalone_among_pairs else {})}


def _common_settings(request: InventoryScaffoldRequest, named: _NamedHosts) -> dict[str, object]:
    """Return the variables of all hosts whose values are no templates."""
    has_pairs = len(named.standalone_hosts) < len(named.identities)
    profile = {
        "activemq_ha": SHARED_FILE.name,
        "activemq_uid": _ACCOUNT_ID,
        "activemq_gid": _ACCOUNT_ID,
        "activemq_fence": "guard",
        "activemq_watchdog": "kill",
    }
    is_local = {identity.name for identity in named.identities} <= _LOOPBACK_NAMES
    return {
        "activemq_release": request.release,
        **(profile if has_pairs else {**_STANDALONE, "activemq_topology": "none"}),
        "activemq_heap": "1g",
        "activemq_store_limit": "20 gb",
        "activemq_temp_limit": "5 gb",
        "activemq_bind": "127.0.0.1" if is_local else "0.0.0.0",  # noqa: S104 -- clients and peers are on other hosts
        "activemq_console_bind": "127.0.0.1",
        **({"activemq_install": "none", "activemq_home": "/opt/activemq"} if request.archive is None else {}),
    }


def _inventory_file_lines(named: _NamedHosts) -> Iterator[str]:
    yield "---\n"
    yield f"# yaml-language-server: $schema={_SCHEMAS}/inventory.schema.json\n"
    yield "# The brokers by pair. `activemq-fleet names -i .` in this directory shows how it reads each name.\n"
    if any(_host_variables(named, identity.name) for identity in named.identities):
        yield "# The variables of a host set the group, pair and node that its name does not contain.\n"
    yield "all:\n  hosts:\n"
    for pair, members in named.host_identities_by_pair.items():
        is_pair = members[0].name not in named.standalone_hosts
        description = "a pair" if is_pair else "a broker without a peer"
        yield f"    # {pair}: {description}, in group {members[0].group}\n"
        for identity in members:
            variables = _host_variables(named, identity.name)
            comment = " # the preferred master" if is_pair and identity.role == "master" else ""
            yield f"    {_yaml_key(identity.name)}:{comment}\n"
            yield from (f"      {line}\n" for line in split_lines(plain_variables_to_yaml(variables)))


def _yaml_key(host: str) -> str:
    return plain_variables_to_yaml({host: 0}).rpartition(":")[0]


def _variable_lines(request: InventoryScaffoldRequest, named: _NamedHosts) -> Iterator[str]:
    settings = _common_settings(request, named)
    yield "---\n"
    yield f"# yaml-language-server: $schema=../{_SCHEMAS}/variables.schema.json\n"
    yield "# Variables of all brokers. `ansible-doc -t role activemq.fleet.broker` describes every variable.\n\n"
    yield _variable_line(settings, "activemq_release")
    if named.common:
        node = "odd or even number (the node)" if PARITY_VARIABLE in named.common else "number and node"
        yield f"# These variables find the group, {node} in each host name. Check the pairs in hosts.yml.\n"
        order = sorted(named.common, key=lambda name: name != PATTERN_VARIABLE)
        yield plain_variables_to_yaml({name: named.common[name] for name in order})
    yield from _failover_lines(settings)
    yield "\n# Limits of each broker.\n"
    for name in ("activemq_heap", "activemq_store_limit", "activemq_temp_limit"):
        yield _variable_line(settings, name)
    yield from _listener_lines(settings, tls=request.tls)
    yield from _installation_lines(request, settings)
    yield from _account_lines(named)


def _variable_line(settings: Mapping[str, object], name: str, comment: str = "") -> str:
    text = plain_variables_to_yaml({name: settings[name]}).rstrip("\n")
    return f"{text} # {comment}\n" if comment else f"{text}\n"


def _failover_lines(settings: Mapping[str, object]) -> Iterator[str]:
    yield "\n"
    if settings["activemq_ha"] == "none":
        yield _variable_line(settings, "activemq_ha", "no failover: each broker has a separate store")
        yield _variable_line(settings, "activemq_fence", "no fence, because the brokers share no store")
        yield _variable_line(settings, "activemq_watchdog", "a hung broker is reported and not killed")
        yield _variable_line(settings, "activemq_topology", "no links: a message stays at the broker that accepted it")
        return
    yield "# The nodes of a pair share one store. Mount it on both nodes at /srv/activemq/PAIR.\n"
    yield "# `activemq-fleet help shared-stores` describes how to mount a shared store.\n"
    yield _variable_line(settings, "activemq_ha")
    yield _variable_line(
        settings, "activemq_uid", "user id of the broker's account: the same on both nodes, which share a store"
    )
    yield _variable_line(settings, "activemq_gid", "group id of the broker's account")
    yield _variable_line(
        settings, "activemq_fence", "a node that resumes after a freeze cannot write into the store of its peer"
    )
    yield _variable_line(settings, "activemq_watchdog", "a hung broker is killed, so that its peer takes over")


def _listener_lines(settings: Mapping[str, object], *, tls: bool) -> Iterator[str]:
    yield "\n# Listeners.\n"
    yield _variable_line(settings, "activemq_bind")
    yield _variable_line(
        settings, "activemq_console_bind", "address of the web console: connect to it through an SSH tunnel"
    )
    if not tls:
        yield "# The network transports passwords and messages in clear text unless you set activemq_tls.\n"
        yield "# `activemq-fleet init --tls` writes an inventory with activemq_tls.\n"
        return
    yield (
        "# Provide the key store and trust store on each host. Connectors and links keep their ports when they use "
        "TLS.\n"
    )
    yield "activemq_tls:\n"
    for store, path in (("keystore", "broker"), ("truststore", "ca")):
        yield f"  {store}: /etc/activemq/{path}.p12\n"
        yield f"  {store}_password: {_password_lookup(store)}\n"


def _installation_lines(request: InventoryScaffoldRequest, settings: Mapping[str, object]) -> Iterator[str]:
    yield "\n# The playbooks require root. If Ansible connects with another account, remove the # of the next line.\n"
    yield "# ansible_become: true\n"
    if request.archive is not None:
        yield "# The archive of the release, on the controller. The playbook `site` installs it on the hosts.\n"
        yield plain_variables_to_yaml({
            "activemq_install": "archive",
            "activemq_archive": request.archive,
            "activemq_archive_sha512": request.sha512,
        })  # fmt: skip
        return
    yield (
        "# The release is already installed on the hosts, in activemq_home. If the playbook `site` is to install it,\n"
        "# remove the line `activemq_install: none`, remove the # of the next 2 lines, and set the path of the\n"
        "# archive on the controller (or its URL) and its checksum from Apache:\n"
        f"# activemq_archive: /srv/software/apache-activemq-{request.release}-bin.tar.gz\n"
        "# activemq_archive_sha512: CHECKSUM\n"
    )
    yield _variable_line(settings, "activemq_install")
    yield _variable_line(settings, "activemq_home", "the directory of the release, or a link to it")


def _account_lines(named: _NamedHosts) -> Iterator[str]:
    yield (
        "\n# Accounts. Ansible makes each password at first use, as a file in .secrets/, which git ignores. Without\n"
        "# this directory, such as in the clone of a colleague, Ansible makes new passwords, and the playbook `site`\n"
        "# deploys them: clients with the old password are rejected. Before a second person runs `site`, encrypt the\n"
        "# passwords:\n"
        "#   ansible-vault encrypt_string --name activemq_network_password\n"
        "# or take them from the environment:\n"
        "#   activemq_network_password: \"{{ lookup('ansible.builtin.env', 'ACTIVEMQ_NETWORK_PASSWORD') }}\"\n"
    )
    if len(named.host_identities_by_pair) > 1 and len(named.standalone_hosts) < len(named.identities):
        yield "activemq_network_username: network # the account of the links between brokers\n"
        yield f"activemq_network_password: {_password_lookup('network')}\n"
    yield (
        "activemq_users: # the accounts of clients\n"
        "  - name: app\n"
        "    groups: [apps]\n"
        f"    password: {_password_lookup('app')}\n"
        "  # The web console and Jolokia accept only accounts of the group admins. To log in there, activate this\n"
        "  # account, and give the group rights in activemq_acl, such as read: [apps, admins]:\n"
        "  # - name: admin\n"
        "  #   groups: [admins]\n"
        f"  #   password: {_password_lookup('admin')}\n"
        "\n# What the groups of accounts may do. Accounts of links and agents get the rights that they need.\n"
        "activemq_acl:\n"
        + "".join(
            f'  - {{destination: ">", kind: {entry["kind"]}, read: apps, write: apps, admin: apps}}\n' for entry in _ACL
        )
        + '\nsecrets: "{{ inventory_dir }}/.secrets"\n'
    )


def _password_lookup(name: str) -> str:
    lookup = f"lookup('ansible.builtin.password', secrets ~ '/{name}', length=24, chars=['ascii_letters', 'digits'])"
    return f'"{{{{ {lookup} }}}}"'
