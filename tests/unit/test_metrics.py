"""Metrics of brokers: what the exporter reads and serves, its access, and the files for Prometheus."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from activemq_fleet.artifacts import prometheus_jmx_exporter_jar
from activemq_fleet.errors import ArtifactError, SettingsError
from activemq_fleet.node.state import operation_record_file
from activemq_fleet.node.textfile import MetricSample, to_prometheus_text
from activemq_fleet.render import SECRET_FILES, render_broker, render_fleet
from activemq_fleet.render.java_command import java_options
from activemq_fleet.render.monitoring import ALERTS, alert_and_recording_rules_yaml
from activemq_fleet.render.monitoring.dashboards import DASHBOARDS, dashboard_files
from activemq_fleet.topology import Broker, build_fleet
from scripts import alerts_page
from tests.unit.fleets import fleet, hosts, rules_of_findings

CONF = "conf/metrics.yml"
LOGIN = {"metrics_username": "prom", "metrics_password": "s3cret-of-metrics"}
AGENT = {"metrics_address": 9464, "username": "kiosk", "password": "kiosk's"}


def broker_with_metrics(release: str = "5.18.3", **variables: Any) -> Broker:
    return fleet("o-mq01", release=release, metrics=True, **variables).broker("o-mq01-a")


def exporter_settings(broker: Broker, *, reveal: bool = False) -> dict[str, Any]:
    settings: dict[str, Any] = yaml.safe_load(render_broker(broker, reveal=reveal)[CONF])
    return settings


def test_broker_without_metrics_has_no_exporter_and_no_metrics_port() -> None:
    broker = fleet("o-mq01").broker("o-mq01-a")
    assert CONF not in render_broker(broker)
    assert "metrics" not in broker.ports
    assert not any("javaagent" in option or "httpserver" in option for option in java_options(broker))
    assert not any(path.startswith("prometheus/") for path in render_fleet(fleet("o-mq01")))


def test_exporter_listens_on_metrics_bind_and_port_plus_offset() -> None:
    (agent_option,) = (option for option in java_options(broker_with_metrics(port_offset=10)) if "javaagent" in option)
    limits = [option for option in java_options(broker_with_metrics()) if "httpserver" in option]
    assert limits == ["-Dsun.net.httpserver.maxReqTime=5", "-Dsun.net.httpserver.maxRspTime=30"]
    assert agent_option.endswith(".jar=127.0.0.1:9414:/var/lib/activemq/activemq/current/conf/metrics.yml")
    (agent_option,) = (
        option for option in java_options(broker_with_metrics(metrics_bind="fe80::1")) if "javaagent" in option
    )
    assert "=[fe80::1]:9404:" in agent_option


@pytest.mark.parametrize(
    ("release", "bean"),
    [
        ("5.5.1", "org.apache.activemq:BrokerName=*,Type=Queue,Destination=orders.in"),
        ("5.7.0", "org.apache.activemq:BrokerName=*,Type=Queue,Destination=orders.in"),
        ("5.8.0", "org.apache.activemq:type=Broker,brokerName=*,destinationType=Queue,destinationName=orders.in"),
        ("6.3.1", "org.apache.activemq:type=Broker,brokerName=*,destinationType=Queue,destinationName=orders.in"),
    ],
)
def test_exporter_reads_only_listed_destinations_and_dead_letters(release: str, bean: str) -> None:
    object_names = exporter_settings(
        broker_with_metrics(release, metrics_destinations=["orders.in", "topic://prices.>"])
    )["includeObjectNames"]
    assert bean in object_names
    destinations = [name for name in object_names if "estination" in name]
    assert len(destinations) == 3
    assert any(name.endswith("=prices.*") for name in destinations)
    assert any(name.endswith("=ActiveMQ.DLQ") for name in destinations)


def test_metric_names_follow_prometheus_conventions() -> None:
    for rule in exporter_settings(broker_with_metrics())["rules"]:
        assert re.fullmatch(r"activemq_[a-z_]+", rule["name"])
        assert (rule["type"] == "COUNTER") == rule["name"].endswith("_total")
        re.compile(rule["pattern"])


@pytest.mark.parametrize(("release", "present"), [("6.2.7", False), ("6.2.8", True), ("5.19.9", True), ("6.3.1", True)])
def test_exception_counters_are_read_on_releases_that_have_them(release: str, present: bool) -> None:
    names = {rule["name"] for rule in exporter_settings(broker_with_metrics(release))["rules"]}
    counters = {"activemq_link_start_exceptions_total", "activemq_bridge_remote_exceptions_total"}
    assert (counters <= names) == present


@pytest.mark.parametrize(("release", "enabled", "count"), [("6.3.1", True, 5), ("6.3.1", None, 0), ("6.1.8", None, 0)])
def test_message_times_are_read_if_policy_records_them(release: str, enabled: bool | None, count: int) -> None:
    policy = {"kind": "queue", "destination": "orders.>"} | (
        {"advanced_message_statistics_enabled": enabled} if enabled else {}
    )
    names = [
        rule["name"] for rule in exporter_settings(broker_with_metrics(release, destination_policies=[policy]))["rules"]
    ]
    assert sum(name.endswith("_timestamp_seconds") for name in names) == count


@pytest.mark.parametrize(
    ("limits", "exported_limit"),
    [(["1k"], None), (["-1", "500"], 500), (["1e3", "900", "70"], 70), ([], None)],
)
def test_exported_connection_limit_is_smallest_number_of_connectors(
    limits: list[str], exported_limit: int | None
) -> None:
    connectors = [
        {"name": f"c{n}", "scheme": "nio", "port": 61616 + n, "options": {"maximumConnections": limit}}
        for n, limit in enumerate(limits)
    ]
    connectors.append({"name": "other", "scheme": "nio", "port": 61700, "options": {}})
    rules = exporter_settings(broker_with_metrics(connectors=connectors))["rules"]
    values = [rule["value"] for rule in rules if rule["name"] == "activemq_broker_connections_limit"]
    assert values == ([] if exported_limit is None else [exported_limit])


def test_secret_is_in_file_of_exporter_only_and_not_in_files_for_prometheus() -> None:
    broker = broker_with_metrics(**LOGIN, metrics_bind="0.0.0.0")
    assert CONF in SECRET_FILES
    assert (
        exporter_settings(broker)["httpServer"]["authentication"]["basic"]["password"] == "@activemq_metrics_password@"
    )
    files = render_broker(broker, reveal=True)
    assert [path for path, content in files.items() if b"s3cret-of-metrics" in content] == [CONF]
    planned = fleet("o-mq01", metrics=True, **LOGIN)
    assert not any(b"s3cret-of-metrics" in content for content in render_fleet(planned).values())


def test_configuration_fingerprint_depends_on_files_and_not_on_secrets() -> None:
    def configuration_fingerprint(**variables: Any) -> str:
        (rule,) = (
            rule
            for rule in exporter_settings(broker_with_metrics(**variables))["rules"]
            if rule["name"] == "activemq_configuration_info"
        )
        return str(rule["labels"]["fingerprint"])

    assert configuration_fingerprint() == configuration_fingerprint()
    assert configuration_fingerprint() != configuration_fingerprint(store_limit="1 gb")
    broker = broker_with_metrics(network_password="another")
    revealed = yaml.safe_load(render_broker(broker, reveal=True)[CONF])["rules"]
    assert configuration_fingerprint() in json.dumps(revealed)


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
def test_error_names_invalid_variable_of_metrics(variables: dict[str, Any], text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        broker_with_metrics(**variables)
    assert any(text in problem for problem in caught.value.problems)


def test_loopback_metrics_and_missing_authentication_are_findings() -> None:
    assert "T033" in rules_of_findings(fleet("o-mq01", metrics=True))
    everywhere = {"metrics_bind": "0.0.0.0"}
    assert "T034" in rules_of_findings(fleet("o-mq01", metrics=True, **everywhere))
    assert not {"T033", "T034"} & set(rules_of_findings(fleet("o-mq01", metrics=True, **everywhere, **LOGIN)))
    variables_by_host = hosts("o-mq01", metrics=True, **everywhere, **LOGIN) | {
        "kiosk": {f"activemq_agent_{name}": value for name, value in AGENT.items()}
    }
    findings = build_fleet(variables_by_host, {"activemq_agents": ["kiosk"]}).findings
    assert [finding.host for finding in findings if finding.rule == "T033"] == ["kiosk"]


def test_brokers_on_same_address_with_same_metrics_port_are_finding() -> None:
    variables_by_host = hosts("o-mq01", metrics=True, address="10.0.0.9")
    variables_by_host["o-mq01-b.example.com"] |= {"activemq_port_offset": 10, "activemq_instance": "second"}
    assert "T005" not in rules_of_findings(build_fleet(variables_by_host, {}))
    conflicting = {name: {**variables, "activemq_metrics_port": port} for (name, variables), port in zip(
        variables_by_host.items(), (9414, 9404), strict=True)}  # fmt: skip
    assert any("9414" in finding.message for finding in build_fleet(conflicting, {}).findings)


def test_prometheus_targets_have_metrics_address_and_labels_of_inventory() -> None:
    files = render_fleet(fleet("o-mq01", metrics=True, metrics_bind="10.1.2.3", **LOGIN))
    first_target, _ = json.loads(files["prometheus/targets/activemq-brokers-prom.json"])
    assert first_target == {
        "targets": ["10.1.2.3:9404"],
        "labels": {"host": "o-mq01-a.example.com", "group": "o", "pair": "o-mq01", "node": "a"},
    }
    planned = yaml.safe_load(files["prometheus/rules/activemq-planned.yml"])["groups"][0]["rules"]
    assert len({rule["labels"]["fingerprint"] for rule in planned}) == 2
    yaml.safe_load(files["prometheus/prometheus.yml"])


def test_single_brokers_whose_names_form_pair_have_their_hosts_as_metric_pair() -> None:
    single_brokers = fleet("o-mq01", ha="none", metrics=True)
    targets = json.loads(render_fleet(single_brokers)["prometheus/targets/activemq-brokers.json"])
    assert [target["labels"]["pair"] for target in targets] == ["o-mq01-a.example.com", "o-mq01-b.example.com"]


def test_prometheus_has_job_for_each_login_and_ca() -> None:
    variables_by_host = hosts("o-mq01", metrics=True, metrics_bind="0.0.0.0", **LOGIN)
    tls = {"keystore": "/k.p12", "keystore_password": "changeit", "alias": "metrics"}
    variables_by_host["o-mq01-a.example.com"]["activemq_metrics_tls"] = {**tls, "ca_file": "/etc/ssl/own-ca.pem"}
    variables_by_host["o-mq01-b.example.com"]["activemq_metrics_tls"] = tls
    files = render_fleet(build_fleet(variables_by_host, {}))
    jobs = {job["job_name"]: job for job in yaml.safe_load(files["prometheus/prometheus.yml"])["scrape_configs"]}
    assert jobs["activemq-brokers-prom-tls-1"]["tls_config"] == {"ca_file": "/etc/ssl/own-ca.pem"}
    assert "tls_config" not in jobs["activemq-brokers-prom"]
    for name in ("activemq-brokers-prom", "activemq-brokers-prom-tls-1"):
        (target,) = json.loads(files[f"prometheus/targets/{name}.json"])
        assert target["labels"]["__scheme__"] == "https"


def test_each_alert_has_section_on_page_and_links_to_it() -> None:
    assert alerts_page.main(["--check"]) == 0, "run `make rules`"
    page = alerts_page.PAGE.read_text()
    written = yaml.safe_load(alert_and_recording_rules_yaml("https://wiki.example.com/alerts"))["groups"][0]["rules"]
    for alert in ALERTS:
        assert f"\n## {alert.name}\n" in page
        (rule,) = (rule for rule in written if rule.get("alert") == alert.name)
        assert rule["annotations"]["runbook_url"] == f"https://wiki.example.com/alerts#{alert.documentation_anchor}"
        assert rule["labels"]["severity"] in ("critical", "warning", "info")


def test_alerts_advise_no_step_that_playbooks_refuse_or_that_holds_messages_back() -> None:
    remedies = {alert.name: alert.todo for alert in ALERTS}

    # The playbook restart refuses a pair whose standby is stopped.
    assert "`restart`" not in remedies["ActiveMQStandbyMissing"]
    assert "systemctl start activemq" in remedies["ActiveMQStandbyMissing"]
    # The messages of a stopped pure broker reach no client.
    assert "For a pure pair, do not stop a broker" in remedies["ActiveMQTwoActiveNodes"]
    # With a guard, STORE/lock is a directory, which no process locks.
    assert "STORE/fence/lock" in remedies["ActiveMQNoActiveNode"]


def test_dashboards_are_json_with_all_panels_inside_grid() -> None:
    files = dashboard_files()
    assert set(files) == {dashboard.name for dashboard in DASHBOARDS}
    for dashboard_json in files.values():
        panels = json.loads(dashboard_json)["panels"]
        assert len({(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}) == len(panels)
        assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 and panel["targets"] for panel in panels)


def test_prometheus_text_escapes_special_characters_in_labels() -> None:
    metrics_text = to_prometheus_text(
        [MetricSample("a_total", "counter", "what", 2, {"x": 'q"\\\n'})], {"host": "h"}
    ).decode()
    assert metrics_text == '# HELP a_total what\n# TYPE a_total counter\na_total{host="h",x="q\\"\\\\\\n"} 2\n'


def test_operation_in_progress_is_written_for_node_exporter(tmp_path: Path) -> None:
    labels = {"host": "o-mq01-a", "group": "o", "pair": "o-mq01", "node": "a"}
    for kind, value in (("begin", 1), ("end", 0)):
        operation_record_file.write_operation_in_progress_metrics(kind, "restart", labels, str(tmp_path))
        file = tmp_path / "activemq-fleet/o-mq01-a.prom"
        assert f'pair="o-mq01",node="a",operation="restart"}} {value}\n' in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o644
    assert file.parent.stat().st_mode & 0o777 == 0o755


def test_exporter_jar_with_wrong_checksum_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "agent.jar").write_bytes(b"another")
    with pytest.raises(ArtifactError, match="its SHA-512 checksum begins with"):
        prometheus_jmx_exporter_jar(tmp_path / "agent.jar")
