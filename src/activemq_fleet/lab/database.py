"""The PostgreSQL server of a lab, which holds the stores of its shared-jdbc pairs: one database per pair."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from activemq_fleet.errors import LabError
from activemq_fleet.lab import processes
from activemq_fleet.lab.connector_and_port_checks import require_free_port
from activemq_fleet.lab.lab_paths import LabPaths, write_lab_file
from activemq_fleet.lab.lab_state_file import LabState
from activemq_fleet.lab.loopback_overlay import (
    DATABASE_PORT,
    DATABASE_USER,
    PROGRAM_MARK,
    database_address,
    database_password,
)
from activemq_fleet.lab.polling import poll_for_true_result
from activemq_fleet.node.text_lines import split_lines

_PROCESS_NAME = "database"  # Name of the server's process record. No host has this name.
_OWNER = "postgres"
_START_TIMEOUT = 60.0
_STOP_TIMEOUT = 30.0
_PROGRAMS_DIRECTORY = "/usr/lib/postgresql"  # Debian has a directory for each major version here.
_INSTALL_HINT = "install PostgreSQL's server (Debian: apt-get install postgresql), or set activemq_ha: shared-file"


class LabDatabase:
    """The PostgreSQL database server of a lab (real brokers on loopback addresses).

    The server's files, in ``directory``, are kept by ``lab down``. Every method raises LabError, with a message of one
    line, if it fails.
    """

    def __init__(self, lab_paths: LabPaths, state: LabState) -> None:
        self._lab_paths = lab_paths
        self.directory = lab_paths.directory / "database"
        self._data = self.directory / "data"
        self._address = database_address(state.block)
        self._password = database_password(state.seed)

    @property
    def listening_address(self) -> tuple[str, int]:
        """The address and port on which the lab's database server listens."""
        return self._address, DATABASE_PORT

    def start(self, databases: Iterable[str] = ()) -> None:
        """Start the lab's database server unless it runs, wait until it accepts connections, and create databases.

        ``databases`` are the names of the databases to create; existing ones do not change. Raises LabError.
        """
        if self.process() is None:
            require_free_port(self.listening_address)
            if not (self._data / "PG_VERSION").exists():
                self._initialize()
            self._launch()
        if not poll_for_true_result(self.accepts_connections, _START_TIMEOUT):
            raise LabError(
                f"the PostgreSQL server of the lab does not answer after {_START_TIMEOUT:g} s: read its log "
                f"{self.directory}/console.log, which ends with: {self._last_line()}"
            )
        for name in databases:
            self._create_database(name)

    def stop(self) -> None:
        """Stop the lab's database server.

        Brokers are disconnected. Nothing happens if the server does not run.
        """
        if process := self.process():
            processes.signal_process_group(process, signal.SIGINT)
            with suppress(psutil.TimeoutExpired):
                process.wait(_STOP_TIMEOUT)
            processes.terminate_processes([process], grace=0)

    def kill(self) -> None:
        """Kill the lab's database server and its sessions, as a power cut does.

        The server recovers at its next start.
        """
        if process := self.process():
            children = process.children(recursive=True)
            processes.terminate_processes([process, *children], grace=0)

    def delete_files(self) -> None:
        """Delete the files of the lab's database server.

        All databases are deleted. The server must not run.
        """
        shutil.rmtree(self.directory, ignore_errors=True)

    def process(self) -> psutil.Process | None:
        """Return the process of the lab's database server; None while it does not run."""
        return processes.running_process(self._lab_paths, _PROCESS_NAME)

    def accepts_connections(self) -> bool:
        """Return whether the database server accepts connections."""
        return self._run_sql("SELECT 1", check=False).returncode == 0

    def _initialize(self) -> None:
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.rmtree(self._data, ignore_errors=True)
        secret = self.directory / "password"
        write_lab_file(secret, self._password)
        try:
            options = ["--auth=scram-sha-256", f"--pwfile={secret}", f"--username={_OWNER}", "--encoding=UTF8"]
            location_options = ["--locale=C", "--pgdata", str(self._data)]
            result = self._run([*_non_root_prefix(), postgresql_program_path("initdb"), *options, *location_options])
        finally:
            secret.unlink()
        if result.returncode:
            shutil.rmtree(self._data, ignore_errors=True)
            raise LabError(
                f"initdb cannot create the PostgreSQL server of the lab in {self._data}. Correct this error of initdb: "
                f"{_last_output_line(result.stderr)}"
            )

    def _launch(self) -> None:
        settings = {
            "listen_addresses": self._address,
            "port": str(DATABASE_PORT),
            "unix_socket_directories": "",
            PROGRAM_MARK.rstrip("="): str(self._lab_paths.directory),
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        command = [*_non_root_prefix(), postgresql_program_path("postgres"), "-D", str(self._data), *options]
        processes.launch_broker(self._lab_paths, _PROCESS_NAME, command, {}, self.directory, "")

    def _create_database(self, name: str) -> None:
        # psql quotes its variables. The database has the name of its pair. The password is not on a command line.
        self._run_sql(
            "\\getenv password DATABASE_PASSWORD\n"
            "SELECT format('CREATE ROLE %I LOGIN PASSWORD %L', :'user', :'password')"
            " WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = :'user') \\gexec\n"
            "SELECT format('CREATE DATABASE %I OWNER %I', :'name', :'user')"
            " WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = :'name') \\gexec\n",
            variables={"user": DATABASE_USER, "name": name},
        )

    def _run_sql(
        self, sql: str, *, variables: Mapping[str, str] | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        variable_options = [word for name, value in (variables or {}).items() for word in ("-v", f"{name}={value}")]
        connection_options = ["-h", self._address, "-p", str(DATABASE_PORT), "-U", _OWNER, "-d", _OWNER]
        result = self._run(
            [
                postgresql_program_path("psql"),
                "-X",
                "-q",
                "-A",
                "-t",
                "-v",
                "ON_ERROR_STOP=1",
                *variable_options,
                *connection_options,
            ],
            sql,
            {"PGPASSWORD": self._password, "DATABASE_PASSWORD": self._password, "PGCONNECT_TIMEOUT": "5"},
        )
        if check and result.returncode:
            raise LabError(
                f"the PostgreSQL server of the lab rejects an SQL command ({_last_output_line(result.stderr)}): read "
                f"its log {self.directory}/console.log"
            )
        return result

    def _run(
        self, command: Sequence[str], text: str = "", variables: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", **(variables or {})}
        return subprocess.run(command, input=text, capture_output=True, text=True, env=environment, check=False)

    def _last_line(self) -> str:
        with suppress(OSError):
            return _last_output_line((self.directory / "console.log").read_text(errors="replace"))
        return "(no output)"


def _last_output_line(text: str) -> str:
    lines = [line for line in split_lines(text) if line.strip()]
    return lines[-1] if lines else "(no output)"


def _non_root_prefix() -> Iterator[str]:
    """Yield the words in front of a command that refuses to run as root.

    With them the command runs under another user id in a user namespace, and its files still belong to root.
    """
    if os.geteuid() == 0:
        yield from ("unshare", "--user")


def postgresql_program_path(name: str) -> str:
    """Return the path of an installed PostgreSQL program, such as ``psql``.

    The program is that of Debian's newest installed version, else from $PATH. Raises LabError, with what to install,
    where there is none.
    """

    def version(path: Path) -> int:
        return int(re.sub(r"\D", "", path.parts[-3]) or 0)

    program_paths = sorted(Path(_PROGRAMS_DIRECTORY).glob(f"*/bin/{name}"), key=version)
    program = str(program_paths[-1]) if program_paths else shutil.which(name)
    if program is None:
        raise LabError(
            f"a pair with activemq_ha: shared-jdbc needs a database, but PostgreSQL's program {name} was not found: "
            f"{_INSTALL_HINT}"
        )
    return program
