"""Configuration files of other authors, and their adoption."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from activemq_fleet.adopt import AdoptedInventory
from activemq_fleet.inventory import load_fleet
from activemq_fleet.topology import Fleet
from tests.unit.adopt_files import (
    assert_listed_exactly,
    document,
    render_adopted_inventory,
    write_and_adopt,
    write_inventory,
)

ALONE = "o-mq1-a"


def adopted_variables(adoption: AdoptedInventory, path: str = "group_vars/all.yml") -> dict[str, Any]:
    variables: dict[str, Any] = yaml.safe_load(adoption.files[path])
    return {name.removeprefix("activemq_"): value for name, value in variables.items()}


def adopt_and_compare(tmp_path: Path, files: dict[str, bytes], release: str) -> AdoptedInventory:
    """Adopt files, and assert that the adoption lists exactly the differences that its inventory renders."""
    adoption = write_and_adopt(tmp_path / "files", files, release)
    rendered = render_adopted_inventory(tmp_path, adoption)
    for host, original in files.items():
        differences = [difference for difference in adoption.differences if difference.host == host]
        assert_listed_exactly(original, rendered[f"hosts/{host}/conf/activemq.xml"], differences)
    assert not adoption.fleet.blocking_findings
    return adoption


def connectors_xml(*uris: str) -> str:
    connectors = "".join(f'<transportConnector name="c{n}" uri="{uri}"/>' for n, uri in enumerate(uris))
    return f"<transportConnectors>{connectors}</transportConnectors>"


def bridge_xml(name: str, uri: str, **attributes: str) -> str:
    attribute_text = "".join(f' {attribute}="{value}"' for attribute, value in attributes.items())
    return f'<networkConnectors><networkConnector name="{name}" uri="{uri}"{attribute_text}/></networkConnectors>'


OPENWIRE = "<transportConnectors><transportConnector name='openwire' uri='tcp://0.0.0.0:61616'/></transportConnectors>"


def pair_files(first_host: str, second_host: str, broker: str, name: str) -> dict[str, bytes]:
    store = f'<persistenceAdapter><kahaDB directory="/mnt/nfs/{name}"/></persistenceAdapter>'
    return {host: document(broker + store + OPENWIRE, brokerName=name) for host in (first_host, second_host)}


def directions_by_path(adoption: AdoptedInventory) -> dict[str, str]:
    """Return the direction of each difference, by its path."""
    return {difference.path: difference.direction for difference in adoption.differences}


def changed_fleet(tmp_path: Path, adoption: AdoptedInventory, **changes: Any) -> Fleet:
    """Return the fleet of the adopted inventory with variables changed for all hosts."""
    directory = write_inventory(tmp_path / "changed", adoption)
    added_lines = "".join(f"activemq_{name}: {value}\n" for name, value in changes.items())
    path = directory / "group_vars" / "all.yml"
    kept_lines = [
        line
        for line in path.read_text().splitlines()
        if line.partition(":")[0].removeprefix("activemq_") not in changes
    ]
    path.write_text("\n".join(kept_lines) + "\n" + added_lines)
    return load_fleet([str(directory)])
