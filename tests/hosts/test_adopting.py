"""The commands of ``docs/adopting.md``: three brokers with hand-written files become managed brokers.

An operator installed them from the archive of the vendor and runs them with a separate unit. The test reads the
commands from the page.
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

from activemq_fleet.adopt.compared_element import compared_element_from_lxml
from activemq_fleet.adopt.xml_diff import document_differences
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
LINKS = {
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


def edited_document(stock: str, host: str) -> str:
    """Return the activemq.xml of the release as an operator edits it: with a name and bridges."""
    bridges = "\n".join(
        f'<networkConnector name="to-{other}" uri="static:(tcp://{other}:61616)" networkTTL="2" dynamicOnly="true"/>'
        for other in LINKS[host]
    )
    named = stock.replace('brokerName="localhost"', f'brokerName="{host.replace("-", "")}"')
    return named.replace(
        "<persistenceAdapter>", f"<networkConnectors>{bridges}</networkConnectors><persistenceAdapter>"
    )


def commands_of_step(page: str, step: int) -> list[str]:
    """Return the commands of a step of the page, one text per block."""
    section = page.split(f"\n## {step}. ", 1)[1].split("\n## ")[0]
    return [block.text for block in read_blocks(section) if block.language == "sh"]


def shown_documents(diff: str) -> dict[str, bytes]:
    """Return the activemq.xml of each host from the output of ``site --check --diff``, in which all lines are new."""
    documents = {}
    for file_diff in diff.split("+++ after: conf/activemq.xml\n")[1:]:
        body = "\n".join(line[1:] for line in file_diff.split("+++ after:")[0].splitlines() if line.startswith("+"))
        document = body[: body.index("</beans>") + len("</beans>")].encode()
        documents[next(host for host in HOSTS if f'brokerName="{host.replace("-", "")}"'.encode() in document)] = (
            document
        )
    return documents


@pytest.fixture
def originals(rack: Rack) -> dict[str, str]:
    """Start a broker on each host, installed by hand; return the activemq.xml of each broker."""
    archive = archive_of(Release.of(RELEASE))
    rack.up(HOSTS, shares=[SOFTWARE], owner=os.getpid())
    shutil.copy(archive, rack.shared(SOFTWARE) / "activemq.tar.gz")
    with tarfile.open(archive) as tar:
        file = tar.extractfile(f"apache-activemq-{RELEASE}/conf/activemq.xml")
        assert file is not None
        stock = file.read().decode()
    documents = {host: edited_document(stock, host) for host in HOSTS}
    for host, text in documents.items():
        (rack.shared(SOFTWARE) / f"{host}.xml").write_text(text)
        rack[host].run("bash", "-ec", INSTALLED_BY_HAND, host)
    return documents


@in_every_situation
@pytest.mark.timeout(900)
def test_page_commands_adopt_running_brokers_with_their_messages(
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

    (collect,), (adopt, complete), (check,) = (commands_of_step(page, step) for step in (1, 2, 3))
    shell(collect)
    shell(adopt)
    listed_differences = json.loads(shell(f"{adopt.strip()} --format json 2>/dev/null"))
    shell(complete)
    shell(check)

    def fingerprints() -> list[str]:
        files = "find /opt /etc /var/lib /usr/local -xdev -type f -path '*activemq*' ! -path '*/data/*'"
        script = f"{files} | sort | xargs md5sum"
        return [rack[host].run("sh", "-c", f"{script}; systemctl show activemq -p MainPID") for host in HOSTS]

    fingerprints_before = fingerprints()
    lab, check_site = commands_of_step(page, 4)
    assert shell(lab).count(" is active (") == len(HOSTS)
    planned_documents = shown_documents(shell(check_site))
    assert fingerprints() == fingerprints_before
    assert planned_documents.keys() == originals.keys()
    for host, document in planned_documents.items():
        original, planned = (
            compared_element_from_lxml(etree.fromstring(text)) for text in (originals[host].encode(), document)
        )
        differences = {
            (difference.path, difference.direction)
            for difference in document_differences(host, original, planned, lambda tree: tree)
        }
        assert differences == {
            (difference["path"], difference["direction"])
            for difference in listed_differences
            if difference["host"] == host
        }

    (deploy,) = commands_of_step(page, 5)
    assert "all is well" in shell(deploy)
    assert client.exchange("take", core, MESSAGES)["taken"] == int(MESSAGES)
    client.exchange("cross", edge, core)

    write_accounts(page, tmp_path / "inventory/group_vars/all.yml")
    (apply_accounts,) = commands_of_step(page, 6)
    assert "all is well" in shell(apply_accounts)
    client.exchange("cross", edge, core)
    with pytest.raises(MachinesError):
        client.exchange("--password", "wrong", "round", core)


def write_accounts(page: str, file: Path) -> None:
    """Write the variables of step 6 of the page for all hosts, with the account of the client of this test."""
    [example] = [block.text for block in read_blocks(page.split("\n## 6. ", 1)[1].split("\n## ")[0]) if block.title]
    settings = re.sub(r"\{\{ vault_\w+ \}\}", PASSWORD, example).replace("name: app", "name: probe")
    variables = yaml.safe_load(file.read_text())
    assert [waiver["rule"] for waiver in variables.pop("activemq_waivers")] == ["S003"]
    file.write_text(yaml.safe_dump({**variables, **yaml.safe_load(settings)}))
