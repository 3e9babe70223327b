"""Contents of the page of a host for each profile, with the variable that determines each entry."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from activemq_fleet.addresses import format_mb_urls_value_of_agent_conf
from activemq_fleet.errors import InputError
from activemq_fleet.explain import explanation_to_text
from activemq_fleet.explain.host_pages import explain_host_by_name
from activemq_fleet.findings import Finding
from activemq_fleet.render import render_agent, render_broker
from activemq_fleet.topology import AGENTS, BALANCERS, BROKERS, build_fleet
from tests.unit.explained import AGENT, JDBC, entries, entry, labels, page, shop, with_agents
from tests.unit.fleets import fleet, hosts


class TestHostSelection:
    def test_unique_first_label_of_host_name_selects_explained_host(self) -> None:
        assert explain_host_by_name(shop(), "orders-mq01-b").host == "orders-mq01-b.example.com"

    def test_explain_refuses_ambiguous_first_label_and_names_both_hosts(self) -> None:
        variables_by_host = hosts("orders-mq01") | hosts("orders-mq01", domain="example.org", nodes="a", port_offset=1)
        with pytest.raises(
            InputError,
            match=r"2 hosts: use the full name of one of them, orders-mq01-a\.example\.com or orders-mq01-a\.exam",
        ):
            explain_host_by_name(build_fleet(variables_by_host, {}), "orders-mq01-a")

    def test_explain_refuses_unknown_host_with_suggestion(self) -> None:
        with pytest.raises(
            InputError, match=r"^host orders-mq1-a is not a .*: did you mean orders-mq01-a\.example\.com\?$"
        ):
            explain_host_by_name(shop(), "orders-mq1-a")

    def test_broker_agent_and_balancer_on_same_host_share_explain_page(self) -> None:
        variables_by_host = hosts("orders-mq01", agent_username="till", agent_password="an agent's secret")
        host = "orders-mq01-a.example.com"
        explanation = explain_host_by_name(build_fleet(variables_by_host, {AGENTS: [host], BALANCERS: [host]}), host)
        assert explanation.kinds == ("broker", "agent", "balancer")
        assert {"role", "home", "balances"} <= {section.name for section in explanation.sections}

    def test_explain_page_of_host_with_invalid_name_has_reason(self) -> None:
        built_fleet = build_fleet(hosts("orders-mq01") | {"oddone": {}}, {BROKERS: ["oddone"]})
        explanation = explain_host_by_name(built_fleet, "oddone")
        assert explanation.kinds == ()
        assert labels(explanation, "findings") == ["error T001"]


class TestRole:
    def test_role_is_explained_by_node_letter_and_preferred_letter(self) -> None:
        explanation = explain_host_by_name(shop(master_node="b"), "orders-mq01-a")
        role = entry(explanation, "role", "preferred role")
        assert (role.text, role.why) == (
            "slave",
            "the host has the node letter a, and preferred masters have b",
        )
        assert (role.variable, role.origin) == ("activemq_master_node", "inventory")

    def test_parts_of_host_name_are_shown_with_their_pattern(self) -> None:
        pattern = r"^(?P<node>[xy])\.(?P<group>[a-z]+)(?P<number>\d)"
        built_fleet = build_fleet(
            {
                f"{node}.shop1": {"activemq_release": "5.18.3", "activemq_ha": "none", "activemq_master_node": "x"}
                for node in "xy"
            },
            {},
            naming_pattern=pattern,
        )
        name = entry(explain_host_by_name(built_fleet, "x.shop1"), "role", "name")
        assert name.text == "x is in group shop, number 1, node x, domain shop1"
        assert name.details == (f"the pattern {pattern} reads these parts from the host name",)
        assert name.origin == "inventory"

    def test_name_defined_by_variables_is_not_explained_by_pattern(self) -> None:
        variables_by_host = {
            f"web{number}.example.com": {
                "activemq_release": "5.18.3",
                "activemq_group": "brokers",
                "activemq_pair": "web1-web2",
                "activemq_node": node,
            }
            for number, node in ((1, "a"), (2, "b"))
        }
        name = entry(explain_host_by_name(build_fleet(variables_by_host, {}), "web1.example.com"), "role", "name")
        assert name.text == "web1 is in group brokers, node a, domain example.com"
        assert name.why == "set by activemq_group, activemq_pair, activemq_node"
        assert name.details == ()

    def test_explain_page_names_peer_with_its_role(self) -> None:
        assert "orders-mq01, with orders-mq01-a.example.com (preferred master)" in page(shop(), "orders-mq01-b")

    def test_explain_page_reports_missing_peer(self) -> None:
        explanation = explain_host_by_name(fleet("orders-mq01", nodes="a"), "orders-mq01-a")
        assert "whose other node is not in the inventory" in entry(explanation, "role", "pair").text
        assert entry(explanation, "dies", "takes over").text == "no node"


class TestRelease:
    @pytest.mark.parametrize(
        ("release", "ha", "has", "lacks"),
        [
            ("5.5.1", "pure", {"pure"}, {"mqtt", "replay", "ttl", "security"}),
            ("5.5.1", "shared-file", {"no-space"}, {"lockers", "masterslave", "replay", "restart"}),
            ("5.8.0", "shared-file", {"lockers", "masterslave", "replay"}, {"ttl", "security", "mqtt"}),
            ("6.3.2", "shared-file", {"lockers", "masterslave", "replay", "ttl", "mqtt", "restart", "security"}, set()),
        ],
    )
    def test_explain_page_shows_relevant_features_of_release(
        self, release: str, ha: str, has: set[str], lacks: set[str]
    ) -> None:
        explanation = explain_host_by_name(shop(release=release, ha=ha), "orders-mq01-a")
        features = {entry.data["what"]: entry.data["has"] for entry in explanation.section("release").entries[1:]}
        assert has <= {name for name, is_available in features.items() if is_available}
        assert lacks <= {name for name, is_available in features.items() if not is_available}
        assert ("pure" in features) is (ha == "pure")

    def test_unknown_patch_release_is_explained_by_its_line(self) -> None:
        release = entry(explain_host_by_name(shop(release="5.18.99"), "orders-mq01-a"), "release", "release")
        assert "is handled as 5.18" in release.why


class TestPorts:
    def test_port_is_explained_by_offset_and_tls(self) -> None:
        tls = {name: f"/etc/{name}" for name in ("keystore", "truststore")}
        tls |= {f"{name}_password": "a secret" for name in ("keystore", "truststore")}
        explanation = explain_host_by_name(shop(port_offset=10, tls=tls), "orders-mq01-a")
        openwire = entry(explanation, "ports", "openwire")
        assert openwire.text == "61626 nio+ssl"
        assert openwire.why == "Java clients and bridges, 61616 + port offset 10, over TLS, because activemq_tls is set"
        assert openwire.data["port"] == 61626
        assert entry(explanation, "ports", "console").why == "web console on 127.0.0.1, 8161 + port offset 10"

    def test_pure_slave_has_no_connector_and_master_has_replication_port(self) -> None:
        pure_fleet = shop(ha="pure", release="5.5.1")
        assert "serves no client" in entry(explain_host_by_name(pure_fleet, "orders-mq01-b"), "ports", "none").why
        assert entry(explain_host_by_name(pure_fleet, "orders-mq01-a"), "ports", "replication").text == "61618 nio"


class TestStore:
    @pytest.mark.parametrize(
        ("release", "acquire", "keepalive"), [("5.5.1", 1000, None), ("5.8.0", 1000, 2000), ("6.3.1", 1000, 2000)]
    )
    def test_explained_lock_has_intervals_of_rendered_configuration(
        self, release: str, acquire: int, keepalive: int | None
    ) -> None:
        explanation = explain_host_by_name(shop(release=release), "orders-mq01-a")
        assert entry(explanation, "store", "lock").data == {"acquire_ms": acquire}
        assert entry(explanation, "store", "keep-alive").data == {"keepalive_ms": keepalive}

    @pytest.mark.parametrize(
        "variables",
        [
            {},
            {"release": "5.5.1"},
            {"fence": "guard"},
            {"fence": "guard", "release": "5.5.1"},
            {"fence": "guard", "release": "5.12.0"},
            {"ha": "shared-jdbc", "jdbc": JDBC},
            {"ha": "none"},
        ],
        ids=str,
    )
    def test_explained_default_of_store_is_valid_value_of_its_variable(self, variables: dict[str, Any]) -> None:
        section = explain_host_by_name(shop(**variables), "orders-mq01-a").section("store")
        defaults = {
            explained.variable.removeprefix("activemq_"): explained.data[key]
            for explained in section.entries
            for key in ("acquire_ms", "keepalive_ms", "directory")
            if explained.origin == "default" and explained.data.get(key)
        }
        assert defaults
        explicit_section = explain_host_by_name(shop(**{**variables, **defaults}), "orders-mq01-a").section("store")
        explicit_texts = [explained.text for explained in explicit_section.entries]
        assert explicit_texts == [explained.text for explained in section.entries]

    def test_explained_lease_has_length_renewal_and_holder(self) -> None:
        explanation = explain_host_by_name(
            shop(ha="shared-jdbc", jdbc=JDBC, lock_acquire_interval=8000), "orders-mq01-b"
        )
        lease = entry(explanation, "store", "lease")
        assert lease.data == {"acquire_ms": 8000, "holder": "orders-mq01-b"}
        assert (lease.variable, lease.origin) == ("activemq_lock_acquire_interval", "inventory")
        assert entry(explanation, "store", "keep-alive").data == {"keepalive_ms": 4000}

    @pytest.mark.parametrize("interval", ["${lock.period}", "2s", "2_000", "²"])
    @pytest.mark.parametrize(
        ("variables", "store"), [({}, "kahaDB"), ({"ha": "shared-jdbc", "jdbc": JDBC}, "jdbcPersistenceAdapter")]
    )
    def test_lock_interval_that_is_no_number_is_explained_as_text(
        self, variables: dict[str, Any], store: str, interval: str
    ) -> None:
        locker = "lease-database-locker" if variables else "shared-file-locker"
        xml = (
            f'<{store} lockKeepAlivePeriod="{interval}"><locker><{locker} lockAcquireSleepInterval="{interval}"/>'
            f"</locker></{store}>"
        )
        fragments = [{"parent": "broker/persistenceAdapter", "xml": xml}]
        fleet_with_text = with_agents(xml_fragments=fragments, **variables)
        explanation = explain_host_by_name(fleet_with_text, "orders-mq01-a")

        assert f"every {interval} ms" in entry(explanation, "store", "keep-alive").text
        assert entry(explanation, "store", "keep-alive").data == {"keepalive_ms": None}
        assert entry(explanation, "store", "lease" if variables else "lock").data["acquire_ms"] is None
        assert entry(explanation, "dies", "within").data["seconds"] is None
        for host in ("orders-mq01-a", "till0.example.com"):
            text = page(fleet_with_text, host)
            assert "an unknown time after the broker fails" in text
            assert f"every {interval} ms" in text

    def test_explain_page_of_pure_slave_names_source_of_its_copy(self) -> None:
        explanation = explain_host_by_name(shop(ha="pure", release="5.5.1"), "orders-mq02-b")
        assert entry(explanation, "store", "copies from").text == "nio://orders-mq02-a.example.com:61618"


class TestLinks:
    def test_explained_link_lists_static_include(self) -> None:
        links = [{"from": "orders", "to": "billing", "include": ["queue://a.>"], "static_include": ["audit"]}]
        explanation = explain_host_by_name(fleet("orders-mq01", "billing-mq01", links=links), "orders-mq01-a")
        details = entry(explanation, "links-out", "orders-mq01-to-billing-mq01").details
        assert "the link carries only queue://a.>, queue://audit" in details
        assert "the link carries queue://audit even if no consumer is connected" in details

    def test_explained_link_names_its_entry_of_activemq_links(self) -> None:
        links = [
            {"from": "billing", "to": "orders"},
            {"from": "orders-mq01", "to": "billing", "duplex": True, "include": ["queue://a.>"], "exclude": ["queue://a.b"]},
        ]  # fmt: skip
        linked_fleet = fleet("orders-mq01", "orders-mq02", "billing-mq01", links=links)
        outgoing = entry(
            explain_host_by_name(linked_fleet, "orders-mq01-a"), "links-out", "orders-mq01-to-billing-mq01"
        )
        assert outgoing.variable == "activemq_links[1]"
        assert "messages flow in both directions" in outgoing.text
        assert "the link carries only queue://a.>" in outgoing.details
        assert "the link does not carry queue://a.b" in outgoing.details
        assert outgoing.data["uri"] in outgoing.details
        group_link = entry(
            explain_host_by_name(linked_fleet, "orders-mq01-a"), "links-out", "orders-mq01-to-orders-mq02"
        )
        assert (group_link.variable, group_link.origin) == ("activemq_topology", "default")

    def test_explained_link_within_group_names_activemq_links_instead_of_topology(self) -> None:
        linked_fleet = shop(topology="none", links=[{"from": "orders-mq01", "to": "orders-mq02", "name": "extra"}])
        assert (
            entry(explain_host_by_name(linked_fleet, "orders-mq01-b"), "links-out", "extra").variable
            == "activemq_links[0]"
        )

    def test_group_with_same_name_prefix_is_not_mistaken_for_target(self) -> None:
        links = [{"from": "orders", "to": "shop"}, {"from": "orders", "to": "shop-north"}]
        linked_fleet = fleet("orders-mq01", "shop-mq01", "shop-north-mq01", links=links)
        explanation = explain_host_by_name(linked_fleet, "orders-mq01-a")
        assert entry(explanation, "links-out", "orders-mq01-to-shop-north-mq01").variable == "activemq_links[1]"

    def test_explained_incoming_link_names_opening_node_and_directions(self) -> None:
        linked_fleet = fleet("hub-mq01", "shop-mq01", links=[{"from": "shop", "to": "hub", "duplex": True}])
        incoming = entry(explain_host_by_name(linked_fleet, "hub-mq01-b"), "links-in", "shop-mq01-to-hub-mq01")
        assert incoming.text == (
            "the active node of shop-mq01-a and shop-mq01-b opens this masterslave link: messages flow in both "
            "directions"
        )
        assert "hub-mq01-a.example.com:61616, hub-mq01-b.example.com:61616" in incoming.details[0]

    def test_section_of_explain_page_without_links_is_single_line(self) -> None:
        alone = explanation_to_text(explain_host_by_name(fleet("orders-mq01", nodes="a", ha="none"), "orders-mq01-a"))
        assert "\nIncoming links\n  none\n\n" in alone
        standby = explanation_to_text(explain_host_by_name(shop(ha="pure", release="5.5.1"), "orders-mq01-b"))
        assert (
            "\nIncoming links\n  none (no broker can open a link to orders-mq01-b.example.com, which has no" in standby
        )

    def test_explained_multicast_link_names_source_brokers(self) -> None:
        pure_fleet = shop(ha="pure", release="5.5.1")
        multicast = entry(explain_host_by_name(pure_fleet, "orders-mq01-a"), "links-in", "multicast")
        assert multicast.data["from"] == ["orders-mq02-a.example.com", "orders-mq02-b.example.com"]
        assert labels(explain_host_by_name(pure_fleet, "orders-mq01-b"), "links-in") == ["none"]

    def test_link_to_peer_of_shared_store_is_reported_as_never_up(self) -> None:
        explanation = explain_host_by_name(fleet("orders-mq01", pair_links="static"), "orders-mq01-a")
        (link,) = explanation.section("links-out").entries
        assert link.why.startswith("this link is never up")
        assert link.variable == "activemq_pair_links"

    @pytest.mark.parametrize(
        ("release", "sentence"),
        [
            ("5.8.0", "networkTTL 1: a message crosses at most 1 bridge"),
            ("6.3.1", "a message crosses any number of bridges"),
        ],
    )
    def test_explain_page_shows_number_of_bridges_that_message_can_cross(self, release: str, sentence: str) -> None:
        assert sentence in page(shop(release=release), "orders-mq01-a")


class TestFailure:
    def test_takeover_time_of_shared_file_depends_on_lock_interval(self) -> None:
        explanation = explain_host_by_name(shop(lock_acquire_interval=10_000), "orders-mq01-a")
        assert entry(explanation, "dies", "takes over").data["by"] == "orders-mq01-b.example.com"
        within = entry(explanation, "dies", "within")
        assert within.data["seconds"] == 15
        assert within.origin == "inventory"

    def test_takeover_time_of_shared_jdbc_includes_lease(self) -> None:
        explanation = explain_host_by_name(shop(ha="shared-jdbc", jdbc=JDBC), "orders-mq01-a")
        assert entry(explanation, "dies", "within").data["seconds"] == 25
        assert "measured" not in labels(explanation, "dies")

    def test_pure_slave_takes_over_and_drains_to_other_masters(self) -> None:
        explanation = explain_host_by_name(shop(ha="pure", release="5.5.1"), "orders-mq01-a")
        assert entry(explanation, "dies", "takes over").text == "orders-mq01-b.example.com"
        drained, kept = entries(explanation, "dies", "messages")
        assert "drain to orders-mq02-a if" in drained.text
        assert "durable topic subscriptions stay" in kept.text
        assert "copies the newer store to the other node" in entry(explanation, "dies", "recovery").text

    def test_only_pure_master_of_group_has_no_drain_target(self) -> None:
        explanation = explain_host_by_name(fleet("orders-mq01", ha="pure", release="5.5.1"), "orders-mq01-a")
        assert (
            entry(explanation, "dies", "messages").why == "group orders has no other master to which they could drain"
        )

    def test_pure_master_continues_without_copy_when_slave_fails(self) -> None:
        explanation = explain_host_by_name(shop(ha="pure", release="5.5.1"), "orders-mq01-b")
        assert "orders-mq01-a.example.com continues" in entry(explanation, "dies", "takes over").why
        assert "have no copy" in entry(explanation, "dies", "messages").text

    def test_single_broker_has_no_takeover(self) -> None:
        explanation = explain_host_by_name(shop(ha="none"), "orders-mq01-a")
        assert entry(explanation, "dies", "takes over").data == {"by": None, "seconds": None}
        assert entry(explanation, "clients", "Java").data["failover"].count("tcp://") == 1

    @pytest.mark.parametrize(
        ("watchdog", "expected"),
        [("warn", "does not kill it"), ("kill", "kills the broker"), ("off", "no watchdog checks the broker")],
    )
    def test_hung_process_is_explained_by_mode_of_watchdog(self, watchdog: str, expected: str) -> None:
        hang = entry(explain_host_by_name(shop(watchdog=watchdog), "orders-mq01-a"), "dies", "when it hangs")
        assert expected in hang.text

    def test_explain_page_names_peer_on_which_agents_continue_sessions(self) -> None:
        agents = entry(explain_host_by_name(with_agents(), "orders-mq01-a"), "dies", "agents")
        assert agents.text == "till0.example.com continue their sessions on orders-mq01-b.example.com"

    def test_explain_page_counts_many_agents(self) -> None:
        explanation = explain_host_by_name(with_agents(30), "orders-mq01-a")
        assert "and 18 more" in entry(explanation, "dies", "agents").text
        assert "30 in total" in entry(explanation, "pointing", "agents").text


class TestClientsAndAccounts:
    def test_explain_page_shows_accounts_with_groups_and_variables(self) -> None:
        users = [{"name": "app", "password": "a secret of app", "groups": ["clients"]}]
        explanation = explain_host_by_name(with_agents(users=users), "orders-mq01-a")
        accounts = {entry.label: (entry.text, entry.variable) for entry in explanation.section("accounts").entries}
        assert accounts["app"] == ("in the user groups clients", "activemq_users[0].password")
        assert accounts["net"] == ("in the user groups activemq-network", "activemq_network_password")
        assert accounts["till"] == ("in the user groups activemq-agents", "activemq_agent_password")

    def test_explain_page_shows_permissions_by_destination(self) -> None:
        acl = [{"destination": "a.>", "kind": "queue", "read": ["clients"]}]
        assert entry(explain_host_by_name(shop(acl=acl), "orders-mq01-a"), "accounts", "queue a.>").text.startswith(
            "read clients"
        )

    def test_clients_connect_to_both_nodes_with_preferred_master_first(self) -> None:
        explanation = explain_host_by_name(shop(master_node="b"), "orders-mq01-a")
        assert entry(explanation, "clients", "Java").text.startswith(
            "failover:(tcp://orders-mq01-b.example.com:61616,tcp://orders-mq01-a.example.com:61616)"
        )
        addresses = [(f"orders-mq01-{node}.example.com", 1883) for node in "ba"]
        assert entry(explanation, "clients", "mb.urls").text == format_mb_urls_value_of_agent_conf(addresses)

    def test_explained_mb_urls_of_agent_match_rendered_agent_conf(self) -> None:
        agent_fleet = with_agents()
        mb_urls = entry(explain_host_by_name(agent_fleet, "till0"), "told", "mb.urls").data["mb_urls"]
        assert f"mb.urls = {mb_urls}\n" in render_agent(agent_fleet.agents[0])["agent.conf"].decode()

    @pytest.mark.parametrize(
        ("pair", "why", "origin"),
        [("orders-mq02", "set by hand", "inventory"), (None, "a stable hash of the host name", "default")],
    )
    def test_home_pair_of_agent_is_explained(self, pair: str | None, why: str, origin: str) -> None:
        agent = AGENT | ({"activemq_agent_pair": pair} if pair else {})
        agent_fleet = build_fleet(hosts("orders-mq01", "orders-mq02") | {"till": agent}, {AGENTS: ["till"]})
        home = entry(explain_host_by_name(agent_fleet, "till"), "home", "home pair")
        assert home.why.startswith(why)
        assert home.origin == origin
        assert home.text == agent_fleet.agents[0].pair

    def test_balancer_of_pure_group_forwards_to_preferred_masters(self) -> None:
        balanced_fleet = build_fleet(
            hosts("orders-mq01", ha="pure", release="5.5.1") | {"lb1": {}}, {BALANCERS: ["lb1"]}
        )
        assert entry(explain_host_by_name(balanced_fleet, "lb1"), "balances", "orders").text == "orders-mq01-a"
        assert (
            "does not forward clients to orders-mq01-b"
            in entry(explain_host_by_name(balanced_fleet, "orders-mq01-b"), "pointing", "lb1").text
        )


class TestFilesAndFindings:
    def test_explain_page_lists_every_file_of_host_with_mode(self) -> None:
        shop_fleet = shop(extra_files=[{"path": "conf/mine.txt", "content": "x"}])
        explanation = explain_host_by_name(shop_fleet, "orders-mq01-a")
        modes = {
            entry.data["path"]: entry.data["mode"]
            for entry in explanation.section("files").entries
            if entry.data.get("mode")
        }
        assert set(modes) == set(render_broker(shop_fleet.broker("orders-mq01-a")))
        assert modes["conf/credentials.properties"] == "0640"
        assert modes["conf/activemq.xml"] == "0640"
        assert entry(explanation, "files", "conf/mine.txt").variable == "activemq_extra_files[0]"

    @pytest.mark.parametrize("release", ["5.5.1", "5.18.3", "6.2.7", "6.3.1"])
    def test_explain_page_shows_purpose_of_every_rendered_file(self, release: str) -> None:
        explanation = explain_host_by_name(shop(release=release), "orders-mq01-a")
        assert [
            entry.label for entry in explanation.section("files").entries if "another file of the broker" in entry.text
        ] == []

    def test_explain_page_shows_findings_of_both_nodes_with_fix(self) -> None:
        variables_by_host = hosts("orders-mq01")
        variables_by_host["orders-mq01-b.example.com"]["activemq_store_directory"] = "/elsewhere"
        built_fleet = build_fleet(variables_by_host, {})
        for node in "ab":
            finding = entry(explain_host_by_name(built_fleet, f"orders-mq01-{node}"), "findings", "error T009")
            assert finding.details == (
                "fix: set activemq_store_directory to the same value for all brokers of pair orders-mq01",
            )
            assert finding.text.startswith("orders-mq01-b.example.com: ") is (node == "a")

    def test_explain_page_lists_finding_of_both_nodes_once_with_both_names(self) -> None:
        shop_fleet = shop()
        first_finding = Finding(
            rule="S022",
            severity="info",
            host="orders-mq01-a.example.com",
            message="5.5.1 is unsupported",
            fix="upgrade",
        )
        second_finding = replace(first_finding, host="orders-mq01-b.example.com", file="conf/activemq.xml", line=3)
        findings_of_both = [
            replace(first_finding, message="same"),
            replace(first_finding, message="same", host=second_finding.host, line=4),
        ]
        explanation = explain_host_by_name(
            replace(shop_fleet, findings=(first_finding, second_finding, *findings_of_both)), "orders-mq01-a"
        )
        assert [finding.text for finding in entries(explanation, "findings", "info S022")] == [
            "5.5.1 is unsupported",
            "orders-mq01-a.example.com and orders-mq01-b.example.com: same",
            "orders-mq01-b.example.com: conf/activemq.xml:3: 5.5.1 is unsupported",
        ]

    def test_explain_page_shows_waived_finding_and_unused_waiver(self) -> None:
        waivers = [
            {"rule": "T002", "reason": "b comes in May", "hosts": ["orders-*"]},
            {"rule": "S001", "reason": "protected by a firewall", "until": "2999-12-31"},
            {"rule": "S002", "reason": "of others", "hosts": ["billing-*"]},
        ]
        explanation = explain_host_by_name(fleet("orders-mq01", nodes="a", waivers=waivers), "orders-mq01-a")
        assert labels(explanation, "findings") == ["waived T002", "waiver S001"]
        assert "until 2999-12-31" in entry(explanation, "findings", "waiver S001").text


def test_memory_limit_is_explained_with_option_that_sets_heap() -> None:
    explanation = explain_host_by_name(shop(java_options=["-Xmx8g"]), "orders-mq01-a")
    memory = entry(explanation, "store", "memory")

    assert (memory.text, memory.variable) == ("3276 mb for messages", "activemq_java_options")
    assert memory.why == "40 % of the Java heap of 8g"
