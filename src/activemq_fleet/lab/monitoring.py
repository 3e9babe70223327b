"""Run Prometheus, Alertmanager and a node exporter for a lab on one of its loopback addresses."""

from __future__ import annotations

import http.client
import json
import math
import shutil
import urllib.parse
import urllib.request
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import psutil
from pydantic import SecretStr

from activemq_fleet.addresses import Address, join_host_port
from activemq_fleet.errors import LabError
from activemq_fleet.lab import processes
from activemq_fleet.lab.connector_and_port_checks import is_port_taken
from activemq_fleet.lab.lab_paths import LabPaths, write_lab_file
from activemq_fleet.lab.lab_state_file import LabState
from activemq_fleet.lab.loopback_overlay import PROGRAM_MARK, database_address
from activemq_fleet.lab.polling import poll_for_true_result
from activemq_fleet.render import render_broker
from activemq_fleet.render.jmx_exporter import broker_configuration_fingerprint
from activemq_fleet.render.monitoring.prometheus import PrometheusSettings, prometheus_and_grafana_files

_ALERT_DURATION_FACTOR = 0.05
"""The factor by which a lab shortens the durations of alerts, so that a cause of a minute fires after 3 seconds."""
PROGRAMS = {
    "prometheus": ("prometheus", 9090),
    "alertmanager": ("prometheus-alertmanager", 9093),
    "node-exporter": ("prometheus-node-exporter", 9100),
}
"""Debian's program and the port of each process, by its name in the lab."""
_SCRAPES_PER_SECOND = 10
"""The number of brokers that Prometheus scrapes per second, because all brokers of a lab share one machine."""
_MAX_POINTS = 10_000  # Points of a series. Prometheus returns at most 11,000.
_START_TIMEOUT = 30.0
_TIMEOUT = 10.0
_STOP_TIMEOUT = 10.0


