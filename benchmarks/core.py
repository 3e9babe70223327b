"""Measure the core on a single CPU core: from variables in memory to checked files in memory, stage by stage.

The reference is a loop over a plain Jinja template that renders the same activemq.xml for each broker and validates
it with lxml against the same schema. The reference renders and checks nothing else. The fleet has groups of four
pairs; each pair has a separate user, and each group has a separate network user.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jinja2 import Environment
from lxml import etree

from activemq_fleet.artifacts import load_schema
from activemq_fleet.cli.main import collect_garbage_rarely
from activemq_fleet.node.host_paths import ACTIVEMQ_XML
from activemq_fleet.releases import Release
from activemq_fleet.render import render_fleet
from activemq_fleet.schema import XmlDocument
from activemq_fleet.topology import Fleet, build_fleet
from activemq_fleet.validation import fleet_with_check_findings
from benchmarks.measure import BenchmarkError, Run, median, print_progress, program, run

RELEASE = "5.18.3"
PAIRS = 4
GROUP = 2 * PAIRS
SIZES = {104: 5, 1_000: 5, 10_000: 3}
"""The number of runs by number of brokers, which is a multiple of the group size."""

Hosts = dict[str, dict[str, Any]]


def hosts(brokers: int) -> Hosts:
    """Return the variables of a fleet by inventory name."""
    variables: Hosts = {}
    for group in (f"fleet{number:05d}" for number in range(brokers // GROUP)):
        for label in (f"{group}-mq{pair:02d}-{node}" for pair in range(1, PAIRS + 1) for node in "ab"):
            variables[f"{label}.example.com"] = {
                "activemq_release": RELEASE,
                "activemq_network_username": f"network-{group}",
                "activemq_network_password": f"only-measured-with-{group}",
                "activemq_users": [
                    {"name": f"app-{label[:-2]}", "password": f"only-measured-with-{label[:-2]}", "groups": ["admins"]}
                ],
            }
    return variables


@dataclass
class Core:
    """A fleet and the results of the stages so far."""

    hosts: Hosts
    fleet: Fleet = field(init=False)
    files: Mapping[str, bytes] = field(init=False)
    documents: dict[str, XmlDocument] = field(init=False)

    def settings_and_topology(self) -> None:
        self.fleet = build_fleet(self.hosts, {})

    def render(self) -> None:
        self.files = render_fleet(self.fleet)
        self.documents = {host: XmlDocument(self.files[f"hosts/{host}/{ACTIVEMQ_XML}"]) for host in self.hosts}

    def check(self) -> None:
        """Check the documents with the schema, the rules and the routes."""
        checked = fleet_with_check_findings(self.fleet, self.documents, load_schema)
        # S002 reports the old release for every broker. The finding is correct and part of the measured work.
        unexpected = [finding for finding in checked.findings if finding.severity != "info" and finding.rule != "S002"]
        if unexpected:
            raise BenchmarkError(f"the measured fleet has a finding: {unexpected[0]}")


STAGES: dict[str, Callable[[Core], None]] = {
    "settings, topology": Core.settings_and_topology,
    "render": Core.render,
    "check": Core.check,
}


def core(brokers: int) -> dict[str, float]:
    """Return the CPU seconds of each stage."""
    seconds = {}
    measured_core = Core(hosts(brokers))
    for name, stage in STAGES.items():
        began = time.process_time()
        stage(measured_core)
        seconds[name] = time.process_time() - began
    return seconds


def plain(brokers: int) -> dict[str, float]:
    """Return the CPU seconds of lxml and of the plain template, an output of the core with variables for the names."""
    all_hosts, small = hosts(brokers), Core(hosts(GROUP))
    small.settings_and_topology()
    small.render()
    first = small.fleet.brokers[0]
    template = Environment(keep_trailing_newline=True).from_string(  # noqa: S701 -- the values are constants
        _template(small.documents[first.host].content.decode())
    )
    schema = load_schema(Release.of(RELEASE))
    began = time.process_time()
    documents = {host: template.render(_variables(host, all_hosts[host])).encode() for host in all_hosts}
    rendered = time.process_time()
    valid = all(schema.accepts(etree.fromstring(document)) for document in documents.values())
    ended = time.process_time()
    if not valid or any(documents[host] != document.content for host, document in small.documents.items()):
        raise BenchmarkError("the plain template and the core render different files")
    return {"template": rendered - began, "lxml": ended - rendered}


def _variables(host: str, variables: dict[str, Any]) -> dict[str, Any]:
    label = host.partition(".")[0]
    pair, _, node = label.rpartition("-")
    group = pair.partition("-")[0]
    return {
        "label": label,
        "pair": pair,
        "node": node,
        "role": "master" if node == "a" else "slave",
        "pairs": [f"{group}-mq{number:02d}" for number in range(1, PAIRS + 1)],
        "network_user": variables["activemq_network_username"],
        "user": variables["activemq_users"][0]["name"],
    }


def _template(document: str) -> str:
    """Return the document of the first node as a template with variables for the names."""
    head, opening, rest = document.partition("    <networkConnectors>\n")
    links, closing, tail = rest.partition("    </networkConnectors>\n")
    connector = links[: links.index("/>\n") + 3]
    block = "{% for remote_pair in pairs if remote_pair != pair %}" + connector + "{% endfor %}"
    pair, label = "fleet00000-mq01", "fleet00000-mq01-a"
    text = head + opening + block.replace("fleet00000-mq02", "{{ remote_pair }}") + closing + tail
    for name, variable in (
        (f"app-{pair}", "user"),
        ("network-fleet00000", "network_user"),
        (f"{label}: node a (preferred master)", "label }}: node {{ node }} (preferred {{ role"),
        (label, "label"),
        (pair, "pair"),
    ):
        text = text.replace(name, "{{ " + variable + (" }})" if name.endswith(")") else " }}"))
    return text


@dataclass(frozen=True, slots=True)
class CoreFigures:
    """Medians of the runs: CPU seconds by stage, and peak MiB of the process."""

    seconds: dict[str, float]
    peak: float

    @property
    def total(self) -> float:
        return sum(self.seconds.values())


def measure(work: Path) -> dict[int, tuple[CoreFigures, CoreFigures]]:
    """Return the figures of the core and of the plain template by number of brokers. Each run is a process."""
    figures = {}
    for brokers, runs in SIZES.items():
        print_progress(f"the core with {brokers:,} brokers, {runs} times")
        figures[brokers] = _median("core", brokers, runs, work), _median("plain", brokers, runs, work)
    return figures


def check_file(work: Path) -> Run:
    """Measure ``check --file`` on a document, including the start of the process."""
    group = Core(hosts(GROUP))
    group.settings_and_topology()
    group.render()
    path = work / "activemq.xml"
    path.write_bytes(next(iter(group.documents.values())).content)
    print_progress("check --file, 5 times")
    return median(lambda: run([program("activemq-fleet"), "check", "--file", path, "--release", RELEASE]), runs=5)


def _median(subject: str, brokers: int, runs: int, work: Path) -> CoreFigures:
    report, stages, peaks = work / f"{subject}-{brokers}.json", [], []
    for _ in range(runs):
        peaks.append(run([sys.executable, "-m", "benchmarks.core", subject, str(brokers), report]).peak)
        stages.append(json.loads(report.read_text()))
    medians = {name: statistics.median(seconds[name] for seconds in stages) for name in stages[0]}
    return CoreFigures(medians, statistics.median(peaks))


def table(figures: dict[int, tuple[CoreFigures, CoreFigures]], check: Run) -> str:
    """Return the figures as a Markdown table."""
    names = [*next(iter(figures.values()))[0].seconds]
    lines = [
        f"| brokers | core, brokers/s | {' | '.join(names)} | peak MiB | plain template and lxml, brokers/s |",
        "|---" * (len(names) + 4) + "|",
    ]
    for brokers, (measured, reference) in figures.items():
        speed, reference_speed = brokers / measured.total, brokers / reference.total
        shares = " | ".join(f"{second / brokers * 1e6:.0f} µs" for second in measured.seconds.values())
        lines.append(f"| {brokers:,} | {speed:,.0f} | {shares} | {measured.peak:.0f} | {reference_speed:,.0f} |")
    (few, (small, _)), (many, (large, _)) = list(figures.items())[-2:]
    ratio = (large.total / many) / (small.total / few)
    lines.append(
        f"\nCPU time on one core. With {many:,} brokers, each broker takes {ratio:.2f} times as long as with {few:,}."
    )
    lines.append(f"`check --file` on one document: {check.wall:.2f} s, of which {check.cpu:.2f} s are CPU time.")
    return "\n".join(lines) + "\n"


def main(subject: str, brokers: str, report: str) -> None:
    """Measure ``core`` or ``plain`` after a warm-up with a few brokers, and write the seconds to the report."""
    collect_garbage_rarely()
    measure_stages = {"core": core, "plain": plain}[subject]
    measure_stages(GROUP)
    Path(report).write_text(json.dumps(measure_stages(int(brokers))))


if __name__ == "__main__":
    main(*sys.argv[1:])
