"""What is read once for many groups says of each of them what its own variables say."""

from __future__ import annotations

import json
from typing import Any

import pytest

from activemq_fleet.pipeline.plan import facts, saying
from activemq_fleet.pipeline.plan.facts import Kin, kin_of_text
from activemq_fleet.pipeline.plan.kinds import is_kind, marked, named, words_in
from activemq_fleet.pipeline.plan.records import read_record
from activemq_fleet.pipeline.plan.saying import Said, said, said_with

USUAL = {
    "activemq_release": "5.18.3",
    "activemq_users": [{"name": "app-@G", "password": "long enough"}, {"name": "other", "password": "long enough"}],
}
JDBC = {"url": "jdbc:x://db/@P?a=@G", "driver": "org.x.Driver", "username": "amq", "password": "only-jdbc"}
VARIABLES: list[dict[str, Any]] = [
    {},
    {"activemq_acl": [{"destination": "@G.>", "kind": "queue", "read": ["a"]}, {"destination": "@P", "kind": "topic"}]},
    {"activemq_links": [{"from": "@G", "to": "x", "include": ["queue://@G.>", "@G"], "exclude": ["topic://@P"]}]},
    {"activemq_links": [{"from": "@P", "to": "@G", "name": "@G"}]},
    {"activemq_links": [{"from": "@G", "to": "x", "include": ["@G://x"]}]},
    {"activemq_ha": "shared-jdbc", "activemq_jdbc": JDBC},
    {"activemq_ha": "shared-jdbc", "activemq_jdbc": JDBC | {"username": "@G"}},
    {"activemq_ha": "shared-jdbc", "activemq_jdbc": JDBC | {"url": "@G:x"}},
    {"activemq_ha": "shared-jdbc", "activemq_jdbc": JDBC | {"url": "@P"}},
    {"activemq_extra_files": [{"path": "conf/motd", "content": "@G\n@P\n\u00e9\\@G\t@G"}]},
    {"activemq_extra_files": [{"path": "conf/motd", "content": "tcp://@P-a:61616 multicast://default?group=@G"}]},
    {"activemq_extra_files": [{"path": "conf/@G", "content": "@G"}]},
    {"activemq_java_options": ["-Dx=@P-a:61616"]},
    {"activemq_environment": "@G"},
    {"activemq_store_directory": "/srv/@P"},
    {"activemq_users": [{"name": "@G", "password": "admin"}]},
    {"activemq_users": [{"name": "@G", "password": "password"}, {"name": "@G", "password": "long enough"}]},
    {"activemq_users": [{"name": "@P", "password": "long enough"}, {"name": "@G-mq01", "password": "long enough"}]},
    {"activemq_users": [{"name": "a @G", "password": "long enough"}]},
    {"activemq_users": [{"name": "app", "password": {"__ansible_vault": "@G"}, "groups": ["@G"]}]},
    {"activemq_users": "@G"},
    {"activemq_acl": ["@G", {"destination": 5, "kind": "@G"}]},
    {"activemq_broker_attributes": {"@G": "x", "useJmx": "@G"}},
    {"activemq_heap": "@G"},
    {"activemq_heap": "1g", "activemq_master_node": "b", "activemq_naming_pattern": "^(@G)-mq"},
    {"activemq_connectors": [{"name": "@G", "scheme": "tcp", "port": 61616}]},
    {"activemq_release": "5.2"},
    {"activemq_release": "@G"},
    {"activemq_@G": "1g", "activemq_x_@G": 1, "@G_heap": 1, "activemq_identity": {"group": "@G"}},
    {"activemq_waivers": [{"rule": "L001", "reason": "@G", "hosts": ["@G*"]}]},
    {"activemq_agent_group": "@G"},
    {"activemq_vip": "@G.example.com"},
]
GROUPS = (
    "orders", "orders-2", "a", "mq", "activemq", "active", "admin", "user", "system", "queue", "topic", "jdbc", "true",
    "console", "replication", "vault", "ansible", "x", "fade", "e5", "n", "u00e9", "qzzzzzzzx", "jzzzzzzzk", "zzz",
    "name", "heap", "release", "target", "Orders", "5", "long", "x-mq01", "orders.eu", "gr\u00fcn", "conf", "password",
)  # fmt: skip


def written(variables: dict[str, Any], group: str) -> str:
    return json.dumps(USUAL | variables).replace("@G", group).replace("@P", f"{group}-mq01")


def all_of(found: Said) -> tuple[Any, ...]:
    settings = found.settings
    fields = settings and (settings.model_fields_set, [entry.model_fields_set for entry in settings.users])
    rest = found.problems, found.release, found.links, found.waivers, found.dialled, found.announced
    return settings, fields, *rest


@pytest.fixture(autouse=True)
def forgotten() -> None:
    for known in (said_with, saying._kind, facts._kind, facts._kin_with):
        known.cache_clear()


@pytest.mark.parametrize("variables", VARIABLES, ids=str)
def test_a_text_says_the_same_whether_its_kind_is_known_or_not(variables: dict[str, Any]) -> None:
    for group in GROUPS:
        text = Kin.of(read_record(json.dumps({"host": "x", "variables": written(variables, group)})).variables).text

        assert all_of(said(text, f"{group}-mq01-a.example.com")) == all_of(saying._said(text)), group


@pytest.mark.parametrize("variables", VARIABLES, ids=str)
def test_a_line_has_the_same_variables_whether_its_kind_is_known_or_not(variables: dict[str, Any]) -> None:
    for group in GROUPS:
        text = written(variables, group)
        wanted = Kin.of(read_record(json.dumps({"host": "x", "variables": text})).variables)

        found = kin_of_text(text, f"{group}-mq01-a.example.com")

        assert found is not None
        assert (found.text, found.pattern, found.letter) == (wanted.text, wanted.pattern, wanted.letter), group


def test_groups_and_pairs_that_differ_in_their_names_are_read_once() -> None:
    variables = {"activemq_ha": "shared-jdbc", "activemq_jdbc": JDBC}
    for group in ("orders", "paid"):
        for pair in ("mq01", "mq02"):
            text = written(variables, group).replace("mq01", pair)
            kin = kin_of_text(text, f"{group}-{pair}-a")
            assert kin is not None
            said(kin.text, f"{group}-{pair}-a")

    assert facts._kind.cache_info().misses == saying._kind.cache_info().misses == 1


def test_no_word_is_marked_that_could_be_another() -> None:
    words = words_in('{"a": "orders-mq01 orders"}', "orders-mq01-a.example.com")

    assert words == ("orders-mq01", "orders")
    assert marked("orders-mq01 orders", words) == "qzzzzzzzx jzzzzzzzk"
    assert marked("orders qzzzzzzzx", words) is None
    assert named("qzzzzzzzx jzzzzzzzk", words) == "orders-mq01 orders"
    assert words_in('{"a": "active-mq01"}', "active-mq01-a") == ("active-mq01",)


def test_marks_count_only_where_names_do_not_matter() -> None:
    text = '{"activemq_users": [{"name": "qzzzzzzzx"}], "activemq_heap": "qzzzzzzzx"}'

    assert not is_kind(text, json.loads(text))
    assert is_kind(text.replace("heap", "users"), {"activemq_users": [{"name": "qzzzzzzzx"}, {"name": "qzzzzzzzx"}]})
