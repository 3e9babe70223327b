"""Filter and test plugins: each validates its input, calls the library, and names itself in errors."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable
from typing import Any

import pytest
from ansible.errors import AnsibleError, AnsibleFilterError
from ansible_collections.activemq.fleet.plugins.plugin_utils.library import COLLECTION_VERSION

import activemq_fleet

PLUGINS = "ansible_collections.activemq.fleet.plugins"
A, B = "orders-mq01-a.example.com", "orders-mq01-b.example.com"
BROKER = {"host": A, "address": "mq.example.com", "ports": {"openwire": 61626, "mqtt": 1893}}


def plugin_function(kind: str, name: str) -> Callable[..., Any]:
    module = importlib.import_module(f"{PLUGINS}.{kind}.{name}")
    functions_by_name = module.FilterModule().filters() if kind == "filter" else module.TestModule().tests()
    assert list(functions_by_name) == [name]
    return functions_by_name[name]  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("name", "arguments", "result"),
    [
        ("mb_urls", ([A, B],), f"{A}:1883,{B}:1883"),
        ("mb_urls", ([A, f"{B}:1893"],), f"{A}:1883,{B}:1893"),
        ("mb_urls", ([BROKER],), "mq.example.com:1893"),
        ("mb_urls", (["::1", "[::1]:1893"],), "[::1]:1883,[::1]:1893"),
        ("mb_urls", (f"{A}, {B}",), f"{A}:1883,{B}:1883"),
        (
            "failover_uri",
            ([A, B],),
            f"failover:(tcp://{A}:61616,tcp://{B}:61616)?initialReconnectDelay=100&maxReconnectDelay=2000",
        ),
        ("failover_uri", ([BROKER], {"randomize": "false"}), "failover:(tcp://mq.example.com:61626)?randomize=false"),
        (
            "failover_uri",
            ([A], None, "nio+ssl"),
            f"failover:(ssl://{A}:61616)?initialReconnectDelay=100&maxReconnectDelay=2000",
        ),
        (
            "bridge_uri",
            ([A, B], "5.5.1"),
            f"static:(failover:(tcp://{A}:61616,tcp://{B}:61616)?randomize=false&maxReconnectAttempts=1"
            "&startupMaxReconnectAttempts=2&initialReconnectDelay=500)"
            "?maxReconnectDelay=2000",
        ),
        ("bridge_uri", ([A, B], "6.3.1"), f"masterslave:(tcp://{A}:61616,tcp://{B}:61616)?maxReconnectDelay=2000"),
        (
            "bridge_uri",
            ([A, B], "5.18.3", "static"),
            f"static:(tcp://{A}:61616,tcp://{B}:61616)?maxReconnectDelay=2000",
        ),
    ],
)
def test_filter_returns_output_of_library(name: str, arguments: tuple[Any, ...], result: str) -> None:
    assert plugin_function("filter", name)(*arguments) == result


def test_filter_identity_returns_parts_of_host_name() -> None:
    assert plugin_function("filter", "identity")(B) == {
        "group": "orders",
        "number": "01",
        "node": "b",
        "pair": "orders-mq01",
        "role": "slave",
        "domain": "example.com",
    }


def test_filter_identity_accepts_pattern_and_master_node() -> None:
    pattern = r"^(?P<group>\w+)-mq(?P<number>\d+)-(?P<node>[12])$"
    assert plugin_function("filter", "identity")("orders-mq01-2", pattern, "2")["role"] == "master"


FACTS: dict[str, dict[str, Any]] = {"web01": {}, A: {"state": {"skipped": True}}, B: {"state": {"hosts": [A]}}}


@pytest.mark.parametrize(
    ("play", "hosts"),
    [("configure", [A]), ("roll", [B]), ("verify", ["all", "!all"]), ("mark", ["all", "!all"])],
)
def test_filter_hosts_of_play_finds_result_that_contains_hosts(play: str, hosts: list[str]) -> None:
    compiled = {"__activemq_site": {"plays": {"configure": [A], "run": [A, B]}}}
    rolled = {"__activemq_start_plan": {"batches": {B: [B]}, "hosts": [B], "verify": []}}
    hosts_of_play = plugin_function("filter", "hosts_of_play")
    assert hosts_of_play({"web01": {}, A: compiled | rolled, B: compiled}, play) == hosts
    assert hosts_of_play({}, play) == ["all", "!all"]


def test_units_are_installed_on_hosts_with_changed_files_or_service() -> None:
    compiled = {"__activemq_site": {"plays": {"run": [A, B]}}}
    complete = {
        "__activemq_installed_configuration": {"changed": False},
        "__activemq_machine_facts": {"service_changes": []},
    }
    hosts_of_play = plugin_function("filter", "hosts_of_play")
    variables = {A: compiled | complete, B: compiled | complete}
    assert hosts_of_play(variables, "units") == ["all", "!all"]
    assert hosts_of_play(
        variables | {B: complete | {"__activemq_installed_configuration": {"changed": True}}}, "units"
    ) == [B]
    assert hosts_of_play(
        variables | {B: complete | {"__activemq_machine_facts": {"service_changes": ["x"]}}}, "units"
    ) == [B]
    assert hosts_of_play({A: compiled, B: compiled}, "units") == [A, B]


def test_filter_facts_by_host_omits_host_without_fact() -> None:
    facts = plugin_function("filter", "facts_by_host")([B, A, "web01"], FACTS, "state")
    assert list(facts.items()) == [(B, {"hosts": [A]}), (A, {"skipped": True})]


def test_run_once_result_is_read_from_any_host() -> None:
    run_once_result = plugin_function("filter", "run_once_result")
    assert run_once_result(FACTS, "state", "hosts", {"hosts": []}) == {"hosts": [A]}
    assert run_once_result(FACTS, "state", "claims", {"hosts": []}) == {"hosts": []}


def test_jndi_properties_contain_failover_uri() -> None:
    lines = plugin_function("filter", "jndi_properties")([A, B], "orders").splitlines()
    assert lines[0].startswith("# Java clients of group orders")
    assert (
        f"java.naming.provider.url=failover:(tcp://{A}:61616,tcp://{B}:61616)?initialReconnectDelay=100&maxReconnectDelay=2000"
        in lines
    )


@pytest.mark.parametrize(("name", "master", "slave"), [(A, True, False), (B, False, True), ("web01", False, False)])
def test_ansible_test_plugins_use_preferred_role(name: str, master: bool, slave: bool) -> None:
    assert plugin_function("test", "master")(name) is master
    assert plugin_function("test", "slave")(name) is slave


@pytest.mark.parametrize(
    ("kind", "name", "arguments", "message"),
    [
        ("filter", "identity", ("web01",), "does not match activemq_naming_pattern"),
        (
            "filter",
            "identity",
            (3,),
            "the input of the filter activemq.fleet.identity is of type int, but it must be a host name",
        ),
        ("filter", "identity", (A, "("), "is not a valid regular expression"),
        ("filter", "mb_urls", ([],), "the list of brokers is empty"),
        ("filter", "mb_urls", (7,), "pass a list of addresses"),
        ("filter", "mb_urls", ({"address": A},), "pass a list of addresses"),
        (
            "filter",
            "mb_urls",
            (["a_b"],),
            "entry 0 of the list of brokers (counted from 0): the host name 'a_b' contains an underscore",
        ),
        (
            "filter",
            "mb_urls",
            ([A, "b:99999"],),
            "entry 1 of the list of brokers (counted from 0): the port in the address 'b:99999' is not valid",
        ),
        (
            "filter",
            "mb_urls",
            ([{"address": A, "ports": {"openwire": 61616}}],),
            "has no port for the connector mqtt: add mqtt with its port",
        ),
        ("filter", "mb_urls", ([3],), "the broker '3' is neither text nor a mapping: write HOST:PORT"),
        ("filter", "failover_uri", (["vm://x"],), "entry 0 of the list of brokers (counted from 0): "),
        ("filter", "bridge_uri", ([A], "4.1"), "4.1"),
        ("filter", "bridge_uri", ([A], "5.5.1", "masterslave"), "does not support masterslave: URIs"),
        ("filter", "bridge_uri", ([A], "6.3.1", "vm"), "bridge_uri cannot build a URI of the kind vm"),
        ("filter", "jndi_properties", ([A], "orders\nevil=1"), "but it must be one line of text"),
        (
            "test",
            "master",
            (None,),
            "the input of the test activemq.fleet.master is of type NoneType, but it must be a host name",
        ),
    ],
)
def test_invalid_input_of_plugin_is_single_line_error_with_plugin_and_input(
    kind: str, name: str, arguments: tuple[Any, ...], message: str
) -> None:
    with pytest.raises(AnsibleFilterError) as caught:
        plugin_function(kind, name)(*arguments)
    assert str(caught.value).startswith(f"activemq.fleet.{name}: ")
    assert message in str(caught.value)
    assert str(arguments[0])[:20] in str(caught.value)
    assert "\n" not in str(caught.value)


def test_plugin_without_library_reports_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "activemq_fleet"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [_LibraryHidingFinder(), *sys.meta_path])
    with pytest.raises(AnsibleError, match=r"does not have it\. To correct this, install the wheel of a release"):
        plugin_function("filter", "mb_urls")([A])


@pytest.mark.parametrize("version", ["0.0.9", "9.0.0"])
def test_library_of_different_version_is_error_with_both_versions(
    version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(activemq_fleet, "__version__", version)
    with pytest.raises(
        AnsibleError, match=rf"has version {re.escape(COLLECTION_VERSION)} .* version {version} .*wheel"
    ):
        plugin_function("filter", "mb_urls")([A])


class _LibraryHidingFinder:
    """An import finder that hides the library, as on a controller that has only the collection."""

    def find_spec(self, name: str, *_: object) -> None:
        if name.split(".")[0] == "activemq_fleet":
            raise ModuleNotFoundError(f"No module named {name!r}", name="activemq_fleet")
