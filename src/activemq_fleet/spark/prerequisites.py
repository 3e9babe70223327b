"""Check what Spark needs before it is started: Java, archives, and a master or server that answers."""

from __future__ import annotations

import os
import re
import shutil
import socket
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlsplit

from activemq_fleet.artifacts import java_feature_release
from activemq_fleet.errors import ArtifactError
from activemq_fleet.spark.paths import local_path
from activemq_fleet.spark.problems import SparkProblem

_MINIMUM_JAVA = 17
_INSTALL_COMMAND = "apt-get install openjdk-17-jre-headless"
_CONNECTION_TIMEOUT = 10.0  # seconds for a connection
_DEFAULT_PORTS = {"spark": 7077, "sc": 15002}


def require_supported_java_home() -> Path:
    """Return the home directory of Java 17 or newer: that of ``$JAVA_HOME``, else that of ``java`` on the PATH.

    Raises SparkProblem when neither is 17 or newer.
    """
    home, on_path = os.environ.get("JAVA_HOME"), shutil.which("java")
    candidates = [Path(home) / "bin" / "java"] if home else []
    candidates += [Path(on_path)] if on_path else []
    problems = []
    for candidate in candidates:
        try:
            feature = java_feature_release(candidate)
        except ArtifactError as error:
            problems.append(str(error))
            continue
        if feature >= _MINIMUM_JAVA:
            return candidate.resolve().parents[1]
        problems.append(f"{candidate} is Java {feature}")
    reasons = "; ".join(problems) or "no java is on the PATH, and JAVA_HOME is not set"
    raise SparkProblem(
        f"Spark requires Java {_MINIMUM_JAVA} or newer, but {reasons}. Install Java {_MINIMUM_JAVA} "
        f"(Debian: {_INSTALL_COMMAND}). If another Java is the default, set JAVA_HOME to the directory of "
        f"Java {_MINIMUM_JAVA}"
    )


def check_local_archives_exist(archives: Iterable[str]) -> None:
    """Check that local archives of Python environments for Spark exist, and raise SparkProblem if one does not."""
    for archive in archives:
        file = local_path(archive.rpartition("#")[0])
        if file is not None and not file.is_file():
            raise SparkProblem(
                f"--archives {archive}: the file does not exist: create it with `activemq-fleet pack -o FILE`"
            )


def check_reachable(url: str) -> None:
    """Check that the Spark server at a URL is reachable, and raise SparkProblem if it is not.

    The master or Connect server must accept a TCP connection within 10 s. Spark itself would try for a minute and
    longer. Of ``spark://A:7077,B:7077`` one must answer.
    """
    scheme = url.partition(":")[0]
    if scheme not in _DEFAULT_PORTS or "://" not in url:
        return
    problems = []
    for address in re.split(r"[;/]", url.partition("://")[2])[0].split(","):
        problem = _connection_problem(scheme, address)
        if not problem:
            return
        problems.append(problem)
    server, option = ("Spark master", "--master") if scheme == "spark" else ("Spark Connect server", "--remote")
    raise SparkProblem(
        f"the {server} {url.partition(';')[0]} cannot be reached ({'; '.join(problems)}): start it, or correct {option}"
    )


def _connection_problem(scheme: str, address: str) -> str:
    """Return why an address does not accept a TCP connection; empty if it accepts one."""
    try:
        parts = urlsplit(f"//{address}")
        host, port = parts.hostname, parts.port or _DEFAULT_PORTS[scheme]
    except ValueError:
        return f"the address {address} is not HOST:PORT with a port from 1 to 65535"
    if not host:
        return "the address names no host"
    try:
        socket.create_connection((host, port), timeout=_CONNECTION_TIMEOUT).close()
    except socket.gaierror:
        return f"the name {host} cannot be resolved"
    except TimeoutError:
        return f"{host}:{port} does not answer"
    except OSError as error:
        return f"{host}:{port}: {error.strerror or error}"
    return ""
