"""Measure the cost of metrics for a broker: scrape, memory, startup, and throughput with and without metrics."""

from __future__ import annotations

import base64
import json
import statistics
import threading
import time
import urllib.request
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import psutil

from activemq_fleet.addresses import Address
from activemq_fleet.lab.lab import Lab
from activemq_fleet.lab.stomp import Credentials, StompConnection
from benchmarks.measure import print_progress

RELEASES = ("5.5.1", "5.18.3", "6.3.1")
ROUNDS = 5
SCRAPES = 100
_INTERVAL = 1.0
"""Seconds between scrapes under load: fifteen times the default frequency of Prometheus."""
_BATCHES, _BATCH = 60, 200
_QUEUE, _LOGIN, _SECRET = "/queue/orders.in", "prom", "a-secret-of-the-benchmark"
_WITH, _WITHOUT = "with-mq01-a.example.com", "without-mq01-a.example.com"


@dataclass(frozen=True, slots=True)
class Cost:
    """Figures of a release: elapsed and CPU milliseconds and bytes of a scrape; additional MiB and startup seconds.

    ``rates`` are messages per second, ``cpu`` CPU milliseconds of the broker for 1,000 messages, each with and without.
    """

    release: str
    scrape: float
    scrape_cpu: float
    size: int
    memory: float
    start: float
    rates: tuple[float, float]
    cpu: tuple[float, float]
    worst: float
    """The loss of throughput in the median pair, in percent."""


def measure(work: Path) -> list[Cost]:
    """Return the cost of metrics on each release."""
    return [_measure(work / f"metrics-{release}", release) for release in RELEASES]


def _measure(directory: Path, release: str) -> Cost:
    print_progress(f"metrics on {release}")
    common = {
        "activemq_release": release,
        "activemq_ha": "none",
        "activemq_metrics_destinations": ["orders.in"],
        "activemq_metrics_username": _LOGIN,
        "activemq_metrics_password": _SECRET,
        "activemq_users": [{"name": "app", "password": "s3cret-app", "groups": ["apps"]}],
    }
    hosts = {_WITH: {"activemq_metrics": True}, _WITHOUT: {"activemq_metrics": False}}
    directory.mkdir(parents=True, exist_ok=True)
    inventory = directory / "hosts.yml"
    inventory.write_text(json.dumps({"all": {"hosts": hosts, "vars": common}}))
    with Lab.open(inventory, directory / "lab") as lab:
        lab.up(fresh=True)
        starts = [tuple(_start_seconds(lab, host) for host in (_WITH, _WITHOUT)) for _ in range(ROUNDS)]
        for host in (_WITH, _WITHOUT, _WITH, _WITHOUT):  # warm up the JIT compiler of both brokers
            _load(lab, host)
        pairs = [_load_both(lab, reverse=number % 2 == 1) for number in range(ROUNDS)]
        scrape, scrape_cpu, size = _scrape_cost(lab)
        with_metrics, without = (_process(lab, host) for host in (_WITH, _WITHOUT))
        memory = (with_metrics.memory_info().rss - without.memory_info().rss) / (1 << 20)
    return Cost(
        release,
        scrape,
        scrape_cpu,
        size,
        memory,
        statistics.median(with_metrics - without for with_metrics, without in starts),
        (_median(pair[0][0] for pair in pairs), _median(pair[1][0] for pair in pairs)),
        (_median(pair[0][1] for pair in pairs), _median(pair[1][1] for pair in pairs)),
        statistics.median((1 - pair[0][0] / pair[1][0]) * 100 for pair in pairs),
    )


def _load_both(lab: Lab, *, reverse: bool) -> tuple[tuple[float, float], tuple[float, float]]:
    """Load both brokers in sequence, in reverse order if ``reverse``; return the figures with and without metrics."""
    hosts = (_WITHOUT, _WITH) if reverse else (_WITH, _WITHOUT)
    loads = {host: _load(lab, host) for host in hosts}
    return loads[_WITH], loads[_WITHOUT]


def _median(values: object) -> float:
    return float(statistics.median(values))  # type: ignore[arg-type]


