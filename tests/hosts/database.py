"""A PostgreSQL server at the bridge of the network of machines, for brokers that share a database."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from activemq_fleet.lab.database import postgresql_program_path
from tests.hosts.machines import Rack
from tests.hosts.machines.commands import attempt, run
from tests.hosts.machines.network import GATEWAY
from tests.waiting import wait_until

ACCOUNT = "activemq"
PASSWORD = "made-up-database-password"
URL = f"jdbc:postgresql://{GATEWAY.ip}/postgres?socketTimeout=30&connectTimeout=10"

# PostgreSQL refuses to run as root. In a user namespace it has another account, and root owns its files.
_OTHER_ACCOUNT = ("unshare", "--user")


@contextmanager
def database(rack: Rack, directory: Path) -> Iterator[None]:
    """Run a database server with its files in ``directory``; machines of a started rack connect to it at ``URL``.

    Raises LabError if PostgreSQL is not installed.
    """
    data_directory, password_file = directory / "data", directory / "password"
    password_file.write_text(PASSWORD)
    options = [
        "--auth=scram-sha-256",
        f"--pwfile={password_file}",
        f"--username={ACCOUNT}",
        "--encoding=UTF8",
        "--locale=C",
    ]
    run([*_OTHER_ACCOUNT, postgresql_program_path("initdb"), *options, "--pgdata", str(data_directory)])
    with (data_directory / "pg_hba.conf").open("a") as rules:
        rules.write(f"host all all {GATEWAY.network} scram-sha-256\n")
    listen_options = ["-c", f"listen_addresses={GATEWAY.ip}", "-c", "unix_socket_directories="]
    command = [*_OTHER_ACCOUNT, postgresql_program_path("postgres"), "-D", str(data_directory), *listen_options]
    log = directory / "database.log"
    with log.open("w") as output, subprocess.Popen(rack.lan.inside(*command), stdout=output, stderr=output) as server:
        try:
            is_ready = rack.lan.inside(postgresql_program_path("pg_isready"), "--quiet", "--host", str(GATEWAY.ip))
            wait_until(
                lambda: attempt(is_ready).returncode == 0, "the database accepts connections", seen=log.read_text
            )
            yield
        finally:
            server.send_signal(signal.SIGINT)
