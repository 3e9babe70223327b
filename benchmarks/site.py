"""Compare ``site``, which uses the action ``configure``, with a play of ``ansible.builtin.template`` tasks.

The reference writes the same files: its templates are the files of a host with variables for the names. At the end,
the benchmark compares every file. The reference runs with Ansible's default strategy and with Mitogen, on the local
machine, without facts, with 10 forks. ``site`` runs before and after the reference, because another process may
load the machine. The slower of the two runs counts.
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
from activemq_fleet.render import render_broker
from activemq_fleet.topology import Broker
from benchmarks.inventories import write_inventory
from benchmarks.measure import REPOSITORY, BenchmarkError, Run, print_progress, program, run

HOSTS = int(os.environ.get("BENCH_HOSTS", "100"))
FORKS = "10"


@dataclass(frozen=True, slots=True)
class SiteFigures:
    """The slower of two runs of ``site``, a run that changes nothing, and the runs of the references."""

    hosts: int
    files: int
    site: Run
    again: Run
    template: Run
    mitogen: Run | None


def measure(work: Path) -> SiteFigures:
    """Run all plays with separate directories, and compare the files that they wrote."""
    inventory = write_inventory(work / "inventory-site", HOSTS, pairs=1)
    site_files, later, template_files, mitogen_files = (
        work / name for name in ("site", "site-later", "template", "mitogen")
    )
    for directory in (site_files, later, template_files, mitogen_files):
        shutil.rmtree(directory, ignore_errors=True)
    brokers = load_fleet([str(inventory)], extra_vars=[_variables(site_files)]).brokers
    play, files = _reference(work, brokers)
    print_progress(f"site, {HOSTS} hosts")
    site = _play("activemq.fleet.site", inventory, _variables(site_files))
    print_progress("site again, which changes nothing")
    again = _play("activemq.fleet.site", inventory, _variables(site_files))
    print_progress(f"the same {files} files by template tasks")
    template = _play(str(play), inventory, f"out={template_files}")
    _compare(brokers, site_files, template_files)
    print_progress("site after the template tasks")
    slower = max(site, _play("activemq.fleet.site", inventory, _variables(later)), key=lambda play_run: play_run.wall)
    mitogen = None
    if strategies := _mitogen():
        print_progress(f"the same {files} files by template tasks with Mitogen")
        environment = {"ANSIBLE_STRATEGY": "mitogen_linear", "ANSIBLE_STRATEGY_PLUGINS": strategies}
        mitogen = _play(str(play), inventory, f"out={mitogen_files}", environment)
        _compare(brokers, site_files, mitogen_files)
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


def _template_of(text: str, broker: Broker) -> str:
    """Return a file of a host as a template: variables replace the names, and Jinja copies the rest."""
    template = "{% raw %}" + text + "{% endraw %}"
    for name, variable in (
        (broker.host, "inventory_hostname"),
        (broker.identity.short_host_name, "inventory_hostname_short"),
        (broker.peer or "no peer", "peer"),
        ((broker.peer or "no peer").partition(".")[0], "peer.split('.')[0]"),
        (broker.pair, "pair"),
        (broker.group, "group"),
    ):
        template = template.replace(name, "{% endraw %}{{ " + variable + " }}{% raw %}")
    return template.replace("preferred " + broker.role, "preferred {% endraw %}{{ role }}{% raw %}").replace(
        f"node {broker.identity.node} ", "node {% endraw %}{{ node }}{% raw %} "
    )


def _reference(work: Path, brokers: tuple[Broker, ...]) -> tuple[Path, int]:
    templates = work / "templates"
    shutil.rmtree(templates, ignore_errors=True)
    first, tasks = brokers[0], []
    tree = render_broker(first, reveal=True)
    for directory in sorted({str(Path(path).parent) for path in tree}):
        destination = "{{ out }}/{{ inventory_hostname }}/" + directory
        tasks.append({"ansible.builtin.file": {"path": destination, "state": "directory", "mode": "0755"}})
    for path, content in tree.items():
        source = templates / f"{path}.j2"
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text(_template_of(content.decode(), first))
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


def _compare(brokers: tuple[Broker, ...], site_files: Path, template_files: Path) -> None:
    """Compare every file of the two plays."""
    for broker in brokers:
        installed = site_files / broker.host / broker.settings.instance / "current"
        for path in render_broker(broker):
            expected = (installed / path).read_bytes()
            written = (template_files / broker.host / path).read_bytes()
            if written != expected:
                raise BenchmarkError(f"{broker.host}: {path} differs between site and the template play")


def _mitogen() -> str | None:
    package = importlib.util.find_spec("ansible_mitogen")
    if package is None or not package.submodule_search_locations:
        print_progress("Mitogen is not installed, so the table has no row for it: run `pip install mitogen`")
        return None
    return str(Path(package.submodule_search_locations[0]) / "plugins" / "strategy")


def table(results: SiteFigures) -> str:
    """Return the figures as a Markdown table, with ms per host and the ratio to ``site``."""

    def row(name: str, figures: Run) -> str:
        per_host = figures.wall / results.hosts * 1000
        return f"| {name} | {figures.wall:.1f} s | {per_host:.0f} ms | {figures.wall / results.site.wall:.1f} |"

    lines = [
        f"| {results.hosts} hosts, {results.files} files each, local, {FORKS} forks | time | per host | ratio |",
        "|---|---|---|---|",
        row("`activemq.fleet.site`", results.site),
        row("`activemq.fleet.site` again, without changes", results.again),
        row("`ansible.builtin.template` tasks", results.template),
    ]
    if results.mitogen:
        lines.append(row("`ansible.builtin.template` tasks with Mitogen", results.mitogen))
    return "\n".join(lines) + "\n"
