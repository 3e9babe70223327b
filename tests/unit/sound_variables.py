"""Variables that are right, to be set together at random."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

TLS = {"keystore": "/k", "keystore_password": "k", "truststore": "/t", "truststore_password": "t"}
JDBC = {"url": "jdbc:x://db/x?a=b&c=d", "driver": "org.x.Driver", "jar": "/x.jar", "username": "u", "password": "p"}
ODD = "a<b>&\"c'-- é\\%d"


def any_of(*values: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from(values)


def lists(*values: Any) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.sampled_from(values), max_size=3, unique_by=str)


# Each of these alone is right, and nearly all of them together.
SOUND: dict[str, st.SearchStrategy[Any]] = {
    "address": any_of("::1", "10.0.0.1", "mq.example.com"),
    "bind": any_of("::", "127.0.0.1"),
    "broker_name": any_of("one", "Two.b"),
    "store_directory": any_of("/srv/x", "/", "/home/x"),
    "lock_acquire_interval": st.integers(100, 9999),
    "lock_keepalive_interval": st.integers(100, 9999),
    "discovery": any_of("masterslave", "failover", "static", "multicast"),
    "topology": any_of("hub", "ring", "chain", "none"),
    "multicast_interface": any_of("eth0"),
    "network_ttl": st.integers(1, 9),
    "links": lists(
        {"from": "a", "to": "b", "duplex": True, "include": ["queue://a.>", "topic://b.*"]},
        {"from": "b", "to": "a-mq01", "exclude": ["a"], "ttl": 2},
        {"from": "a-mq01", "to": "b", "name": "over", "include": ["x"], "exclude": ["y", "topic://z"]},
    ),
    "pair_links": any_of("static"),
    "connectors": lists(
        {"name": "one", "scheme": "tcp", "port": 999},
        {"name": "two", "scheme": "stomp", "port": 61613, "options": {}},
        {"name": "three", "scheme": "nio", "port": 61617, "options": {"a.b": 1, "c": True}},
    ),
    "port_offset": st.integers(0, 9),
    "console": st.booleans(),
    "console_bind": any_of("::1", "0.0.0.0"),
    "console_port": st.integers(1000, 9999),
    "users": lists(
        {"name": "ann", "password": ODD, "groups": ["admins", "x"]},
        {"name": "bob@x", "password": "OBF", "groups": []},
        {"name": "cy", "password": " #!=", "groups": "users"},
    ),
    "acl": lists(
        {"destination": "a.>", "kind": "queue", "read": ["x", "admins"], "write": "x"},
        {"destination": ">", "kind": "topic", "admin": ["admins"]},
    ),
    "tls": any_of(TLS, TLS | {"client_auth": True}),
    "jdbc": any_of(JDBC),
    "memory_limit": any_of("10 mb", "1gb"),
    "store_limit": any_of("10 gb"),
    "broker_attributes": st.dictionaries(any_of("useJmx", "x"), any_of("true", ODD, 1, "${activemq.data}/x")),
    "xml_fragments": any_of([{"parent": "broker", "xml": "<plugins><x y='1'/></plugins>"}]),
    "extra_files": any_of([{"path": "conf/x", "content": ODD}]),
    "install": any_of("archive", "package", "none"),
    "user": any_of("mq"),
    "home": any_of("/opt/x", "/home/x"),
    "base": any_of("/x", "/"),
    "instance": any_of("two"),
    "heap": any_of("4g", "1k"),
    "java_home": any_of("/opt/jdk"),
    "java_options": lists("-Da=b", "-Xss1m"),
    "agent_topics": any_of("a/+/b,#"),
    "agent_client_id": any_of("x"),
    "agent_tls_ca": any_of("/ca"),
}  # fmt: skip
