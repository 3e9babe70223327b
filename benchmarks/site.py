"""Compare ``site`` with the action ``configure`` with a play of ``ansible.builtin.template`` tasks.

The reference writes the very same files: its templates are the files of one host with its names
taken out, and every file is compared at the end. Once with Ansible's own strategy, once with
Mitogen's, on the local machine, without facts, ten forks. ``site`` runs before and after the reference,
because another program may take the machine's time, and the slower of its two runs counts.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import yaml

from activemq_fleet.inventory import load_fleet
from activemq_fleet.render import render
from activemq_fleet.topology import Broker
from benchmarks.inventories import plain
from benchmarks.measure import REPOSITORY, BenchmarkError, Run, print_progress, program, run

HOSTS = int(os.environ.get("BENCH_HOSTS", "100"))
FORKS = "10"


@dataclass(frozen=True, slots=True)
class SiteFigures:
    """Whole runs: the slower of two of ``site``, one that changes nothing, and the references."""

    hosts: int
    files: int
    site: Run
    again: Run
    template: Run
    mitogen: Run | None


def measure(work: Path) -> SiteFigures:
    """Run all plays into directories of their own and compare what they wrote."""
    inventory = plain(work / "inventory-site", HOSTS, pairs=1)
    ours, later, theirs, mitogens = (work / name for name in ("site", "site-later", "template", "mitogen"))
    for directory in (ours, later, theirs, mitogens):
        shutil.rmtree(directory, ignore_errors=True)
    brokers = load_fleet([str(inventory)], extra_vars=[_variables(ours)]).brokers
    play, files = _reference(work, brokers)
    print_progress(f"site, {HOSTS} hosts")
    site = _play("activemq.fleet.site", inventory, _variables(ours))
    print_progress("site again, which changes nothing")
    again = _play("activemq.fleet.site", inventory, _variables(ours))
    print_progress(f"the same {files} files by template tasks")
    template = _play(str(play), inventory, f"out={theirs}")
    _compare(brokers, ours, theirs)
    print_progress("site after it")
    slower = max(site, _play("activemq.fleet.site", inventory, _variables(later)), key=lambda one: one.wall)
    mitogen = None
    if strategies := _mitogen():
        print_progress("the same with Mitogen")
        environment = {"ANSIBLE_STRATEGY": "mitogen_linear", "ANSIBLE_STRATEGY_PLUGINS": strategies}
        mitogen = _play(str(play), inventory, f"out={mitogens}", environment)
        _compare(brokers, ours, mitogens)
    return SiteFigures(len(brokers), files, slower, again, template, mitogen)


def _variables(base: Path) -> str:
    return (
        f'{{"activemq_base": "{base}/{{{{ inventory_hostname }}}}", "activemq_install": "none", '
        '"activemq_service": "none", "ansible_connection": "local"}'
    )


def _play(playbook: str, inventory: Path, variables: str, environment: dict[str, str] | None = None) -> Run:
    return run(
        [program("ansible-playbook"), playbook, "-i", inventory, "-e", variables, "--forks", FORKS],
        environment={
            "ANSIBLE_HOME": str(REPOSITORY / ".ansible"),
            "ANSIBLE_LOCALHOST_WARNING": "false",
            "ANSIBLE_DEPRECATION_WARNINGS": "false",
            "ANSIBLE_PYTHON_INTERPRETER": sys.executable,
            "ANSIBLE_GATHERING": "explicit",
            **(environment or {}),
        },
    )


def _names(text: str, broker: Broker) -> str:
    """A file of one host as a template: what Jinja would read is kept, its names are variables."""
    kept = "{% raw %}" + text + "{% endraw %}"
    for name, variable in (
        (broker.host, "inventory_hostname"),
        (broker.identity.host, "inventory_hostname_short"),
        (broker.peer or "no peer", "peer"),
        ((broker.peer or "no peer").partition(".")[0], "peer.split('.')[0]"),
        (broker.pair, "pair"),
        (broker.group, "group"),
    ):
        kept = kept.replace(name, "{% endraw %}{{ " + variable + " }}{% raw %}")
    return kept.replace("preferred " + broker.role, "preferred {% endraw %}{{ role }}{% raw %}").replace(
        f"node {broker.identity.node} ", "node {% endraw %}{{ node }}{% raw %} "
    )


def _reference(work: Path, brokers: tuple[Broker, ...]) -> tuple[Path, int]:
    templates = work / "templates"
    shutil.rmtree(templates, ignore_errors=True)
    first, tasks = brokers[0], []
    tree = render(first, reveal=True)
    for directory in sorted({str(Path(path).parent) for path in tree}):
        destination = "{{ out }}/{{ inventory_hostname }}/" + directory
        tasks.append({"ansible.builtin.file": {"path": destination, "state": "directory", "mode": "0755"}})
    for path, content in tree.items():
        source = templates / f"{path}.j2"
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text(_names(content.decode(), first))
        target = "{{ out }}/{{ inventory_hostname }}/" + path
        tasks.append({"ansible.builtin.template": {"src": str(source), "dest": target, "mode": "0640"}})
    play = {
        "hosts": "all",
        "connection": "local",
        "gather_facts": False,
        "vars": {
            "pair": "{{ inventory_hostname_short[:-2] }}",
            "group": "{{ inventory_hostname_short.split('-mq')[0] }}",
            "node": "{{ inventory_hostname_short[-1] }}",
            "role": "{{ 'master' if node == 'a' else 'slave' }}",
            "peer": "{{ pair }}-{{ 'b' if node == 'a' else 'a' }}.example.com",
        },
        "tasks": tasks,
    }
    playbook = work / "template.yml"
    playbook.write_text(yaml.safe_dump([play]))
    return playbook, len(tree)


def _compare(brokers: tuple[Broker, ...], ours: Path, theirs: Path) -> None:
    """Every file that the two wrote. Directories of the installation itself are named in files."""
    for broker in brokers:
        installed = ours / broker.host / broker.settings.instance / "current"
        for path in render(broker):
            expected = (installed / path).read_bytes()
            found = (theirs / broker.host / path).read_bytes()
            if found != expected:
                raise BenchmarkError(f"{broker.host}: {path} differs between site and the template play")


def _mitogen() -> str | None:
    found = importlib.util.find_spec("ansible_mitogen")
    if found is None or not found.submodule_search_locations:
        print_progress("Mitogen is not installed: its row is left out (pip install mitogen)")
        return None
    return str(Path(found.submodule_search_locations[0]) / "plugins" / "strategy")


def table(found: SiteFigures) -> str:
    """The figures in Markdown, each as ms per host and against ``site``."""

    def row(name: str, figures: Run) -> str:
        per_host = figures.wall / found.hosts * 1000
        return f"| {name} | {figures.wall:.1f} s | {per_host:.0f} ms | {figures.wall / found.site.wall:.1f} |"

    lines = [
        f"| {found.hosts} hosts, {found.files} files each, local, {FORKS} forks | wall | per host | x site |",
        "|---|---|---|---|",
        row("`activemq.fleet.site`", found.site),
        row("`activemq.fleet.site` again, nothing to change", found.again),
        row("`ansible.builtin.template` tasks", found.template),
    ]
    if found.mitogen:
        lines.append(row("`ansible.builtin.template` tasks with Mitogen", found.mitogen))
    return "\n".join(lines) + "\n"
