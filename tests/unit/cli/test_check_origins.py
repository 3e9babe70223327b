"""Positions in the inventory of findings about rendered files: the line that sets the reported value."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.cli.main import main
from activemq_fleet.findings import error_finding
from activemq_fleet.inventory import read_inventory
from activemq_fleet.inventory_positions import position_of_reported_value
from activemq_fleet.value_origins import origin_of_value

HOSTS = """\
activemq_brokers:
  hosts:
    orders-mq01-a:
    orders-mq01-b:
"""
VARIABLES = """\
activemq_release: 5.18.3
activemq_ha: shared-file
activemq_store_directory: /mnt/store
activemq_users:
  - name: shop
    password: first-secret
    groups: [shops]
  - name: bill
    password: second-secret
    groups: [billing]
activemq_acl:
  - {destination: "orders.>", kind: queue, read: [shops], write: [shops]}
  - destination: "bills.>"
    kind: queue
    read:
      - shops
      - biling
    write: [billing]
activemq_broker_attributes:
  useShutdownHook: "false"
  persistent: "false"
activemq_xml_fragments:
  - parent: broker/plugins
    xml: |
      <statisticsBrokerPlugin/>
      <loggingBrokerPlugin logAl="true"/>
"""


def line_of(text: str) -> int:
    return next(number for number, line in enumerate(VARIABLES.splitlines(), 1) if text in line)


EXPECTED = {
    "S031": line_of("- biling"),
    "L019": line_of("persistent"),
    "V002": line_of("logAl"),
    "S002": line_of("activemq_release"),
}


@pytest.fixture
def inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "hosts.yml").write_text(HOSTS)
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars" / "all.yml").write_text(VARIABLES)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def report(inventory: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    def run_check(form: str, *options: str) -> str:
        main(["check", "-i", "hosts.yml", "--format", form, *options])
        return capsys.readouterr().out

    return run_check


SELECTED = [word for rule in EXPECTED for word in ("--select", rule)]


def test_json_report_names_inventory_line_that_sets_reported_value(report: Callable[..., str]) -> None:
    findings = json.loads(report("json", *SELECTED))["findings"]
    places = {finding["rule"]: finding["variable"] for finding in findings}
    assert places == {rule: {"file": "group_vars/all.yml", "line": line} for rule, line in EXPECTED.items()}


@pytest.mark.parametrize("rule", sorted(EXPECTED))
def test_text_report_shows_inventory_line_and_rendered_position(report: Callable[..., str], rule: str) -> None:
    line = next(line for line in report("text", *SELECTED).splitlines() if f" {rule} " in line)
    assert f" {rule} group_vars/all.yml:{EXPECTED[rule]}" in line
    assert ("(conf/activemq.xml:" in line) == (rule != "S002")


def test_annotations_are_at_inventory_line_that_sets_reported_value(report: Callable[..., str]) -> None:
    for rule, line in EXPECTED.items():
        assert f"file=group_vars/all.yml,line={line},title={rule} " in report("github", *SELECTED)
    places = {
        (issue["check_name"], *_codeclimate_position(issue["location"]))
        for issue in json.loads(report("codeclimate", *SELECTED))
    }
    assert places == {(rule, "group_vars/all.yml", line) for rule, line in EXPECTED.items()}
    [run] = json.loads(report("sarif", *SELECTED))["runs"]
    sarif_places = {(result["ruleId"], _sarif_position(result)) for result in run["results"]}
    assert sarif_places == {(rule, ("group_vars/all.yml", line)) for rule, line in EXPECTED.items()}


def _codeclimate_position(location: dict[str, Any]) -> tuple[str, int]:
    return location["path"], location["lines"]["begin"]


def _sarif_position(result: dict[str, Any]) -> tuple[str, int]:
    place = result["locations"][0]["physicalLocation"]
    return place["artifactLocation"]["uri"], place["region"]["startLine"]


def test_finding_about_extra_variable_has_line_in_extra_variables_file(
    inventory: Path, report: Callable[..., str]
) -> None:
    (inventory / "more.yml").write_text("---\nactivemq_broker_attributes: {persistent: 'false'}\n")
    findings = json.loads(report("json", "-e", "@more.yml"))["findings"]
    places = [finding["variable"] for finding in findings if finding["rule"] == "L019"]
    assert places[0] == {"file": "more.yml", "line": 2}


MAPPINGS = """\
activemq_release: 5.18.3
activemq_ha: none
activemq_topology: none
activemq_kahadb:
  journal_max_file_length: 1mb
  enable_journal_disk_syncs: false
activemq_usage:
  store: {limit: 1 kb}
activemq_links:
  - {from: orders, to: north, addresses: ["north:61616"], attributes: {prefetchSize: 10}}
  - from: orders
    to: south
    addresses: ["south:61616"]
    attributes: {prefetchSize: 0}
"""


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("C007", "limit: 1 kb"),
        ("C017", "enable_journal_disk_syncs"),
        ("N030", "prefetchSize: 0"),
    ],
)
def test_finding_about_key_of_mapping_has_inventory_line_of_key(
    inventory: Path, report: Callable[..., str], rule: str, text: str
) -> None:
    (inventory / "group_vars" / "all.yml").write_text(MAPPINGS)
    findings = json.loads(report("json", "--select", rule))["findings"]
    [line] = {finding["variable"]["line"] for finding in findings}
    assert text in MAPPINGS.splitlines()[line - 1]


FRAGMENTS = """\
activemq_release: 5.18.3
activemq_ha: none
activemq_topology: none
activemq_destination_policies:
  - {destination: '>', kind: topic, gc_inactive_destinations: true}
  - {destination: '>', kind: queue, gc_inactive_destinations: true}
