"""The example inventories: each matches its README, and golden files show every change of its rendered files."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from lxml import etree

from activemq_fleet.cli.main import main
from activemq_fleet.inventory import load_fleet
from activemq_fleet.render import render_fleet
from activemq_fleet.routes import find_routes
from activemq_fleet.topology import Broker, Fleet
from tests.golden_files import Golden

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PICTURES = EXAMPLES / "pictures"
NAMES = sorted(path.parent.name for path in EXAMPLES.glob("*/hosts.yml"))
CORE = {"c": "http://activemq.apache.org/schema/core"}
BRIDGED_RELEASES = {"5.5.1": "static:(failover:(", "5.18.3": "masterslave:(", "6.3.1": "masterslave:("}

Load = Callable[..., Fleet]


@pytest.fixture
def copy_example(tmp_path: Path) -> Callable[[str], Path]:
    """Return a function that copies an example without the secrets of earlier runs."""

    def copy_example(name: str) -> Path:
        shutil.copytree(EXAMPLES / name, tmp_path / name, ignore=shutil.ignore_patterns(".secrets"))
        return tmp_path / name

    return copy_example


@pytest.fixture
def load(copy_example: Callable[[str], Path]) -> Load:
    return lambda name, *extra_vars: load_fleet([str(copy_example(name))], extra_vars=extra_vars)


def render_document(fleet: Fleet, broker: Broker) -> etree._Element:
    return etree.fromstring(render_fleet(fleet)[f"hosts/{broker.host}/conf/activemq.xml"])


def uris_by_name(root: etree._Element, element: str) -> dict[str, str]:
    return {node.get("name", ""): node.get("uri", "") for node in root.iterfind(f".//c:{element}", CORE)}


def test_readme_links_every_example_inventory() -> None:
    readme = (EXAMPLES.parent / "README.md").read_text()
    assert len(NAMES) == 7
    assert [name for name in NAMES if f"(examples/{name}/README.md)" not in readme] == []


@pytest.mark.parametrize("name", [name for name in NAMES if name != "shared-store"])
def test_picture_of_example_matches_output_of_graph(
    copy_example: Callable[[str], Path], tmp_path: Path, golden: Golden, name: str
) -> None:
    assert main(["graph", "-i", str(copy_example(name)), "-o", str(tmp_path / "fleet.svg")]) == 0
    replace(golden, directory=PICTURES).file(f"{name}.svg", (tmp_path / "fleet.svg").read_bytes())


def test_adopted_fleet_has_no_errors_and_matches_its_picture(
    tmp_path: Path, golden: Golden, capsys: pytest.CaptureFixture[str]
) -> None:
    inventory, picture = tmp_path / "inventory", tmp_path / "fleet.svg"
    collected = EXAMPLES / "adopt-fleet" / "collected"
    assert main(["adopt", str(collected), "--release", "5.18.3", "-o", str(inventory)]) == 0
    capsys.readouterr()
    assert main(["check", "-i", str(inventory)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("3 hosts: 0 errors, ")
    assert main(["graph", "-i", str(inventory), "-o", str(picture)]) == 0
    replace(golden, directory=PICTURES).file("adopt-fleet.svg", picture.read_bytes())


def test_file_of_ci_example_has_documented_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(EXAMPLES / "ci-lint")
    assert main(["check", "--file", "conf/", "--format", "json"]) == 1
    findings = json.loads(capsys.readouterr().out)["findings"]
    errors = [(finding["rule"], finding["file"]) for finding in findings if finding["severity"] == "error"]
    assert errors == [("V002", "conf/activemq.xml")]
    for name in ("github-workflow.yml", "gitlab-ci.yml", ".pre-commit-config.yaml"):
        assert yaml.safe_load(Path(name).read_text())


@pytest.mark.parametrize("name", NAMES)
def test_example_has_no_findings(load: Load, name: str) -> None:
    fleet = load(name)
    assert fleet.findings == ()
    assert fleet.warnings == ()


@pytest.mark.parametrize("name", NAMES)
def test_example_contains_no_secret(name: str) -> None:
    for path in EXAMPLES.joinpath(name).rglob("*.yml"):
        for line in path.read_text().splitlines():
            key, _, value = line.partition("password:")
            assert not value.strip() or value.strip() == ">-" or "lookup(" in value or "{{ vault_" in value, (
                f"{path}: {key}"
            )


@pytest.mark.parametrize("name", NAMES)
def test_files_of_brokers_and_clients_match_golden_files(load: Load, golden: Golden, name: str) -> None:
    files = render_fleet(load(name))
    suffixes = ("/conf/activemq.xml", "/agent.conf", "/jndi.properties")
    golden.tree(f"examples/{name}", {path: content for path, content in files.items() if path.endswith(suffixes)})


@pytest.mark.parametrize("name", NAMES)
def test_secrets_of_example_are_generated_once_and_shared_by_all_brokers(
    copy_example: Callable[[str], Path], name: str
) -> None:
    path = copy_example(name)
    first_fleet, second_fleet = load_fleet([str(path)]), load_fleet([str(path)])
    assert first_fleet.brokers == second_fleet.brokers
    assert len({broker.settings.network_password for broker in first_fleet.brokers}) == 1


class TestHaNetwork:
    def test_pure_masters_of_example_wait_for_slaves_and_forward_by_multicast(self, load: Load) -> None:
        fleet = load("ha-network-5.5")
        for pair in fleet.pairs_by_name.values():
            root = render_document(fleet, pair.preferred_master)
            broker, link = root.find("c:broker", CORE), root.find(".//c:networkConnector", CORE)
            assert broker is not None
            assert link is not None
            assert {name: broker.get(name) for name in ("waitForSlave", "shutdownOnSlaveFailure", "brokerName")} == {
                "waitForSlave": "true",
                "shutdownOnSlaveFailure": "false",
                "brokerName": pair.preferred_master.identity.short_host_name,
            }
            assert broker.get("networkConnectorStartAsync") == "true"
            assert link.get("name") == f"{pair.preferred_master.identity.short_host_name}-clustername"
            assert link.get("uri") == "multicast://224.1.2.3:6255?group=clustername"
            assert (link.get("duplex"), link.get("networkTTL")) == ("true", "3")
            listening = {name: uri.partition("?")[0] for name, uri in uris_by_name(root, "transportConnector").items()}
            assert listening == {
                "openwire": "nio://0.0.0.0:61616",
                "replication": "nio://0.0.0.0:61618",
                "stomp": "stomp+nio://0.0.0.0:61613",
            }
            announced = root.findall(".//c:transportConnector[@discoveryUri]", CORE)
            assert [node.get("name") for node in announced] == ["openwire"]

    def test_pure_slaves_of_example_open_no_port_and_connect_to_their_master(self, load: Load) -> None:
        fleet = load("ha-network-5.5")
        for broker in fleet.brokers:
            if broker.role == "slave":
                root = render_document(fleet, broker)
                master = root.find(".//c:masterConnector", CORE)
                assert master is not None
                assert master.get("remoteURI") == f"nio://{broker.pair}-a.example.com:61618"
                assert uris_by_name(root, "transportConnector") == {}
                assert [node.get("duplex") for node in root.iterfind(".//c:networkConnector", CORE)] == ["false"]

    def test_multicast_group_and_master_uri_of_example_follow_host_names(
        self, copy_example: Callable[[str], Path]
    ) -> None:
        path = copy_example("ha-network-5.5")
        hosts = path / "hosts.yml"
        hosts.write_text(hosts.read_text().replace("clustername", "tills").replace(".example.com", ".shop.test"))
        fleet = load_fleet([str(path)])
        root = render_document(fleet, fleet.broker("tills-mq02-b"))
        assert uris_by_name(root, "networkConnector") == {
            "tills-mq02-b-tills": "multicast://224.1.2.3:6255?group=tills"
        }
        assert [node.get("remoteURI") for node in root.iterfind(".//c:masterConnector", CORE)] == [
            "nio://tills-mq02-a.shop.test:61618"
        ]


class TestSingleMachine:
    def test_second_node_of_single_machine_example_listens_ten_ports_higher(self, load: Load) -> None:
        first_node, second_node = load("single-machine").brokers
        assert dict(first_node.ports) == {
            "openwire": 61616, "amqp": 5672, "stomp": 61613, "mqtt": 1883, "ws": 61614, "console": 8161,
        }  # fmt: skip
        assert dict(second_node.ports) == {name: port + 10 for name, port in first_node.ports.items()}
        assert first_node.address == second_node.address

    def test_nodes_of_single_machine_example_share_store_but_not_instance(self, load: Load) -> None:
        first_node, second_node = load("single-machine").brokers
        assert first_node.store_directory == second_node.store_directory
        assert first_node.settings.instance != second_node.settings.instance

    def test_each_node_of_single_machine_example_links_to_peer(self, load: Load) -> None:
        first_node, second_node = load("single-machine").brokers
        assert [(link.kind, link.addresses) for link in first_node.links] == [
            ("static", (("office.example.com", 61626),))
        ]
        assert [(link.kind, link.addresses) for link in second_node.links] == [
            ("static", (("office.example.com", 61616),))
        ]

    def test_jndi_properties_of_single_machine_example_list_both_nodes(self, load: Load) -> None:
        clients = render_fleet(load("single-machine"))["clients/office/jndi.properties"].decode()
        assert "office.example.com" in clients
        assert clients.index("61616") < clients.index("61626")


class TestBridgedPairs:
    @pytest.mark.parametrize(("release", "scheme"), BRIDGED_RELEASES.items())
    def test_each_shop_has_single_duplex_bridge_to_hub(self, load: Load, release: str, scheme: str) -> None:
        fleet = load("bridged-pairs", f"activemq_release={release}")
        for pair in fleet.pairs_by_name.values():
            links = [(link.name, link.duplex, link.uri) for link in pair.brokers[0].links]
            assert links == [(link.name, link.duplex, link.uri) for link in pair.brokers[1].links]
            if pair.group == "hub":
                assert links == []
            else:
                [(name, duplex, uri)] = links
                assert (name, duplex) == (f"{pair.name}-to-hub-mq01", True)
                assert uri.startswith(scheme)

    def test_link_of_5_5_has_single_reconnect_attempt(self, load: Load) -> None:
        uri = load("bridged-pairs").broker("shop-mq01-a").links[0].uri
        assert "maxReconnectAttempts=1" in uri

    @pytest.mark.parametrize("kind", ["failover", "static"])
    def test_activemq_discovery_selects_kind_of_links_in_bridged_pairs_example(self, load: Load, kind: str) -> None:
        fleet = load("bridged-pairs", "activemq_release=6.3.1", f"activemq_discovery={kind}")
        assert fleet.findings == ()
        assert fleet.broker("shop-mq01-a").links[0].kind == kind


class TestSharedStore:
    def test_shared_store_example_has_two_groups_each_with_two_pairs_and_agent(self, load: Load) -> None:
        fleet = load("shared-store")
        assert [(group.name, len(group.pairs)) for group in fleet.groups] == [("billing", 2), ("orders", 2)]
        assert [(agent.host, agent.group) for agent in fleet.agents] == [
            ("ledger01.example.com", "billing"),
            ("shop01.example.com", "orders"),
        ]

    def test_agent_lists_nodes_of_home_pair_with_master_first(self, load: Load) -> None:
        fleet = load("shared-store")
        for agent in fleet.agents:
            assert agent.urls == ((f"{agent.pair}-a.example.com", 1883), (f"{agent.pair}-b.example.com", 1883))
            assert fleet.pairs_by_name[agent.pair].group == agent.group

    def test_single_link_connects_groups_of_shared_store_example(self, load: Load) -> None:
        fleet = load("shared-store")
        links_between_groups = {
            (broker.pair, link.target)
            for broker in fleet.brokers
            for link in broker.links
            if fleet.pairs_by_name[link.target].group != broker.group
        }
        assert links_between_groups == {("orders-mq01", "billing-mq01")}


class TestHubAndSites:
    def test_message_reaches_other_site_through_hub(self, load: Load) -> None:
        fleet = load("hub-and-sites")
        berlin = fleet.broker("berlin-mq01-a")
        assert [(link.target, link.duplex) for link in berlin.links] == [("hub-mq01", True)]
        route = find_routes(fleet).reaches(berlin.host, fleet.broker("lisbon-mq01-a").host)
        assert (route.outcome, len(route.path)) == ("reaches", 2)


class TestMoveToSix:
    @pytest.mark.parametrize("release", ["5.18.3", "6.3.1"])
    def test_files_are_valid_before_and_after_upgrade(
        self, copy_example: Callable[[str], Path], capsys: pytest.CaptureFixture[str], release: str
    ) -> None:
        assert main(["check", "-i", str(copy_example("move-to-6")), "-e", f"activemq_release={release}"]) == 0
        assert "4 hosts: 0 errors, " in capsys.readouterr().out
