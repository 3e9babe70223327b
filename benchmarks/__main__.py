"""Run benchmarks and write DIR/benchmarks.md: ``python -m benchmarks --output DIR [core|hostile|render …]``."""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import sys
from pathlib import Path

from activemq_fleet.cli.lab_options import stop_signals_as_interrupt
from benchmarks import (
    agent,
    agent_memory,
    audit,
    core,
    hostile_files,
    journals,
    masker,
    metrics,
    plan,
    render,
    report_page,
    routes,
    site,
)
from benchmarks.measure import BenchmarkError


def _core(work: Path) -> str:
    return core.table(core.measure(work), core.check_file(work))


def _hostile(work: Path) -> str:
    return hostile_files.table(hostile_files.measure(work))


def _render(work: Path) -> str:
    return render.table(render.measure(work))


def _routes(_work: Path) -> str:
    return routes.table(routes.measure())


def _site(work: Path) -> str:
    return site.table(site.measure(work))


def _agent(work: Path) -> str:
    return agent.table(*agent.measure(work))


def _plan(work: Path) -> str:
    return plan.table(*plan.measure(work))


def _memory(work: Path) -> str:
    return agent_memory.table(agent_memory.measure(work))


def _audit(work: Path) -> str:
    return audit.page(work)


def _journals(work: Path) -> str:
    return journals.table(journals.measure(work))


def _report(work: Path) -> str:
    return report_page.table(report_page.measure(work))


def _masker(_work: Path) -> str:
    return masker.table(masker.measure())


def _metrics(work: Path) -> str:
    return metrics.table(metrics.measure(work))


PARTS = {
    "core": ("The library on one CPU core", _core),
    "hostile": ("Files designed to slow down a check", _hostile),
    "render": ("Rendering a fleet", _render),
    "routes": ("Routes between brokers", _routes),
    "site": ("Rolling out to hosts", _site),
    "agent": ("The agent's durable outbox", _agent),
    "memory": ("The agent's memory", _memory),
    "masker": ("Masking collected files", _masker),
    "metrics": ("Metrics of brokers", _metrics),
    "plan": ("Planning fleets on Spark", _plan),
    "audit": ("Reading broker logs on Spark", _audit),
    "journals": ("Auditing the events of an agent", _journals),
    "report": ("The report of a large audit", _report),
}


def main() -> int:
    """Measure the selected parts, and print a page of Markdown."""
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("--output", type=Path, required=True, help="directory of inventories, outputs and figures")
    parser.add_argument("parts", nargs="*", help="benchmarks to run; all by default")
    arguments = parser.parse_args()
    work = arguments.output.resolve()
    work.mkdir(parents=True, exist_ok=True)
    cores, python = os.cpu_count(), platform.python_version()
    page = [f"Measured {datetime.date.today()} on {cores} cores with Python {python}; medians where runs repeat.\n"]
    try:
        with stop_signals_as_interrupt():
            for part in arguments.parts or PARTS:
                title, measure_part = PARTS[part]
                page.append(f"## {title}\n\n{measure_part(work)}")
    except KeyboardInterrupt:
        print("benchmarks: interrupted; the brokers of all labs are stopped", file=sys.stderr)
        return 130
    except BenchmarkError as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 1
    text = "\n".join(page)
    (work / "benchmarks.md").write_text(text)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