activemq_xml_fragments:
  - parent: broker/destinationPolicy/policyMap/policyEntries
    xml: |
      <!-- <policyEntry queue=">" inactiveTimoutBeforeGC="600000"/> -->
      <policyEntry topic=">" inactiveTimoutBeforeGC="600000"/>
  - xml: |-
      <destinationPolicy>
        <policyMap>
          <policyEntries>
            <policyEntry
                queue=">"
                inactiveTimoutBeforeGC = '600000'/>
          </policyEntries>
        </policyMap>
      </destinationPolicy>
"""


def test_finding_about_attribute_in_xml_fragment_has_its_inventory_line(
    inventory: Path, report: Callable[..., str]
) -> None:
    (inventory / "group_vars" / "all.yml").write_text(FRAGMENTS)
    findings = json.loads(report("json", "--select", "V060"))["findings"]
    lines = {finding["variable"]["line"] for finding in findings}
    assert sorted(FRAGMENTS.splitlines()[line - 1].strip() for line in lines) == [
        '<policyEntry topic=">" inactiveTimoutBeforeGC="600000"/>',
        "inactiveTimoutBeforeGC = '600000'/>",
    ]


@pytest.mark.parametrize("kind", ["queue", "topic"])
def test_finding_about_destination_policy_has_inventory_line_of_its_kind(inventory: Path, kind: str) -> None:
    variables = FRAGMENTS.partition("activemq_xml_fragments")[0]
    (inventory / "group_vars" / "all.yml").write_text(variables)
    path = [("policyEntry", {kind: ">", "gcInactiveDestinations": "true"}), ("destinationPolicy", {})]
    finding = replace(
        error_finding("X001", "orders-mq01-a", "", ""), origin=origin_of_value(path, "gcInactiveDestinations")
    )
    positions = read_inventory(["hosts.yml"], with_positions=True).positions["orders-mq01-a"]

    place = position_of_reported_value(positions, finding)

    assert place is not None
    assert f"kind: {kind}" in variables.splitlines()[place.line - 1]


REMEDIES = """\
activemq_release: 5.18.3
activemq_ha: none
activemq_topology: none
activemq_links:
  - {from: orders, to: north, addresses: ["north:61616"], name: to-north, attributes: {conduitSubscriptions: false}}
activemq_connectors:
  - {name: openwire, scheme: tcp, port: 61616, options: {maximumConnections: 5}}
activemq_jmx: {port: 1199}
activemq_broker_attributes: {persistent: "yes"}
activemq_xml_fragments:
  - {parent: broker/systemUsage/systemUsage/storeUsage, xml: <storeUsage limit="1.5 gb"/>}
  - parent: broker/transportConnectors
    xml: <transportConnector name="more" uri="nio://0.0.0.0:99999?a=1&amp;b=2"/>
  - parent: broker/destinationPolicy/policyMap/policyEntries
    xml: <policyEntry queue=">" inactiveTimoutBeforeGC="600000"/>
"""


def test_remedy_names_variable_that_inventory_sets(inventory: Path, report: Callable[..., str]) -> None:
    (inventory / "group_vars" / "all.yml").write_text(REMEDIES)
    findings = json.loads(report("json"))["findings"]
    rules = ("N024", "S009", "S017", "V050", "V053", "V060")
    fixes = {(finding["rule"], finding["fix"]) for finding in findings if finding["rule"] in rules}
    size = "10485760 (10 MB), or the size of the largest message, to the"
    assert fixes == {
        (
            "N024",
            "in activemq_links, add topic://> to exclude of the entry for link to-north. For topics, add a second "
            "entry with a different name, exclude: ['queue://>'] and attributes: {conduitSubscriptions: true}",
        ),
        ("S009", f"add wireFormat.maxFrameSize: {size} options of connector openwire in activemq_connectors"),
        ("S009", f"add wireFormat.maxFrameSize={size} connector's URI in activemq_xml_fragments"),
        ("S017", "add users to activemq_jmx, so that JMX requires a password. Or remove activemq_jmx, and use Jolokia"),
        ("V050", 'write a whole number with an optional unit in activemq_xml_fragments, such as limit="1536 mb"'),
        ("V050", "write persistent as true or false in activemq_broker_attributes"),
        ("V053", "in activemq_xml_fragments, write scheme://host:port with a port from 1 to 65535"),
        ("V060", "replace inactiveTimoutBeforeGC with inactiveTimeoutBeforeGC in activemq_xml_fragments"),
    }


def test_remedy_of_network_consumer_priority_names_entry_of_link(inventory: Path, report: Callable[..., str]) -> None:
    variables = REMEDIES.replace("conduitSubscriptions", "decreaseNetworkConsumerPriority")
    (inventory / "group_vars" / "all.yml").write_text(variables)
    [fix] = {f["fix"] for f in json.loads(report("json", "--select", "N023"))["findings"] if f["rule"] == "N023"}
    assert fix.startswith(
        "in activemq_links, set conduitSubscriptions: false in attributes of the entry for link to-north, and add topic://>"
    )


def test_finding_about_default_value_has_only_rendered_position(report: Callable[..., str]) -> None:
    findings = json.loads(report("json", "--select", "S016"))["findings"]
    [place] = {(f["file"], f["line"], f["variable"]) for f in findings if f["rule"] == "S016"}
    assert place[0] == "conf/activemq.xml"
    assert place[2] is None
