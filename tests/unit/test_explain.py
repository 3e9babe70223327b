"""What a host's page says, for each profile, and which variable decides it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from activemq_fleet.addresses import format_mb_urls_of_agent_conf
from activemq_fleet.errors import InputError
from activemq_fleet.explain import explain_host_by_name, explanation_to_text
from activemq_fleet.findings import Finding
from activemq_fleet.render import render_agent, render_broker
from activemq_fleet.topology import AGENTS, BALANCERS, BROKERS, build_fleet
from tests.unit.explained import AGENT, JDBC, entries, entry, labels, page, shop, with_agents
from tests.unit.fleets import fleet, hosts


class TestWhichHost:
    def test_a_first_label_is_enough_where_it_is_one_hosts_only(self) -> None:
        assert explain_host_by_name(shop(), "orders-mq01-b").host == "orders-mq01-b.example.com"

    def test_a_first_label_of_two_hosts_is_refused_and_both_are_named(self) -> None:
        two = hosts("orders-mq01") | hosts("orders-mq01", domain="example.org", nodes="a", port_offset=1)
        with pytest.raises(
            InputError,
            match=r"2 hosts: use the full name of one of them, orders-mq01-a\.example\.com or orders-mq01-a\.exam",
        ):
            explain_host_by_name(build_fleet(two, {}), "orders-mq01-a")

    def test_an_unknown_host_gets_the_nearest_one(self) -> None:
        with pytest.raises(
            InputError, match=r"^host orders-mq1-a is not a .*: did you mean orders-mq01-a\.example\.com\?$"
        ):
            explain_host_by_name(shop(), "orders-mq1-a")

    def test_a_host_that_is_broker_agent_and_balancer_has_one_page_for_all(self) -> None:
        everything = hosts("orders-mq01", agent_username="till", agent_password="an agent's secret")
        host = "orders-mq01-a.example.com"
        story = explain_host_by_name(build_fleet(everything, {AGENTS: [host], BALANCERS: [host]}), host)
        assert story.kinds == ("broker", "agent", "balancer")
        assert {"role", "home", "balances"} <= {section.name for section in story.sections}

    def test_a_host_that_was_refused_has_a_page_with_the_reason(self) -> None:
        found = build_fleet(hosts("orders-mq01") | {"oddone": {}}, {BROKERS: ["oddone"]})
        story = explain_host_by_name(found, "oddone")
        assert story.kinds == ()
        assert labels(story, "findings") == ["error T001"]


class TestRole:
    def test_the_node_letter_and_the_preferred_letter_are_the_reason(self) -> None:
        story = explain_host_by_name(shop(master_node="b"), "orders-mq01-a")
        role = entry(story, "role", "preferred role")
        assert (role.text, role.why) == (
            "slave",
            "the host has the node letter a, and preferred masters have b",
        )
        assert (role.variable, role.origin) == ("activemq_master_node", "inventory")

    def test_the_parts_of_the_name_and_the_pattern_that_read_them_are_told(self) -> None:
        pattern = r"^(?P<node>[xy])\.(?P<group>[a-z]+)(?P<number>\d)"
        found = build_fleet(
            {
                f"{node}.shop1": {"activemq_release": "5.18.3", "activemq_ha": "none", "activemq_master_node": "x"}
                for node in "xy"
            },
            {},
            naming_pattern=pattern,
        )
        name = entry(explain_host_by_name(found, "x.shop1"), "role", "name")
        assert name.text == "x is in group shop, number 1, node x, domain shop1"
        assert name.details == (f"the pattern {pattern} reads these parts from the host name",)
        assert name.origin == "inventory"

    def test_a_name_that_variables_define_is_not_explained_by_the_pattern(self) -> None:
        both = {
            f"web{number}.example.com": {
                "activemq_release": "5.18.3",
                "activemq_group": "brokers",
                "activemq_pair": "web1-web2",
                "activemq_node": node,
            }
            for number, node in ((1, "a"), (2, "b"))
        }
        name = entry(explain_host_by_name(build_fleet(both, {}), "web1.example.com"), "role", "name")
        assert name.text == "web1 is in group brokers, node a, domain example.com"
        assert name.why == "set by activemq_group, activemq_pair, activemq_node"
        assert name.details == ()

    def test_the_peer_is_named_with_its_role(self) -> None:
        assert "orders-mq01, with orders-mq01-a.example.com (preferred master)" in page(shop(), "orders-mq01-b")

    def test_a_missing_peer_is_told(self) -> None:
        story = explain_host_by_name(fleet("orders-mq01", nodes="a"), "orders-mq01-a")
        assert "whose other node is not in the inventory" in entry(story, "role", "pair").text
        assert entry(story, "dies", "takes over").text == "no node"


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
    def test_what_matters_here_is_told_and_nothing_else(
        self, release: str, ha: str, has: set[str], lacks: set[str]
    ) -> None:
        story = explain_host_by_name(shop(release=release, ha=ha), "orders-mq01-a")
        answers = {entry.data["what"]: entry.data["has"] for entry in story.section("release").entries[1:]}
        assert has <= {name for name, good in answers.items() if good}
        assert lacks <= {name for name, good in answers.items() if not good}
        assert ("pure" in answers) is (ha == "pure")

    def test_an_unknown_patch_says_what_it_is_treated_as(self) -> None:
        asked = entry(explain_host_by_name(shop(release="5.18.99"), "orders-mq01-a"), "release", "release")
        assert "is handled as 5.18" in asked.why


class TestPorts:
    def test_the_offset_and_tls_are_the_reason_of_a_port(self) -> None:
        tls = {name: f"/etc/{name}" for name in ("keystore", "truststore")}
        tls |= {f"{name}_password": "a secret" for name in ("keystore", "truststore")}
        story = explain_host_by_name(shop(port_offset=10, tls=tls), "orders-mq01-a")
        openwire = entry(story, "ports", "openwire")
        assert openwire.text == "61626 nio+ssl"
        assert openwire.why == "Java clients and bridges, 61616 + port offset 10, over TLS, because activemq_tls is set"
        assert openwire.data["port"] == 61626
        assert entry(story, "ports", "console").why == "web console on 127.0.0.1, 8161 + port offset 10"

    def test_a_pure_slave_has_no_connector_and_its_master_one_for_the_copy(self) -> None:
        found = shop(ha="pure", release="5.5.1")
        assert "serves no client" in entry(explain_host_by_name(found, "orders-mq01-b"), "ports", "none").why
        assert entry(explain_host_by_name(found, "orders-mq01-a"), "ports", "replication").text == "61618 nio"


class TestStore:
    @pytest.mark.parametrize(
        ("release", "acquire", "keepalive"), [("5.5.1", 1000, None), ("5.8.0", 1000, 2000), ("6.3.1", 1000, 2000)]
    )
    def test_the_lock_is_that_of_the_file(self, release: str, acquire: int, keepalive: int | None) -> None:
        story = explain_host_by_name(shop(release=release), "orders-mq01-a")
        assert entry(story, "store", "lock").data == {"acquire_ms": acquire}
        assert entry(story, "store", "keep-alive").data == {"keepalive_ms": keepalive}

    def test_a_lease_has_its_length_its_renewal_and_its_holder(self) -> None:
        story = explain_host_by_name(shop(ha="shared-jdbc", jdbc=JDBC, lock_acquire_interval=8000), "orders-mq01-b")
        lease = entry(story, "store", "lease")
        assert lease.data == {"acquire_ms": 8000, "holder": "orders-mq01-b"}
        assert (lease.variable, lease.origin) == ("activemq_lock_acquire_interval", "inventory")
        assert entry(story, "store", "keep-alive").data == {"keepalive_ms": 4000}

    def test_a_pure_slave_says_from_where_it_copies(self) -> None:
        story = explain_host_by_name(shop(ha="pure", release="5.5.1"), "orders-mq02-b")
        assert entry(story, "store", "copies from").text == "nio://orders-mq02-a.example.com:61618"


class TestLinks:
    def test_a_link_names_the_entry_of_activemq_links_that_made_it(self) -> None:
        links = [
            {"from": "billing", "to": "orders"},
            {"from": "orders-mq01", "to": "billing", "duplex": True, "include": ["queue://a.>"], "exclude": ["queue://a.b"]},
        ]  # fmt: skip
        found = fleet("orders-mq01", "orders-mq02", "billing-mq01", links=links)
        out = entry(explain_host_by_name(found, "orders-mq01-a"), "links-out", "orders-mq01-to-billing-mq01")
        assert out.variable == "activemq_links[1]"
        assert "messages flow in both directions" in out.text
        assert "the link carries only queue://a.>" in out.details
        assert "the link does not carry queue://a.b" in out.details
        assert out.data["uri"] in out.details
        within = entry(explain_host_by_name(found, "orders-mq01-a"), "links-out", "orders-mq01-to-orders-mq02")
        assert (within.variable, within.origin) == ("activemq_topology", "default")

    def test_a_link_between_pairs_of_one_group_is_not_said_to_be_of_the_topology(self) -> None:
        found = shop(topology="none", links=[{"from": "orders-mq01", "to": "orders-mq02", "name": "extra"}])
        assert entry(explain_host_by_name(found, "orders-mq01-b"), "links-out", "extra").variable == "activemq_links[0]"

    def test_a_group_whose_name_begins_alike_is_not_taken_for_the_target(self) -> None:
        links = [{"from": "orders", "to": "shop"}, {"from": "orders", "to": "shop-north"}]
        found = fleet("orders-mq01", "shop-mq01", "shop-north-mq01", links=links)
        story = explain_host_by_name(found, "orders-mq01-a")
        assert entry(story, "links-out", "orders-mq01-to-shop-north-mq01").variable == "activemq_links[1]"

    def test_a_link_that_leads_here_says_who_dials_and_whether_messages_go_back(self) -> None:
        found = fleet("hub-mq01", "shop-mq01", links=[{"from": "shop", "to": "hub", "duplex": True}])
        incoming = entry(explain_host_by_name(found, "hub-mq01-b"), "links-in", "shop-mq01-to-hub-mq01")
        assert incoming.text == (
            "the active node of shop-mq01-a and shop-mq01-b opens this masterslave link: messages flow in both "
            "directions"
        )
        assert "hub-mq01-a.example.com:61616, hub-mq01-b.example.com:61616" in incoming.details[0]

    def test_section_without_links_is_one_line(self) -> None:
        alone = explanation_to_text(explain_host_by_name(fleet("orders-mq01", nodes="a", ha="none"), "orders-mq01-a"))
        assert "\nIncoming links\n  none\n\n" in alone
        standby = explanation_to_text(explain_host_by_name(shop(ha="pure", release="5.5.1"), "orders-mq01-b"))
        assert (
            "\nIncoming links\n  none (no broker can open a link to orders-mq01-b.example.com, which has no" in standby
        )

    def test_multicast_names_the_brokers_that_hear_it(self) -> None:
        found = shop(ha="pure", release="5.5.1")
        heard = entry(explain_host_by_name(found, "orders-mq01-a"), "links-in", "multicast")
        assert heard.data["from"] == ["orders-mq02-a.example.com", "orders-mq02-b.example.com"]
        assert labels(explain_host_by_name(found, "orders-mq01-b"), "links-in") == ["none"]

    def test_a_link_to_the_other_node_of_a_shared_store_is_said_to_be_never_up(self) -> None:
        story = explain_host_by_name(fleet("orders-mq01", pair_links="static"), "orders-mq01-a")
        (link,) = story.section("links-out").entries
        assert link.why.startswith("this link is never up")
        assert link.variable == "activemq_pair_links"

    @pytest.mark.parametrize(
        ("release", "said"),
        [
            ("5.8.0", "networkTTL 1: a message crosses at most 1 bridge"),
            ("6.3.1", "a message crosses any number of bridges"),
        ],
    )
    def test_how_far_a_message_goes_is_told(self, release: str, said: str) -> None:
        assert said in page(shop(release=release), "orders-mq01-a")


class TestWhenItDies:
    def test_shared_file_bounds_the_take_over_by_its_own_lock_interval(self) -> None:
        story = explain_host_by_name(shop(lock_acquire_interval=10_000), "orders-mq01-a")
        assert entry(story, "dies", "takes over").data["by"] == "orders-mq01-b.example.com"
        within = entry(story, "dies", "within")
        assert within.data["seconds"] == 15
        assert within.origin == "inventory"

    def test_a_lease_has_to_end_first(self) -> None:
        story = explain_host_by_name(shop(ha="shared-jdbc", jdbc=JDBC), "orders-mq01-a")
        assert entry(story, "dies", "within").data["seconds"] == 25
        assert "measured" not in labels(story, "dies")

    def test_a_pure_master_is_followed_by_its_slave_which_drains_to_the_other_masters(self) -> None:
        story = explain_host_by_name(shop(ha="pure", release="5.5.1"), "orders-mq01-a")
        assert entry(story, "dies", "takes over").text == "orders-mq01-b.example.com"
        drained, kept = entries(story, "dies", "messages")
        assert "drain to orders-mq02-a if" in drained.text
        assert "durable topic subscriptions stay" in kept.text
        assert "copies the newer store to the other node" in entry(story, "dies", "recovery").text

    def test_the_only_pure_master_has_nobody_to_drain_to(self) -> None:
        story = explain_host_by_name(fleet("orders-mq01", ha="pure", release="5.5.1"), "orders-mq01-a")
        assert entry(story, "dies", "messages").why == "group orders has no other master to which they could drain"

    def test_without_its_pure_slave_a_master_goes_on_without_a_copy(self) -> None:
        story = explain_host_by_name(shop(ha="pure", release="5.5.1"), "orders-mq01-b")
        assert "orders-mq01-a.example.com continues" in entry(story, "dies", "takes over").why
        assert "have no copy" in entry(story, "dies", "messages").text

    def test_nobody_takes_over_from_a_single_broker(self) -> None:
        story = explain_host_by_name(shop(ha="none"), "orders-mq01-a")
        assert entry(story, "dies", "takes over").data == {"by": None, "seconds": None}
        assert entry(story, "clients", "Java").data["failover"].count("tcp://") == 1

    @pytest.mark.parametrize(
        ("watchdog", "said"),
        [("warn", "does not kill it"), ("kill", "kills the broker"), ("off", "no watchdog checks the broker")],
    )
    def test_a_process_that_hangs_keeps_its_lock(self, watchdog: str, said: str) -> None:
        hangs = entry(explain_host_by_name(shop(watchdog=watchdog), "orders-mq01-a"), "dies", "when it hangs")
        assert said in hangs.text

    def test_what_becomes_of_its_agents_is_told(self) -> None:
        agents = entry(explain_host_by_name(with_agents(), "orders-mq01-a"), "dies", "agents")
        assert agents.text == "till0.example.com continue their sessions on orders-mq01-b.example.com"

    def test_many_agents_are_counted(self) -> None:
        story = explain_host_by_name(with_agents(30), "orders-mq01-a")
        assert "and 18 more" in entry(story, "dies", "agents").text
        assert "30 in total" in entry(story, "pointing", "agents").text


class TestWhoUsesIt:
    def test_accounts_are_named_with_their_groups_and_where_they_are_set(self) -> None:
        users = [{"name": "app", "password": "a secret of app", "groups": ["clients"]}]
        story = explain_host_by_name(with_agents(users=users), "orders-mq01-a")
        told = {entry.label: (entry.text, entry.variable) for entry in story.section("accounts").entries}
        assert told["app"] == ("in the user groups clients", "activemq_users[0].password")
        assert told["net"] == ("in the user groups activemq-network", "activemq_network_password")
        assert told["till"] == ("in the user groups activemq-agents", "activemq_agent_password")

    def test_rights_are_told_by_destination(self) -> None:
        acl = [{"destination": "a.>", "kind": "queue", "read": ["clients"]}]
        assert entry(explain_host_by_name(shop(acl=acl), "orders-mq01-a"), "accounts", "queue a.>").text.startswith(
            "read clients"
        )

    def test_clients_dial_both_nodes_preferred_master_first(self) -> None:
        story = explain_host_by_name(shop(master_node="b"), "orders-mq01-a")
        assert entry(story, "clients", "Java").text.startswith(
            "failover:(tcp://orders-mq01-b.example.com:61616,tcp://orders-mq01-a.example.com:61616)"
        )
        addresses = [(f"orders-mq01-{node}.example.com", 1883) for node in "ba"]
        assert entry(story, "clients", "mb.urls").text == format_mb_urls_of_agent_conf(addresses)

    def test_mb_urls_of_an_agent_are_those_of_its_file(self) -> None:
        found = with_agents()
        told = entry(explain_host_by_name(found, "till0"), "told", "mb.urls").data["mb_urls"]
        assert f"mb.urls = {told}\n" in render_agent(found.agents[0])["agent.conf"].decode()

    @pytest.mark.parametrize(
        ("pair", "why", "origin"),
        [("orders-mq02", "set by hand", "inventory"), (None, "a stable hash of the host name", "default")],
    )
    def test_an_agent_knows_why_its_home_is_its_home(self, pair: str | None, why: str, origin: str) -> None:
        agent = AGENT | ({"activemq_agent_pair": pair} if pair else {})
        found = build_fleet(hosts("orders-mq01", "orders-mq02") | {"till": agent}, {AGENTS: ["till"]})
        home = entry(explain_host_by_name(found, "till"), "home", "home pair")
        assert home.why.startswith(why)
        assert home.origin == origin
        assert home.text == found.agents[0].pair

    def test_a_balancer_points_at_preferred_masters_of_a_pure_group(self) -> None:
        found = build_fleet(hosts("orders-mq01", ha="pure", release="5.5.1") | {"lb1": {}}, {BALANCERS: ["lb1"]})
        assert entry(explain_host_by_name(found, "lb1"), "balances", "orders").text == "orders-mq01-a"
        assert (
            "does not forward clients to orders-mq01-b"
            in entry(explain_host_by_name(found, "orders-mq01-b"), "pointing", "lb1").text
        )


class TestFilesAndFindings:
    def test_every_file_of_the_host_is_there_with_its_mode(self) -> None:
        found = shop(extra_files=[{"path": "conf/mine.txt", "content": "x"}])
        story = explain_host_by_name(found, "orders-mq01-a")
        told = {
            entry.data["path"]: entry.data["mode"] for entry in story.section("files").entries if entry.data.get("mode")
        }
        assert set(told) == set(render_broker(found.broker("orders-mq01-a")))
        assert told["conf/credentials.properties"] == "0640"
        assert told["conf/activemq.xml"] == "0640"
        assert entry(story, "files", "conf/mine.txt").variable == "activemq_extra_files[0]"

    @pytest.mark.parametrize("release", ["5.5.1", "5.18.3", "6.2.7", "6.3.1"])
    def test_the_use_of_every_file_of_ours_is_known(self, release: str) -> None:
        story = explain_host_by_name(shop(release=release), "orders-mq01-a")
        assert [
            entry.label for entry in story.section("files").entries if "another file of the broker" in entry.text
        ] == []

    def test_findings_of_both_nodes_are_told_with_their_fix(self) -> None:
        variables = hosts("orders-mq01")
        variables["orders-mq01-b.example.com"]["activemq_store_directory"] = "/elsewhere"
        found = build_fleet(variables, {})
        for node in "ab":
            told = entry(explain_host_by_name(found, f"orders-mq01-{node}"), "findings", "error T009")
            assert told.details == (
                "fix: set activemq_store_directory to the same value for all brokers of pair orders-mq01",
            )
            assert told.text.startswith("orders-mq01-b.example.com: ") is (node == "a")

    def test_finding_of_both_nodes_is_listed_once_with_both_names(self) -> None:
        built = shop()
        first = Finding(
            rule="S022",
            severity="info",
            host="orders-mq01-a.example.com",
            message="5.5.1 is unsupported",
            fix="upgrade",
        )
        second = replace(first, host="orders-mq01-b.example.com", file="conf/activemq.xml", line=3)
        both = [replace(first, message="same"), replace(first, message="same", host=second.host, line=4)]
        story = explain_host_by_name(replace(built, findings=(first, second, *both)), "orders-mq01-a")
        assert [each.text for each in entries(story, "findings", "info S022")] == [
            "5.5.1 is unsupported",
            "orders-mq01-a.example.com and orders-mq01-b.example.com: same",
            "orders-mq01-b.example.com: conf/activemq.xml:3: 5.5.1 is unsupported",
        ]

    def test_a_waived_finding_and_an_unused_waiver_are_told(self) -> None:
        waivers = [
            {"rule": "T002", "reason": "b comes in May", "hosts": ["orders-*"]},
            {"rule": "S001", "reason": "behind a wall", "until": "2999-12-31"},
            {"rule": "S002", "reason": "of others", "hosts": ["billing-*"]},
        ]
        story = explain_host_by_name(fleet("orders-mq01", nodes="a", waivers=waivers), "orders-mq01-a")
        assert labels(story, "findings") == ["waived T002", "waiver S001"]
        assert "until 2999-12-31" in entry(story, "findings", "waiver S001").text
