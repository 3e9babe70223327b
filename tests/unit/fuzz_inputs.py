"""Random inventories: valid ones with additional hosts and changed variables."""

from __future__ import annotations

import string
from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from activemq_fleet.settings.host_settings import PREFIX
from activemq_fleet.settings.variable_validation import KNOWN
from tests.unit.element_inputs import VARIABLES

Hosts = dict[str, dict[str, Any]]

HOSTILE_PARTS = [
    "vm://evil?brokerConfig=xbean:http://evil/x.xml",
    "xbean:http://evil",
    "broker:(tcp://x)",
    "{{ lookup('pipe', 'id') }}",
    "{% raw %}",
    "${java.version}",
    "#{T(java.lang.Runtime)}",
    '" onload="',
    "'",
    "<x/>",
    "&amp;",
    "]]>",
    "-->",
    "--",
    "),vm://evil",
    "fe80::1%),vm://evil,(",
    "\x00",
    "\x1b[31m",
    "\x85",
    "\u2028",
    "\ufffe",
    "\ud800",
    "\r\n",
    "\n[Service]\nUser=root",
    "\t",
    "%n",
    "$(id)",
    "`id`",
    "\\",
    "../../etc",
    "é",
    "x²",
    "\u0660",
]
texts = st.one_of(
    st.text(max_size=12),
    st.sampled_from(HOSTILE_PARTS),
    st.builds(
        "{}{}{}".format, st.text(string.ascii_letters, max_size=4), st.sampled_from(HOSTILE_PARTS), st.text(max_size=3)
    ),
)
any_value = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), texts, st.dates()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=5,
)


def choice_or_text(*choices: Any) -> st.SearchStrategy[Any]:
    """Return a strategy for these values, and occasionally for a text with a hostile part."""
    return st.integers(0, 7).flatmap(lambda chance: st.sampled_from(choices) if chance else texts)


def objects(optional: Mapping[str, st.SearchStrategy[Any]] | None = None, **required: Any) -> st.SearchStrategy[Any]:
    return st.lists(st.fixed_dictionaries(required, optional=dict(optional or {})), max_size=3)


UNITS = ("a", "b", "a-mq01", "a-mq02", "b-mq01")
SCHEMES = (
    "tcp",
    "nio",
    "ssl",
    "nio+ssl",
    "auto",
    "amqp",
    "mqtt",
    "mqtt+nio",
    "stomp",
    "stomp+nio",
    "ws",
    "wss",
    "http",
)
RELEASES = ("5.5.1", "5.6.0", "5.7.0", "5.8.0", "5.11.4", "5.15.16", "5.18.3", "6.2.7", "6.3.1")
NAMES = choice_or_text("one", "two", "openwire", "A.b-c")
LISTS = st.lists(choice_or_text("orders.>", "queue://a", "topic://b.*", "events/#"), max_size=2)
PATHS = choice_or_text("/srv/x", "/srv/x/", "/opt/../etc", "relative")
PLAUSIBLE: dict[str, st.SearchStrategy[Any]] = {
    "release": choice_or_text(*RELEASES),
    "ha": choice_or_text("pure", "shared-file", "shared-jdbc", "none"),
    "address": choice_or_text("10.0.0.1", "::1", "[::1]", "mq.example.com", "fe80::1%eth0", "bad_name", "x.1"),
    "bind": choice_or_text("0.0.0.0", "::", "127.0.0.1", "localhost"),
    "console_bind": choice_or_text("127.0.0.1", "::1"),
    "broker_name": NAMES,
    "store_directory": PATHS,
    "base": PATHS,
    "home": PATHS,
    "java_home": PATHS,
    "discovery": choice_or_text("masterslave", "failover", "static", "multicast"),
    "topology": choice_or_text("mesh", "hub", "ring", "chain", "none"),
    "environment": NAMES,
    "multicast_interface": choice_or_text("eth0", "lo"),
    "port_offset": st.integers(-1, 70000),
    "console_port": st.integers(0, 70000),
    "console": st.booleans(),
    "pair_links": choice_or_text("none", "static"),
    "network_username": choice_or_text("net", "me@x"),
    "network_password": texts,
    "network_ttl": st.integers(0, 101),
    "memory_limit": choice_or_text("10 mb", "1gb"),
    "heap": choice_or_text("512m", "4g", "1k"),
    "instance": choice_or_text("activemq", "two"),
    "java_options": st.lists(choice_or_text("-Da=b", "-XX:+UseG1GC", "-Dx=$HOME"), max_size=2),
    "connectors": objects(
        {
            "options": st.dictionaries(
                choice_or_text("maximumConnections", "transport.x"), choice_or_text("1", 2, True), max_size=2
            )
        },
        name=NAMES,
        scheme=choice_or_text(*SCHEMES),
        port=st.one_of(st.integers(1, 65535), st.integers()),
    ),
    "links": objects(
        {
            "duplex": st.booleans(),
            "name": NAMES,
            "include": LISTS,
            "exclude": LISTS,
            "ttl": st.integers(0, 5),
        },
        **{"from": choice_or_text(*UNITS), "to": choice_or_text(*UNITS)},
    ),
    "users": objects({"groups": LISTS}, name=NAMES, password=texts),
    "acl": objects(
        {"read": LISTS, "write": LISTS}, destination=choice_or_text("a.>", ">"), kind=choice_or_text("queue", "topic")
    ),
    "jdbc": st.fixed_dictionaries(
        {
            "url": choice_or_text("jdbc:postgresql://db/x?a=b&c=d", "jdbc:x;y"),
            "driver": choice_or_text("org.postgresql.Driver", "a.b²"),
            "username": NAMES,
            "password": texts,
        }
    ),
    "tls": st.fixed_dictionaries(
        {"keystore": PATHS, "keystore_password": texts, "truststore": PATHS, "truststore_password": texts},
        optional={"client_auth": st.booleans()},
    ),
    "broker_attributes": st.dictionaries(
        choice_or_text("persistent", "useJmx", "brokerName", "vmConnectorURI", "schedulerSupport", "x²", "xmlns"),
        choice_or_text("true", "${activemq.data}/x", 1, False),
        max_size=2,
    ),
    "xml_fragments": objects(
        parent=choice_or_text("broker", "broker/plugins", "beans", "broker/no/such"),
        xml=choice_or_text(
            '<plugins><timeStampingBrokerPlugin ttlCeiling="1"/></plugins>',
            "<bean xmlns='http://www.springframework.org/schema/beans'/>",
            '<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><x>&e;</x>',
            "<x>&e;</x>",
            "<x>",
            "text",
            "<?xml version='1.0'?><x/>",
            "<!--x--><x/>",
        ),
    ),
    "extra_files": objects(
        path=choice_or_text("conf/x.xml", "../x", "conf/activemq.xml/x", "conf", "a/b/c"), content=texts
    ),
    **VARIABLES,
    "waivers": objects(rule=choice_or_text("T013", "T002", "T006", "T008", "T011"), reason=choice_or_text("because")),
}
assert PLAUSIBLE.keys() <= {name.removeprefix(PREFIX) for name in KNOWN}

