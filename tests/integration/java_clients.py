"""Java clients for tests, compiled with the jar of Eclipse's compiler, so that no javac is required."""

from __future__ import annotations

import subprocess
from pathlib import Path

from activemq_fleet.artifacts import _maven, fetch_jar_directory, java_executable
from activemq_fleet.artifacts._cache import ensure_cached, log_software_fetch_progress
from activemq_fleet.releases import Release

_SOURCES = Path(__file__).with_name("java")
_VERSION = "3.36.0"


def compiler_jar() -> Path:
    """Return the jar of Eclipse's batch compiler from the cache; it runs on Java 17."""

    def make(part: Path) -> None:
        part.mkdir()
        _maven.copy_artifact(f"org.eclipse.jdt:ecj:{_VERSION}", part)

    return ensure_cached(f"java/ecj-{_VERSION}", make, progress=log_software_fetch_progress) / f"ecj-{_VERSION}.jar"


def compile_client(name: str, release: Release, directory: Path) -> list[str]:
    """Compile a class of ``tests/integration/java`` with the client of a release; return the command that runs it.

    ``JMS`` in the source is replaced by the package of the release line: javax.jms, or jakarta.jms from 6.0 on.
    """
    jars = f"{fetch_jar_directory(release)}/*"
    package = "jakarta.jms" if release.text.startswith("6.") else "javax.jms"
    source = directory / f"{name}.java"
    source.write_text((_SOURCES / source.name).read_text().replace("import JMS.", f"import {package}."))
    classpath = ":".join(str(path) for path in sorted(fetch_jar_directory(release).glob("*.jar")))
    subprocess.run(
        [
            str(java_executable(17)),
            "-jar",
            str(compiler_jar()),
            "-17",
            "-nowarn",
            "-cp",
            classpath,
            "-d",
            str(directory),
            str(source),
        ],
        check=True,
    )
    return [str(java_executable(17)), "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", f"{directory}:{jars}", name]
