"""Inventories as nobody should write them: sound ones with other hosts and other variables."""

from __future__ import annotations

import string
from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from activemq_fleet.settings.host_settings import PREFIX
from activemq_fleet.settings.variable_validation import KNOWN
from tests.unit.element_inputs import VARIABLES

Hosts = dict[str, dict[str, Any]]

MARKS = [
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
    st.sampled_from(MARKS),
    st.builds("{}{}{}".format, st.text(string.ascii_letters, max_size=4), st.sampled_from(MARKS), st.text(max_size=3)),
)
anything = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), texts, st.dates()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=5,
)


def mostly(*likely: Any) -> st.SearchStrategy[Any]:
    """One of these, and now and then text with a mark in it."""
    return st.integers(0, 7).flatmap(lambda chance: st.sampled_from(likely) if chance else texts)


def objects(optional: Mapping[str, st.SearchStrategy[Any]] | None = None, **needed: Any) -> st.SearchStrategy[Any]:
    return st.lists(st.fixed_dictionaries(needed, optional=dict(optional or {})), max_size=3)


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
NAMES = mostly("one", "two", "openwire", "A.b-c")
LISTS = st.lists(mostly("orders.>", "queue://a", "topic://b.*", "events/#"), max_size=2)
PATHS = mostly("/srv/x", "/srv/x/", "/opt/../etc", "relative")
PLAUSIBLE: dict[str, st.SearchStrategy[Any]] = {
    "release": mostly(*RELEASES),
    "ha": mostly("pure", "shared-file", "shared-jdbc", "none"),
    "address": mostly("10.0.0.1", "::1", "[::1]", "mq.example.com", "fe80::1%eth0", "bad_name", "x.1"),
    "bind": mostly("0.0.0.0", "::", "127.0.0.1", "localhost"),
    "console_bind": mostly("127.0.0.1", "::1"),
    "broker_name": NAMES,
    "store_directory": PATHS,
    "base": PATHS,
    "home": PATHS,
    "java_home": PATHS,
    "discovery": mostly("masterslave", "failover", "static", "multicast"),
    "topology": mostly("mesh", "hub", "ring", "chain", "none"),
    "environment": NAMES,
    "multicast_interface": mostly("eth0", "lo"),
    "port_offset": st.integers(-1, 70000),
    "console_port": st.integers(0, 70000),
    "console": st.booleans(),
    "pair_links": mostly("none", "static"),
    "network_username": mostly("net", "me@x"),
    "network_password": texts,
    "network_ttl": st.integers(0, 101),
    "memory_limit": mostly("10 mb", "1gb"),
    "heap": mostly("512m", "4g", "1k"),
    "instance": mostly("activemq", "two"),
    "java_options": st.lists(mostly("-Da=b", "-XX:+UseG1GC", "-Dx=$HOME"), max_size=2),
    "connectors": objects(
        {"options": st.dictionaries(mostly("maximumConnections", "transport.x"), mostly("1", 2, True), max_size=2)},
        name=NAMES,
        scheme=mostly(*SCHEMES),
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
        **{"from": mostly(*UNITS), "to": mostly(*UNITS)},
    ),
    "users": objects({"groups": LISTS}, name=NAMES, password=texts),
    "acl": objects({"read": LISTS, "write": LISTS}, destination=mostly("a.>", ">"), kind=mostly("queue", "topic")),
    "jdbc": st.fixed_dictionaries(
        {
            "url": mostly("jdbc:postgresql://db/x?a=b&c=d", "jdbc:x;y"),
            "driver": mostly("org.postgresql.Driver", "a.b²"),
            "username": NAMES,
            "password": texts,
        }
    ),
    "tls": st.fixed_dictionaries(
        {"keystore": PATHS, "keystore_password": texts, "truststore": PATHS, "truststore_password": texts},
        optional={"client_auth": st.booleans()},
    ),
    "broker_attributes": st.dictionaries(
        mostly("persistent", "useJmx", "brokerName", "vmConnectorURI", "schedulerSupport", "x²", "xmlns"),
        mostly("true", "${activemq.data}/x", 1, False),
        max_size=2,
    ),
    "xml_fragments": objects(
        parent=mostly("broker", "broker/plugins", "beans", "broker/no/such"),
        xml=mostly(
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
    "extra_files": objects(path=mostly("conf/x.xml", "../x", "conf/activemq.xml/x", "conf", "a/b/c"), content=texts),
    **VARIABLES,
    "waivers": objects(rule=mostly("T013", "T002", "T006", "T008", "T011"), reason=mostly("because")),
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
    st.tuples(st.sampled_from(sorted(KNOWN)), anything),
    st.tuples(st.builds("activemq_{}".format, texts), anything),
)
BASE = {
    "activemq_release": "5.18.3",
    "activemq_network_username": "net",
    "activemq_network_password": "a secret",
}


# Every finding about the topology but the one about names that nobody can dial.
WAIVERS = [{"rule": f"T{number:03d}", "reason": "a test"} for number in range(1, 30) if number != 13]


def pairs(*units: str, domain: str = "example.com") -> Hosts:
    return {f"{unit}-{node}.{domain}": dict(BASE) for unit in units for node in "ab"}


@st.composite
def inventories(draw: st.DrawFn) -> tuple[Hosts, dict[str, list[str]]]:
    """A sound inventory that was tampered with: other hosts, other variables."""
    hosts = pairs("a-mq01", "a-mq02", "b-mq01")
    for name in draw(st.lists(names, max_size=3)):
        hosts[name] = dict(BASE)
    for name, value in draw(st.lists(variables, max_size=4)):
        chosen = draw(st.one_of(st.just(sorted(hosts)), st.lists(st.sampled_from(sorted(hosts)), min_size=1)))
        for host in chosen:
            hosts[host][name] = value
    others = {"app01.example.com": dict(BASE, activemq_agent_group="a", activemq_agent_username="agent",
                                        activemq_agent_password="x")}  # fmt: skip
    grouped = st.lists(st.sampled_from([*sorted(hosts), *others]), max_size=2)
    return {**hosts, **others}, {"activemq_brokers": draw(grouped), "activemq_agents": draw(grouped)}


@st.composite
def mistuned(draw: st.DrawFn) -> Hosts:
    """A sound fleet of four pairs in which one or two variables are set for all; findings are waived."""
    chosen = draw(
        st.lists(st.sampled_from(sorted(PLAUSIBLE.keys() - {"waivers"})), min_size=1, max_size=2, unique=True)
    )
    variables = {PREFIX + name: draw(PLAUSIBLE[name]) for name in chosen}
    return {
        host: {**found, **variables, "activemq_waivers": WAIVERS} for host, found in pairs("a-mq01", "b-mq01").items()
    }