labels = st.one_of(
    st.sampled_from(("a-mq01-a", "a-mq01-b", "a-mq02-a", "a-mq02-b", "b-mq01-a", "b-mq01-b")),
    st.builds("{}-mq{}-{}".format, texts, st.integers(0, 99), st.sampled_from("abc")),
    texts,
)
domains = st.one_of(st.just(""), st.just(".example.com"), st.builds(".{}".format, texts))
names = st.builds("{}{}".format, labels, domains)
variables = st.one_of(
    st.sampled_from(sorted(PLAUSIBLE)).flatmap(lambda name: st.tuples(st.just(PREFIX + name), PLAUSIBLE[name])),
    st.tuples(st.sampled_from(sorted(KNOWN)), any_value),
    st.tuples(st.builds("activemq_{}".format, texts), any_value),
)
BASE = {
    "activemq_release": "5.18.3",
    "activemq_network_username": "net",
    "activemq_network_password": "a secret",
}


# All rules about the topology except T013, about host names to which no client can connect.
WAIVERS = [{"rule": f"T{number:03d}", "reason": "a test"} for number in range(1, 30) if number != 13]


def pairs(*units: str, domain: str = "example.com") -> Hosts:
    return {f"{unit}-{node}.{domain}": dict(BASE) for unit in units for node in "ab"}


@st.composite
def inventories(draw: st.DrawFn) -> tuple[Hosts, dict[str, list[str]]]:
    """Generate a valid inventory with additional hosts and changed variables, and its groups."""
    hosts = pairs("a-mq01", "a-mq02", "b-mq01")
    for name in draw(st.lists(names, max_size=3)):
        hosts[name] = dict(BASE)
    for name, value in draw(st.lists(variables, max_size=4)):
        hosts_with_variable = draw(
            st.one_of(st.just(sorted(hosts)), st.lists(st.sampled_from(sorted(hosts)), min_size=1))
        )
        for host in hosts_with_variable:
            hosts[host][name] = value
    agent_hosts = {"app01.example.com": dict(BASE, activemq_agent_group="a", activemq_agent_username="agent",
                                        activemq_agent_password="x")}  # fmt: skip
    group_members = st.lists(st.sampled_from([*sorted(hosts), *agent_hosts]), max_size=2)
    return {**hosts, **agent_hosts}, {"activemq_brokers": draw(group_members), "activemq_agents": draw(group_members)}


@st.composite
def inventories_with_changed_variables(draw: st.DrawFn) -> Hosts:
    """Generate a fleet of two pairs in which one or two variables are set for all hosts; its findings are waived."""
    chosen = draw(
        st.lists(st.sampled_from(sorted(PLAUSIBLE.keys() - {"waivers"})), min_size=1, max_size=2, unique=True)
    )
    variables = {PREFIX + name: draw(PLAUSIBLE[name]) for name in chosen}
    return {
        host: {**host_variables, **variables, "activemq_waivers": WAIVERS}
        for host, host_variables in pairs("a-mq01", "b-mq01").items()
    }
