"""The pages about running brokers, executed in order on one pair of systemd hosts."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.hosts.brokers import wait_for_pair
from tests.hosts.machines import Rack
from tests.hosts.page_pair import HOSTS, inventory_of, prepare_reader, variables_of
from tests.hosts.reader_shell import ReaderShell
from tests.situations import in_every_situation
from tests.support.command_blocks import Command, Page, read_page, run_page
from tests.support.documentation_pages import ON_HOSTS, pages_of

pytestmark = in_every_situation
RELEASE, NEXT_RELEASE = "5.18.3", "6.3.1"
COMMANDS_ON_HOSTS = ("systemctl ", "journalctl ")


@pytest.fixture(scope="module")
def shell(rack: Rack, repository: Path, tmp_path_factory: pytest.TempPathFactory) -> ReaderShell:
    """Return a shell in a directory with ``inventory``, whose pair the playbook ``site`` has installed."""
    directory = tmp_path_factory.mktemp("reader")
    rack.up(HOSTS, shares=["/srv/activemq"], owner=os.getpid())
    shell = prepare_reader(repository, rack, directory, RELEASE)
    shell("ansible-playbook -i inventory activemq.fleet.site")
    return shell


def content_for_hosts(name: str, content: str) -> str:
    """Return the content of a file of a page, with the hosts and the jars of the test."""
    if name == "hosts.yml":
        return inventory_of(NEXT_RELEASE)
    if "activemq_archive" in content:
        return json.dumps(variables_of(NEXT_RELEASE))
    return content


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("page", pages_of(ON_HOSTS))
def test_commands_of_page_print_output_shown_on_page(
    page: str, repository: Path, rack: Rack, shell: ReaderShell
) -> None:
    for step in read_page(repository / page).steps:
        wait_for_pair(rack.machines)
        if isinstance(step, Command) and step.line.startswith(COMMANDS_ON_HOSTS):
            rack.machines[0].run("bash", "-ec", step.line)
        elif isinstance(step, Command):
            run_page(Page((step,), ()), shell.directory, shell.variables, rack.lan.inside("bash", "-ec"))
        else:
            name, content = step
            file = shell.directory / name
            file.parent.mkdir(exist_ok=True)
            file.write_text(content_for_hosts(name, content))
