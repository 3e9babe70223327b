"""``docs/adopting.md`` as it is written: three brokers with files of their own become managed ones.

They were installed by hand from the vendor's archive, and run by a unit of their operator's. The commands are read from
the page.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tarfile
from pathlib import Path

import pytest
import yaml
from lxml import etree

from activemq_fleet.adopt.xml_diff import compared_element_from_lxml, document_differences
from activemq_fleet.releases import Release
from tests.hosts.machines import Rack
from tests.hosts.machines.errors import MachinesError
from tests.hosts.playbooks import PASSWORD, Controller, environment
from tests.hosts.reader_shell import ReaderShell
from tests.hosts.software import archive_of
from tests.situations import in_every_situation
from tests.support.command_blocks import read_blocks

RELEASE = "5.18.3"
HOSTS = {"core-mq01-a": "10.77.0.51", "core-mq02-a": "10.77.0.52", "edge-mq01-a": "10.77.0.53"}
DIALS = {
    "core-mq01-a": ["core-mq02-a"],
    "core-mq02-a": ["core-mq01-a"],
    "edge-mq01-a": ["core-mq01-a", "core-mq02-a"],
}
MESSAGES = "20"
SOFTWARE = "/srv/software"
INSTALLED_BY_HAND = f"""
tar -xzf {SOFTWARE}/activemq.tar.gz -C /opt
ln -s apache-activemq-{RELEASE} /opt/activemq
useradd --system --home-dir /opt/activemq activemq
cp {SOFTWARE}/$0.xml /opt/activemq/conf/activemq.xml
sed -i 's/-Xmx1G/-Xmx256m -XX:TieredStopAtLevel=1/' /opt/activemq/bin/env
chown -R activemq: /opt/apache-activemq-{RELEASE}
cat > /etc/systemd/system/activemq.service <<UNIT
[Service]
Type=forking
User=activemq
PIDFile=/opt/activemq/data/activemq.pid
ExecStart=/opt/activemq/bin/activemq start
ExecStop=/opt/activemq/bin/activemq stop
SuccessExitStatus=143
[Install]
WantedBy=multi-user.target
UNIT
systemctl enable --now activemq
"""


def edited(stock: str, host: str) -> str:
    """The release's own activemq.xml as an operator edits it: a name, and bridges."""
    bridges = "\n".join(
        f'<networkConnector name="to-{other}" uri="static:(tcp://{other}:61616)" networkTTL="2" dynamicOnly="true"/>'
        for other in DIALS[host]
    )
    named = stock.replace('brokerName="localhost"', f'brokerName="{host.replace("-", "")}"')
    return named.replace(
        "<persistenceAdapter>", f"<networkConnectors>{bridges}</networkConnectors><persistenceAdapter>"
    )


def blocks(page: str, step: int) -> list[str]:
    """The commands of a step of the page, a text for each block."""
    section = page.split(f"\n## {step}. ", 1)[1].split("\n## ")[0]
    return [block.text for block in read_blocks(section) if block.language == "sh"]


def shown_documents(diff: str) -> dict[str, bytes]:
    """Each host's activemq.xml in what ``site --check --diff`` printed, all of whose lines are new."""
    found = {}
    for part in diff.split("+++ after: conf/activemq.xml\n")[1:]:
        body = "\n".join(line[1:] for line in part.split("+++ after:")[0].splitlines() if line.startswith("+"))
        document = body[: body.index("</beans>") + len("</beans>")].encode()
        found[next(host for host in HOSTS if f'brokerName="{host.replace("-", "")}"'.encode() in document)] = document
    return found


@pytest.fixture
def originals(rack: Rack) -> dict[str, str]:
    """The activemq.xml of each host, whose broker runs with it."""
    archive = archive_of(Release.of(RELEASE))
    rack.up(HOSTS, shares=[SOFTWARE], owner=os.getpid())
    shutil.copy(archive, rack.shared(SOFTWARE) / "activemq.tar.gz")
    with tarfile.open(archive) as tar:
        file = tar.extractfile(f"apache-activemq-{RELEASE}/conf/activemq.xml")
        assert file is not None
        stock = file.read().decode()
    found = {host: edited(stock, host) for host in HOSTS}
    for host, text in found.items():
        (rack.shared(SOFTWARE) / f"{host}.xml").write_text(text)
        rack[host].run("bash", "-ec", INSTALLED_BY_HAND, host)
    return found


@in_every_situation
@pytest.mark.timeout(900)
def test_the_page_takes_running_brokers_with_their_messages_over(
    rack: Rack, originals: dict[str, str], repository: Path, tmp_path: Path
) -> None:
    page = (repository / "docs/adopting.md").read_text()
    shell = ReaderShell(environment(repository, rack), rack, HOSTS, tmp_path)
    client = Controller(repository, rack)
    core, edge = HOSTS["core-mq02-a"], HOSTS["edge-mq01-a"]
    for address in HOSTS.values():
        client.exchange("watch", address)
    client.exchange("cross", edge, core)
    client.exchange("leave", core, MESSAGES)

    (collect,), (adopt, complete), (check,) = (blocks(page, step) for step in (1, 2, 3))
    shell(collect)
    shell(adopt)
    listed = json.loads(shell(f"{adopt.strip()} --format json 2>/dev/null"))
    shell(complete)
    shell(check)

    def fingerprints() -> list[str]:
        files = "find /opt /etc /var/lib /usr/local -xdev -type f -path '*activemq*' ! -path '*/data/*'"
        script = f"{files} | sort | xargs md5sum"
        return [rack[host].run("sh", "-c", f"{script}; systemctl show activemq -p MainPID") for host in HOSTS]

    before = fingerprints()
    lab, try_it = blocks(page, 4)
    assert shell(lab).count(" is active (") == len(HOSTS)
    shown = shown_documents(shell(try_it))
    assert fingerprints() == before
    assert shown.keys() == originals.keys()
    for host, document in shown.items():
        original, planned = (
            compared_element_from_lxml(etree.fromstring(text)) for text in (originals[host].encode(), document)
        )
        differences = {
            (difference.path, difference.direction)
            for difference in document_differences(host, original, planned, lambda tree: tree)
        }
        assert differences == {
            (difference["path"], difference["direction"]) for difference in listed if difference["host"] == host
        }

    (deploy,) = blocks(page, 5)
    assert "all is well" in shell(deploy)
    assert client.exchange("take", core, MESSAGES)["taken"] == int(MESSAGES)
    client.exchange("cross", edge, core)

    give_logins(page, tmp_path / "inventory/group_vars/all.yml")
    (in_force,) = blocks(page, 6)
    assert "all is well" in shell(in_force)
    client.exchange("cross", edge, core)
    with pytest.raises(MachinesError):
        client.exchange("--password", "wrong", "round", core)


def give_logins(page: str, file: Path) -> None:
    """Write what step 6 of the page says into the variables of all hosts, with the account of this test's client."""
    [example] = [block.text for block in read_blocks(page.split("\n## 6. ", 1)[1].split("\n## ")[0]) if block.title]
    settings = re.sub(r"\{\{ vault_\w+ \}\}", PASSWORD, example).replace("name: app", "name: probe")
    variables = yaml.safe_load(file.read_text())
    assert [waiver["rule"] for waiver in variables.pop("activemq_waivers")] == ["S003"]
    file.write_text(yaml.safe_dump({**variables, **yaml.safe_load(settings)}))