def _start_seconds(lab: Lab, host: str) -> float:
    """Restart a broker and return the seconds from its launch until its log reports the start."""
    lab.stop(host)
    began = time.time()
    lab.start(host)
    return (lab.started_at(host) or time.time()) - began


def _process(lab: Lab, host: str) -> psutil.Process:
    status = next(status for status in lab.status() if status.host == host)
    return psutil.Process(status.pid)


def _load(lab: Lab, host: str) -> tuple[float, float]:
    """Send and consume 12,000 messages; return messages per second, and CPU milliseconds of the broker for 1,000."""
    process, credentials = _process(lab, host), lab.credentials(host)
    address = lab.addresses(host, "stomp")[0]
    stop = threading.Event()
    scraper = threading.Thread(target=_scrape_until, args=(lab, stop))
    with ExitStack() as stack:
        if host == _WITH:
            scraper.start()
            stack.callback(scraper.join)
            stack.callback(stop.set)
        before, began = sum(process.cpu_times()[:2]), time.perf_counter()
        _exchange(address, credentials)
        seconds, cpu = time.perf_counter() - began, sum(process.cpu_times()[:2]) - before
    count = _BATCHES * _BATCH
    return count / seconds, cpu * 1e6 / count


def _exchange(address: Address, credentials: Credentials | None) -> None:
    body = "x" * 512
    with (
        StompConnection(address, credentials, timeout=60) as consumer,
        StompConnection(address, credentials, timeout=60) as producer,
    ):
        consumer.subscribe(_QUEUE, ack="auto")
        for _ in range(_BATCHES):
            producer.send_transaction(_QUEUE, [body] * _BATCH)
            for _ in range(_BATCH):
                if consumer.receive(60) is None:
                    raise TimeoutError("the consumer received no message within 60 s")


def _scrape(lab: Lab) -> int:
    broker = lab.fleet.broker(_WITH)
    url = f"http://{broker.settings.metrics_bind}:{broker.ports['metrics']}/metrics"
    login = base64.b64encode(f"{_LOGIN}:{_SECRET}".encode()).decode()
    request = urllib.request.Request(url, headers={"Authorization": f"Basic {login}"})
    with urllib.request.urlopen(request, timeout=30) as response:  # noqa: S310
        return len(response.read())


def _scrape_until(lab: Lab, stop: threading.Event) -> None:
    while not stop.wait(_INTERVAL):
        _scrape(lab)


def _scrape_cost(lab: Lab) -> tuple[float, float, int]:
    """Return elapsed milliseconds (median) and CPU milliseconds (mean) of a scrape, and its bytes."""
    process = _process(lab, _WITH)
    for _ in range(SCRAPES):
        _scrape(lab)
    before, times, size = sum(process.cpu_times()[:2]), [], 0
    for _ in range(SCRAPES):
        began = time.perf_counter()
        size = _scrape(lab)
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1e3, (sum(process.cpu_times()[:2]) - before) * 1e3 / SCRAPES, size


def table(costs: list[Cost]) -> str:
    """Return the figures as a Markdown table."""
    head = (
        f"Two brokers, with and without metrics; {ROUNDS} pairs of {_BATCHES * _BATCH:,} persistent "
        f"messages over STOMP, with one scrape per second; medians.\n\n"
        "| release | scrape | scrape, CPU | scrape, size | memory | startup | messages/s with, without | loss | "
        "CPU for 1,000 messages with, without |\n|---|---|---|---|---|---|---|---|---|\n"
    )
    return head + "".join(
        f"| {cost.release} | {cost.scrape:.1f} ms | {cost.scrape_cpu:.1f} ms | {cost.size / 1024:.1f} KiB "
        f"| {cost.memory:+.0f} MiB | {cost.start:+.2f} s | {cost.rates[0]:.0f}, {cost.rates[1]:.0f} "
        f"| {cost.worst:.1f} % | {cost.cpu[0]:.0f} ms, {cost.cpu[1]:.0f} ms |\n"
        for cost in costs
    )
