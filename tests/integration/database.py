"""A database server for brokers that share a database: H2, as a separate process on loopback."""

from __future__ import annotations

from pathlib import Path

from activemq_fleet.artifacts import _maven, java_executable
from activemq_fleet.artifacts._cache import ensure_cached, log_software_fetch_progress
from activemq_fleet.lab import processes
from activemq_fleet.lab.loopback_overlay import MARK
from activemq_fleet.render.engine import escape_xml
from activemq_fleet.schema import BEANS
from tests.integration.single_brokers import BrokerSandbox, until
from tests.integration.traffic import is_open

_VERSION = "2.2.224"
_PORT = 21527


def driver() -> Path:
    """Return the jar of H2 from the cache; it contains server and driver."""

    def make(part: Path) -> None:
        part.mkdir()
        _maven.copy_artifact(f"com.h2database:h2:{_VERSION}", part)

    return ensure_cached(f"drivers/h2-{_VERSION}", make, progress=log_software_fetch_progress) / f"h2-{_VERSION}.jar"


def url_at(address: tuple[str, int]) -> str:
    return f"jdbc:h2:tcp://{address[0]}:{address[1]}/./store"


class Database:
    """A server that stops with its sandbox; the first connection creates the database."""

    def __init__(self, sandbox: BrokerSandbox, number: int) -> None:
        """Start the server on the ``number``-th address of the sandbox, and wait until it listens."""
        self.driver = driver()
        self._address = sandbox.address(number)
        data_directory = sandbox.lab_paths.directory / "database"
        command = [
            str(java_executable(11)),
            "-Xmx64m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            f"-Dh2.bindAddress={self._address}",
            f"{MARK}{sandbox.lab_paths.directory}",
            "-cp",
            str(self.driver),
            "org.h2.tools.Server",
            "-tcp",
            "-tcpPort",
            str(_PORT),
            "-ifNotExists",
            "-baseDir",
            str(data_directory),
        ]
        processes.launch_broker(sandbox.lab_paths, "database", command, {}, data_directory, "")
        if not until(lambda: is_open((self._address, _PORT)), 120):
            raise AssertionError(f"H2 does not listen after 120 s: {(data_directory / 'console.log').read_text()}")

    @property
    def address(self) -> tuple[str, int]:
        """Address and port on which the server listens."""
        return self._address, _PORT

    @property
    def url(self) -> str:
        """The JDBC URL of the database."""
        return url_at(self.address)

    def bean(self, name: str, address: tuple[str, int] | None = None) -> str:
        """Return a ``<bean>`` with a name: the data source of a store, at the address of the server or of a relay."""
        url = escape_xml(url_at(address or self.address))
        return (
            f'<bean xmlns="{BEANS}" id="{name}" class="org.h2.jdbcx.JdbcDataSource">'
            f'<property name="URL" value="{url}"/><property name="user" value="sa"/>'
            '<property name="password" value=""/></bean>'
        )