class Monitoring:
    """The monitoring programs of a lab: Prometheus, Alertmanager and node exporter.

    Their files are in ``directory``. Every method raises LabError, with a message of one line, if it fails.
    """

    def __init__(self, lab_paths: LabPaths, state: LabState) -> None:
        self._lab_paths = lab_paths
        self._state = state
        self._host = database_address(state.block)
        self.directory = lab_paths.directory / "prometheus"

    def program_address(self, name: str = "prometheus") -> Address:
        """Return the host and port on which a monitoring program, such as Prometheus, listens.

        The program is prometheus, alertmanager or node-exporter.
        """
        return self._host, PROGRAMS[name][1]

    def program_url(self, name: str = "prometheus") -> str:
        """Return the URL of the web page of a monitoring program, such as Prometheus.

        The program is prometheus, alertmanager or node-exporter.
        """
        return f"http://{join_host_port(*self.program_address(name))}"

    def start_programs(self) -> None:
        """Start the monitoring programs of a lab that do not run yet, and wait until all answer.

        The monitoring files of the fleet are written first.
        """
        check_monitoring_programs_installed()
        self.require_free_ports()
        self.write_configuration()
        for name in PROGRAMS:
            if self._process(name) is None:
                self._launch(name)
        for name in PROGRAMS:
            if not poll_for_true_result(partial(self._is_ready, name), _START_TIMEOUT):
                raise LabError(
                    f"the program {name} of the lab does not answer after {_START_TIMEOUT:g} s: find the error in its "
                    f"log {self.directory}/{name}/console.log, and correct its cause"
                )
        self.reload_prometheus()

    def require_free_ports(self) -> None:
        """Raise LabError if another program uses the port of a monitoring program, such as Prometheus.

        The ports of the lab's running programs are not checked.
        """
        for name, (service, port) in PROGRAMS.items():
            if self._process(name) is None and is_port_taken(self.program_address(name)):
                raise LabError(
                    f"{name} of the lab cannot use port {port} on {self._host}, because another program uses it: stop "
                    "that program. If an earlier start of this lab left it, run `activemq-fleet lab down`. If it is "
                    f"the service that Debian started after the installation of {service}, run "
                    f"`systemctl disable --now {service}`"
                )

    def stop_programs(self) -> None:
        """Stop the monitoring programs of a lab.

        Prometheus, Alertmanager and node exporter are stopped where they run; their data are kept.
        """
        running = [process for name in PROGRAMS if (process := self._process(name))]
        processes.terminate_processes(running, grace=_STOP_TIMEOUT)

    def running_pids(self) -> list[int]:
        """Return the process ids of the lab's running monitoring programs, such as Prometheus."""
        return [process.pid for name in PROGRAMS if (process := self._process(name))]

    def write_configuration(self) -> None:
        """Write the configuration of Prometheus and Alertmanager for a fleet: targets and alert rules."""
        fleet = self._state.fleet()
        fingerprints = {
            broker.host: broker_configuration_fingerprint(render_broker(broker)) for broker in fleet.brokers
        }
        interval = f"{math.ceil(len(fleet.brokers) / _SCRAPES_PER_SECOND)}s"
        settings = PrometheusSettings(
            interval,
            join_host_port(*self.program_address("alertmanager")),
            _ALERT_DURATION_FACTOR,
            join_host_port(*self.program_address("node-exporter")),
        )
        for path, content in prometheus_and_grafana_files(fleet, fingerprints, settings).items():
            write_lab_file(self._lab_paths.directory / path, content)
        for broker in fleet.brokers:
            login, password = broker.settings.metrics_username, broker.settings.metrics_password
            if login and isinstance(password, SecretStr):
                write_lab_file(self.directory / f"activemq-metrics-{login}.password", password.get_secret_value())
        # Alertmanager rejects a wait of 0 s. It sends no notification, but its page shows the alerts.
        silent_route = {"receiver": "no-receiver", "group_wait": "1s", "group_interval": "1s", "repeat_interval": "1h"}
        route = {"route": silent_route | {"group_by": ["..."]}, "receivers": [{"name": "no-receiver"}]}
        write_lab_file(self.directory / "alertmanager.yml", json.dumps(route, indent=1) + "\n")

    def reload_prometheus(self) -> None:
        """Make Prometheus reload its configuration and its alert rules."""
        if self._request("prometheus", "/-/reload", method="POST") is None:
            raise LabError(
                "Prometheus of the lab does not load its configuration: correct the error in its log "
                f"{self.directory}/prometheus/console.log"
            )

    def query_prometheus_range_json(self, promql: str, began: float, ended: float) -> bytes:
        """Run a PromQL query on Prometheus for each second between two times, and return the JSON answer as bytes.

        ``began`` and ``ended`` are in epoch seconds. The interval is longer than 1 s if the answer would have too many
        points. Raises LabError if Prometheus does not answer.
        """
        step = max(1, math.ceil((ended - began) / _MAX_POINTS))
        parameters = {"query": promql, "start": f"{began:.3f}", "end": f"{ended:.3f}", "step": step}
        response = self._request("prometheus", "/api/v1/query_range?" + urllib.parse.urlencode(parameters))
        if response is None:
            raise LabError(
                f"Prometheus of the lab does not answer the query {promql}: check its log "
                f"{self.directory}/prometheus/console.log"
            )
        return response

    def _is_ready(self, name: str) -> bool:
        return self._request(name, "/metrics" if name == "node-exporter" else "/-/ready") is not None

    def _launch(self, name: str) -> None:
        data = self.directory / name
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
        # The first word of the command line is the lab's mark, which identifies the processes of a lab.
        mark_argument = f"{PROGRAM_MARK}{self._lab_paths.directory}"
        command = ["/bin/bash", "-c", 'exec -a "$0" "$@"', mark_argument, PROGRAMS[name][0], *self._options(name, data)]
        processes.launch_broker(self._lab_paths, name, command, {}, data, "")

    def _options(self, name: str, data: Path) -> Iterable[str]:
        listen = f"--web.listen-address={join_host_port(*self.program_address(name))}"
        if name == "prometheus":
            yield f"--config.file={self.directory}/prometheus.yml"
            yield f"--storage.tsdb.path={data}/tsdb"
            yield "--web.enable-lifecycle"
        elif name == "alertmanager":
            yield f"--config.file={self.directory}/alertmanager.yml"
            yield f"--storage.path={data}/state"
            yield "--cluster.listen-address="
        else:
            yield "--collector.disable-defaults"
            yield "--collector.textfile"
            yield f"--collector.textfile.directory={self._lab_paths.hosts}/*/activemq*"
        yield listen

    def _process(self, name: str) -> psutil.Process | None:
        return processes.running_process(self._lab_paths, name)

    def _request(self, name: str, path: str, method: str = "GET") -> bytes | None:
        request = urllib.request.Request(self.program_url(name) + path, method=method)  # noqa: S310 -- an address of the lab
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT) as response:  # noqa: S310
                return bytes(response.read())
        except (OSError, http.client.HTTPException):
            return None


def check_monitoring_programs_installed() -> None:
    """Check that Prometheus, Alertmanager and node exporter are installed, and raise LabError if one is not.

    The error names the package.
    """
    missing = [program for program, _ in PROGRAMS.values() if shutil.which(program) is None]
    if missing:
        raise LabError(
            f"lab up --prometheus needs {' and '.join(missing)}: install them (Debian: apt-get install "
            "prometheus prometheus-alertmanager prometheus-node-exporter), and stop the services that the installation "
            "starts, because they use the ports of the lab (systemctl disable --now, with the same names)"
        )
