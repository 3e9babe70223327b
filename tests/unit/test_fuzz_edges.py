"""Arbitrary host names and variables, which lead to one clear error or to files that match the model.

The XML may contain the value of a variable only as text: Spring resolves ``${…}`` and
evaluates ``#{…}``, Jinja evaluates ``{{…}}``, and ActiveMQ starts a broker for ``vm:`` and loads a
file for ``xbean:`` in each URI.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import event, example, given, settings
from hypothesis import strategies as st
from lxml import etree

from activemq_fleet.cli.baseline import write_baseline
from activemq_fleet.diagram import to_mermaid, to_svg
from activemq_fleet.errors import FleetError
from activemq_fleet.findings import error_finding
from activemq_fleet.inventory import read_inventory
from activemq_fleet.node.collect.deployed_files import json_lines
from activemq_fleet.node.host_paths import ACTIVEMQ_XML
from activemq_fleet.render import render_broker, render_fleet
from activemq_fleet.topology import Fleet, build_fleet
from tests.unit import fuzz_inputs as inputs
from tests.unit import fuzz_oracle as oracle

# Thousands of examples (FUZZ_EXAMPLES) on a busy machine take longer than a unit test may.
pytestmark = pytest.mark.timeout(120 + settings().max_examples)

NODES = ("a-mq01-a", "a-mq01-b", "a-mq02-a", "a-mq02-b")
Inventory = tuple[inputs.Hosts, dict[str, list[str]]]
T = TypeVar("T")


def value_or_refusal(function: Callable[[], T]) -> T | None:
    """Return the return value of the function, or None if the function raises a one-line error of the product."""
    try:
        return function()
    except FleetError as error:
        refusal = error
    event(type(refusal).__name__)
    assert str(refusal)
    assert "\n" not in str(refusal)
    return None


def tampered_inventory(name: str = "", **variables: Any) -> Inventory:
    host_variables = inputs.BASE | {f"activemq_{key}": value for key, value in variables.items()}
    return {host: dict(host_variables) for host in ((name,) if name else NODES)}, {}


def check_rendered(fleet: Fleet) -> None:
    for broker in fleet.brokers:
        files = value_or_refusal(lambda: render_broker(broker))  # noqa: B023 -- called at once
        if files is None or fleet.blocking_findings:
            continue
        oracle.assert_files_are_valid(broker, files)
        oracle.assert_credentials_are_complete(broker)
        if not broker.settings.xml_fragments:
            root = etree.fromstring(files[ACTIVEMQ_XML])
            oracle.assert_no_evaluated_or_loaded_values(broker, root)
            oracle.assert_document_matches_model(broker, root)


@given(inputs.inventories())
@example(tampered_inventory("a-mq01-a.x/../../../../tmp", address="h", ha="none"))
@example(tampered_inventory("../a-mq01-a", ha="none"))
@example(tampered_inventory("\ud800-mq01-a", ha="none"))
@example(tampered_inventory(address="fe80::1%),vm://evil,("))
@example(tampered_inventory(broker_attributes={"vmConnectorURI": "vm://evil?brokerConfig=xbean:http://evil"}))
def test_any_inventory_is_refused_in_one_line_or_rendered_to_match_model(inventory: Inventory) -> None:
    fleet = value_or_refusal(lambda: build_fleet(*inventory))
    if fleet is not None:
        event("findings" if fleet.blocking_findings else "rendered")
        check_rendered(fleet)


@given(inputs.inventories_with_changed_variables())
def test_any_value_of_variable_is_refused_or_remains_text(hosts: inputs.Hosts) -> None:
    fleet = value_or_refusal(lambda: build_fleet(hosts, {}))
    if fleet is not None:
        event("findings" if fleet.blocking_findings else "rendered")
        check_rendered(fleet)


@given(inputs.inventories())
def test_any_fleet_can_be_drawn_and_rendered(inventory: Inventory) -> None:
    fleet = value_or_refusal(lambda: build_fleet(*inventory))
    if fleet is None:
        return
    etree.fromstring(to_svg(fleet).encode())
    to_mermaid(fleet).encode()
    for path in value_or_refusal(lambda: render_fleet(fleet)) or ():
        assert path == "fleet.json" or path.startswith(("hosts/", "clients/"))
        assert not {"", ".", ".."} & set(path.split("/"))


def test_fleet_json_escapes_lone_surrogate_of_host_name() -> None:
    variables = {"activemq_release": "5.18.3"}
    hosts = ["a-mq01-a", "a-mq01-b", "-MQ0.\ud800"]
    fleet = build_fleet(dict.fromkeys(hosts, variables), {"activemq_brokers": [], "activemq_agents": []})

    fleet_json = json.loads(render_fleet(fleet)["fleet.json"])
    assert "-MQ0.\ud800" in {finding["host"] for finding in fleet_json["findings"]}


def test_baseline_escapes_lone_surrogate_of_host_name(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    write_baseline(path, [error_finding("T001", "-MQ0.\ud800", "the name is wrong", "rename it")])

    assert [entry["host"] for entry in json.loads(path.read_text())["findings"]] == ["-MQ0.\ud800"]


def test_status_of_deployed_files_escapes_file_name_that_is_not_utf_8() -> None:
    assert json.loads(json_lines({"conf/\udcff": "sha"})) == {"conf/\udcff": "sha"}


YAML = st.one_of(
    st.binary(max_size=40),
    st.text(max_size=40).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.builds(
        "all:\n  hosts:\n    a-mq01-a:\n      activemq_x_1: {}\n  vars: {}\n".format,
        st.text(max_size=20),
        st.text(max_size=20),
    ).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.builds("[{}]\n{} {}\n".format, st.text(max_size=8), st.text(max_size=8), st.text(max_size=8)).map(
        lambda text: text.encode("utf-8", "surrogatepass")
    ),
)


@given(YAML, YAML, st.sampled_from(["hosts.yml", "hosts", "hosts.json", "zz.activemq.yml"]))
def test_any_files_are_read_as_inventory_or_refused_in_one_line(hosts: bytes, variables: bytes, name: str) -> None:
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        (root / "group_vars").mkdir()
        (root / name).write_bytes(hosts)
        (root / "group_vars" / "all.yml").write_bytes(variables)
        value_or_refusal(lambda: read_inventory([directory]))
