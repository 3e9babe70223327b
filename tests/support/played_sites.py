"""An inventory on which tests run the playbook ``site``."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]


RELEASE = "5.18.3"


# This schema accepts every element of a broker. Other tests check the schemas of the releases.
PERMISSIVE_SCHEMA = """\
<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" elementFormDefault="qualified"
           targetNamespace="http://activemq.apache.org/schema/core">
  <xs:element name="broker" type="xs:anyType"/>
</xs:schema>
"""


@dataclass
class LocalSite:
    """An inventory, the directories of its hosts, and a separate home directory for Ansible."""

    root: Path

    @property
    def hosts(self) -> Path:
        return self.root / "hosts"

    @property
    def temporary_files(self) -> list[Path]:
        return list((self.root / "ansible" / "tmp").glob("*"))

    def write_inventory(self, *names: str, agents: dict[str, Any] | None = None, **variables: Any) -> None:
        common = {
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "activemq_release": RELEASE,
            "activemq_base": f"{self.hosts}/{{{{ inventory_hostname }}}}",
            "activemq_install": "none",
            "activemq_service": "none",
            "activemq_users": [{"name": "till", "password": "canary-till"}],
            "activemq_agent_config": f"{self.hosts}/{{{{ inventory_hostname }}}}/etc",
            "activemq_agent_install": False,
            "activemq_agent_service": "none",
        }
        inventory = {
            "all": {"hosts": dict.fromkeys(names), "vars": common | {f"activemq_{k}": v for k, v in variables.items()}},
            "activemq_agents": {"hosts": agents or {}},
        }
        (self.root / "hosts.yml").write_text(yaml.safe_dump(inventory))

    def start(self, playbook: str, *options: str, directory: str = "") -> subprocess.Popen[str]:
        environment = os.environ | {
            "ANSIBLE_HOME": str(self.root / "ansible"),
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".ansible/collections"),
            "ANSIBLE_NOCOLOR": "1",
            "ACTIVEMQ_FLEET_CACHE": str(self.root / "cache"),
        }
        program = Path(sys.executable).with_name("ansible-playbook")
        return subprocess.Popen(
            [str(program), "-i", str(self.root / "hosts.yml"), playbook, *options],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def play(self, playbook: str, *options: str) -> tuple[int, str]:
        process = self.start(f"activemq.fleet.{playbook}", *options)
        output, _ = process.communicate(timeout=500)
        return process.returncode, output


def make_local_site(root: Path) -> LocalSite:
    (root / "cache" / "schemas").mkdir(parents=True)
    (root / "cache" / "schemas" / f"{RELEASE}.xsd").write_text(PERMISSIVE_SCHEMA)
    return LocalSite(root)


A, B = "orders-mq01-a.example.com", "orders-mq01-b.example.com"


KIOSK = {"activemq_agent_username": "kiosk", "activemq_agent_password": "canary-kiosk"}
