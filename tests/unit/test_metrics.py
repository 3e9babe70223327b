"""Metrics of brokers: what the exporter reads and serves, to whom, and what Prometheus is told of the fleet."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from activemq_fleet.artifacts import prometheus_jmx_exporter_jar
from activemq_fleet.errors import ArtifactError, SettingsError
from activemq_fleet.node.state import operation_record
from activemq_fleet.node.textfile import MetricSample, to_prometheus_text
from activemq_fleet.render import SECRET_FILES, render_broker, render_fleet
from activemq_fleet.render.java_command import java_options
from activemq_fleet.render.monitoring import ALERTS, alert_rules_yaml
from activemq_fleet.render.monitoring.dashboards import DASHBOARDS, dashboard_files
from activemq_fleet.topology import Broker, build_fleet
from scripts import alerts_page
from tests.unit.fleets import fleet, hosts, rules

CONF = "conf/metrics.yml"
LOGIN = {"metrics_username": "prom", "metrics_password": "s3cret-of-metrics"}
AGENT = {"metrics_address": 9464, "username": "kiosk", "password": "kiosk's"}


def broker(release: str = "5.18.3", **variables: Any) -> Broker:
    return fleet("o-mq01", release=release, metrics=True, **variables).broker("o-mq01-a")


def exporter(one: Broker, *, reveal: bool = False) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(render_broker(one, reveal=reveal)[CONF])
    return found


def test_without_it_nothing_is_rendered_and_nothing_listens() -> None:
    one = fleet("o-mq01").broker("o-mq01-a")
    assert CONF not in render_broker(one)
    assert "metrics" not in one.ports
    assert not any("javaagent" in option or "httpserver" in option for option in java_options(one))
    assert not any(path.startswith("prometheus/") for path in render_fleet(fleet("o-mq01")))


def test_it_listens_on_loopback_unless_told_otherwise_and_minds_the_offset() -> None:
    (option,) = (one for one in java_options(broker(port_offset=10)) if "javaagent" in one)
    limits = [one for one in java_options(broker()) if "httpserver" in one]
    assert limits == ["-Dsun.net.httpserver.maxReqTime=5", "-Dsun.net.httpserver.maxRspTime=30"]
    assert option.endswith(".jar=127.0.0.1:9414:/var/lib/activemq/activemq/current/conf/metrics.yml")
    (option,) = (one for one in java_options(broker(metrics_bind="fe80::1")) if "javaagent" in one)
    assert "=[fe80::1]:9404:" in option


@pytest.mark.parametrize(
    ("release", "bean"),
    [
        ("5.5.1", "org.apache.activemq:BrokerName=*,Type=Queue,Destination=orders.in"),
        ("5.7.0", "org.apache.activemq:BrokerName=*,Type=Queue,Destination=orders.in"),
        ("5.8.0", "org.apache.activemq:type=Broker,brokerName=*,destinationType=Queue,destinationName=orders.in"),
        ("6.3.1", "org.apache.activemq:type=Broker,brokerName=*,destinationType=Queue,destinationName=orders.in"),
    ],
)
def test_only_destinations_of_the_list_and_dead_letters_are_read(release: str, bean: str) -> None:
    read = exporter(broker(release, metrics_destinations=["orders.in", "topic://prices.>"]))["includeObjectNames"]
    assert bean in read
    named = [text for text in read if "estination" in text]
    assert len(named) == 3
    assert any(text.endswith("=prices.*") for text in named)
    assert any(text.endswith("=ActiveMQ.DLQ") for text in named)


def test_names_and_units_are_those_of_prometheus() -> None:
    for rule in exporter(broker())["rules"]:
        assert re.fullmatch(r"activemq_[a-z_]+", rule["name"])
        assert (rule["type"] == "COUNTER") == rule["name"].endswith("_total")
        re.compile(rule["pattern"])


@pytest.mark.parametrize(("release", "counted"), [("6.2.7", False), ("6.2.8", True), ("5.19.9", True), ("6.3.1", True)])
def test_exception_counters_are_read_on_releases_that_have_them(release: str, counted: bool) -> None:
    names = {rule["name"] for rule in exporter(broker(release))["rules"]}
    counters = {"activemq_link_start_exceptions_total", "activemq_bridge_remote_exceptions_total"}
    assert (counters <= names) == counted


@pytest.mark.parametrize(("release", "enabled", "shown"), [("6.3.1", True, 5), ("6.3.1", None, 0), ("6.1.8", None, 0)])
def test_message_times_are_read_where_a_policy_records_them(release: str, enabled: bool | None, shown: int) -> None:
    policy = {"kind": "queue", "destination": "orders.>"} | (
        {"advanced_message_statistics_enabled": enabled} if enabled else {}
    )
    names = [rule["name"] for rule in exporter(broker(release, destination_policies=[policy]))["rules"]]
    assert sum(name.endswith("_timestamp_seconds") for name in names) == shown


def test_secret_is_in_file_of_exporter_only_and_not_in_files_for_prometheus() -> None:
    one = broker(**LOGIN, metrics_bind="0.0.0.0")
    assert CONF in SECRET_FILES
    assert exporter(one)["httpServer"]["authentication"]["basic"]["password"] == "@activemq_metrics_password@"
    shown = render_broker(one, reveal=True)
    assert [path for path, content in shown.items() if b"s3cret-of-metrics" in content] == [CONF]
    found = fleet("o-mq01", metrics=True, **LOGIN)
    assert not any(b"s3cret-of-metrics" in content for content in render_fleet(found).values())


def test_the_fingerprint_follows_the_files_and_not_the_secrets() -> None:
    def mark(**variables: Any) -> str:
        (rule,) = (r for r in exporter(broker(**variables))["rules"] if r["name"] == "activemq_configuration_info")
        return str(rule["labels"]["fingerprint"])

    assert mark() == mark()
    assert mark() != mark(store_limit="1 gb")
    one = broker(network_password="another")
    revealed = yaml.safe_load(render_broker(one, reveal=True)[CONF])["rules"]
    assert mark() in json.dumps(revealed)


@pytest.mark.parametrize(
    ("variables", "text"),
    [
        ({"metrics_username": "prom"}, "activemq_metrics_username is set, but activemq_metrics_password is not"),
        (
            {"metrics_destinations": ["a b"]},
            "in activemq_metrics_destinations[0], the value 'a b' must be the name of a queue",
        ),
        ({"metrics_port": 0}, "activemq_metrics_port"),
        ({"metrics_tls": {"keystore": "/k"}}, "activemq_metrics_tls.keystore_password is required, but missing"),
        (
            {"connectors": [{"name": "metrics", "scheme": "nio", "port": 1}]},
            "named 'metrics', which is reserved for another port",
        ),
    ],
)
def test_a_wrong_variable_is_named(variables: dict[str, Any], text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        broker(**variables)
    assert any(text in problem for problem in caught.value.problems)


def test_who_cannot_scrape_and_who_can_is_found() -> None:
    assert "T033" in rules(fleet("o-mq01", metrics=True))
    everywhere = {"metrics_bind": "0.0.0.0"}
    assert "T034" in rules(fleet("o-mq01", metrics=True, **everywhere))
    assert not {"T033", "T034"} & set(rules(fleet("o-mq01", metrics=True, **everywhere, **LOGIN)))
    found = hosts("o-mq01", metrics=True, **everywhere, **LOGIN) | {
        "kiosk": {f"activemq_agent_{name}": value for name, value in AGENT.items()}
    }
    said = build_fleet(found, {"activemq_agents": ["kiosk"]}).findings
    assert [one.host for one in said if one.rule == "T033"] == ["kiosk"]


def test_two_brokers_of_one_machine_must_not_share_the_port() -> None:
    found = hosts("o-mq01", metrics=True, address="10.0.0.9")
    found["o-mq01-b.example.com"] |= {"activemq_port_offset": 10, "activemq_instance": "second"}
    assert "T005" not in rules(build_fleet(found, {}))
    clash = {name: {**variables, "activemq_metrics_port": port} for (name, variables), port in zip(
        found.items(), (9414, 9404), strict=True)}  # fmt: skip
    assert any("9414" in one.message for one in build_fleet(clash, {}).findings)


def test_targets_are_what_is_listened_on_with_the_labels_of_the_inventory() -> None:
    files = render_fleet(fleet("o-mq01", metrics=True, metrics_bind="10.1.2.3", **LOGIN))
    first, _ = json.loads(files["prometheus/targets/activemq-brokers-prom.json"])
    assert first == {
        "targets": ["10.1.2.3:9404"],
        "labels": {"host": "o-mq01-a.example.com", "group": "o", "pair": "o-mq01", "node": "a"},
    }
    planned = yaml.safe_load(files["prometheus/rules/activemq-planned.yml"])["groups"][0]["rules"]
    assert len({rule["labels"]["fingerprint"] for rule in planned}) == 2
    yaml.safe_load(files["prometheus/prometheus.yml"])


def test_prometheus_has_a_job_for_each_login_and_ca() -> None:
    found = hosts("o-mq01", metrics=True, metrics_bind="0.0.0.0", **LOGIN)
    tls = {"keystore": "/k.p12", "keystore_password": "changeit", "alias": "metrics"}
    found["o-mq01-a.example.com"]["activemq_metrics_tls"] = {**tls, "ca_file": "/etc/ssl/own-ca.pem"}
    found["o-mq01-b.example.com"]["activemq_metrics_tls"] = tls
    files = render_fleet(build_fleet(found, {}))
    jobs = {one["job_name"]: one for one in yaml.safe_load(files["prometheus/prometheus.yml"])["scrape_configs"]}
    assert jobs["activemq-brokers-prom-tls-1"]["tls_config"] == {"ca_file": "/etc/ssl/own-ca.pem"}
    assert "tls_config" not in jobs["activemq-brokers-prom"]
    for name in ("activemq-brokers-prom", "activemq-brokers-prom-tls-1"):
        (target,) = json.loads(files[f"prometheus/targets/{name}.json"])
        assert target["labels"]["__scheme__"] == "https"


def test_every_alert_has_its_place_on_the_page_and_links_to_it() -> None:
    assert alerts_page.main(["--check"]) == 0, "run `make rules`"
    page = alerts_page.PAGE.read_text()
    written = yaml.safe_load(alert_rules_yaml("https://wiki.example.com/alerts"))["groups"][0]["rules"]
    for alert in ALERTS:
        assert f"\n## {alert.name}\n" in page
        (rule,) = (rule for rule in written if rule.get("alert") == alert.name)
        assert rule["annotations"]["runbook_url"] == f"https://wiki.example.com/alerts#{alert.documentation_anchor}"
        assert rule["labels"]["severity"] in ("critical", "warning", "info")


def test_dashboards_are_json_with_every_panel_inside_the_grid() -> None:
    files = dashboard_files()
    assert set(files) == {one.name for one in DASHBOARDS}
    for content in files.values():
        panels = json.loads(content)["panels"]
        assert len({(one["gridPos"]["x"], one["gridPos"]["y"]) for one in panels}) == len(panels)
        assert all(one["gridPos"]["x"] + one["gridPos"]["w"] <= 24 and one["targets"] for one in panels)


def test_a_text_file_escapes_what_a_label_may_hold() -> None:
    text = to_prometheus_text([MetricSample("a_total", "counter", "what", 2, {"x": 'q"\\\n'})], {"host": "h"}).decode()
    assert text == '# HELP a_total what\n# TYPE a_total counter\na_total{host="h",x="q\\"\\\\\\n"} 2\n'


def test_planned_work_is_written_for_the_node_exporter_to_read(tmp_path: Path) -> None:
    labels = {"host": "o-mq01-a", "group": "o", "pair": "o-mq01", "node": "a"}
    for kind, value in (("begin", 1), ("end", 0)):
        operation_record.write_operation_in_progress_metrics(kind, "restart", labels, str(tmp_path))
        file = tmp_path / "activemq-fleet/o-mq01-a.prom"
        assert f'pair="o-mq01",node="a",operation="restart"}} {value}\n' in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o644
    assert file.parent.stat().st_mode & 0o777 == 0o755


def test_another_jar_than_the_one_that_was_chosen_is_refused(tmp_path: Path) -> None:
    (tmp_path / "agent.jar").write_bytes(b"another")
    with pytest.raises(ArtifactError, match="its SHA-512 checksum begins with"):
        prometheus_jmx_exporter_jar(tmp_path / "agent.jar")
