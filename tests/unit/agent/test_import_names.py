"""Import names of the agent below activemq_fleet, and their error if the agent is not installed."""

from __future__ import annotations

import subprocess
import sys

import activemq_agent
import activemq_agent.handling
import activemq_fleet.agent
import activemq_fleet.agent.handling
from activemq_fleet.install_hint import install_hint


def test_old_import_names_are_aliases_of_agent() -> None:
    assert activemq_fleet.agent.publish is activemq_agent.publish
    assert activemq_fleet.agent.Client is activemq_agent.Client
    assert activemq_fleet.agent.handling.Event is activemq_agent.handling.Event


def test_old_import_names_without_agent_report_what_to_install() -> None:
    code = "import sys; sys.modules['activemq_agent'] = None; import activemq_fleet.agent"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    last_line = process.stderr.strip().splitlines()[-1]
    assert last_line == f"ImportError: activemq_fleet.agent needs activemq_agent: {install_hint('agent')}"


def test_agent_imports_neither_library_nor_ansible() -> None:
    code = (
        "import pkgutil, sys, importlib, activemq_agent as a\n"
        "names = [m.name for m in pkgutil.walk_packages(a.__path__, 'activemq_agent.') if '__main__' not in m.name]\n"
        "[importlib.import_module(name) for name in names]\n"
        "unwanted = {'activemq_fleet', 'ansible', 'lxml', 'pydantic', 'pydantic_core', 'xmlschema'}\n"
        "print(len(names) > 40, sorted(unwanted & {name.partition('.')[0] for name in sys.modules}))\n"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "True []\n"
