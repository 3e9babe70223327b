"""Run Maven as an ordinary client, with the user's settings, mirrors and local repository."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from activemq_fleet.artifacts._java import java_executable
from activemq_fleet.errors import ArtifactError
from activemq_fleet.node.text_lines import split_lines

_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"
# -U finds releases that were published since the last run; -C makes a damaged download an error.
_OPTIONS = ("-q", "-B", "-U", "-C", "-Dstyle.color=never")
_TIMEOUT_SECONDS = 1800
_TERMINAL_CODE = re.compile(r"\x1b\[[0-9;]*m")
_ERROR_CAUSE = re.compile(
    r"(?:Could not (?:find|transfer)|Cannot access|The following artifacts|Unknown host|Blocked mirror)"
)


class FailedMavenRunError(ArtifactError):
    """An error for a run of Maven that failed or exceeded its timeout.

    The message is the line of Maven's output that names the cause, or contains the timeout.
    """


class MissingArtifactError(FailedMavenRunError):
    """An error for an artifact that Maven's repositories do not have.

    Maven itself works.
    """


def copy_artifact(coordinate: str, directory: Path) -> Path:
    """Copy one Maven artifact into a directory, and return the file's path.

    Its dependencies are not copied. ``coordinate`` is ``GROUP:ARTIFACT:VERSION[:PACKAGING[:CLASSIFIER]]``. Raises
    ArtifactError with the line of Maven's output that names the cause.
    """
    _run_maven_goal(
        f"{_PLUGIN}:copy", {"artifact": coordinate, "outputDirectory": str(directory)}, working_directory=directory
    )
    files = [path for path in directory.iterdir() if path.is_file()]
    if len(files) != 1:
        raise ArtifactError(
            f"Maven copied {len(files)} files for the artifact {coordinate} instead of one: check the mirrors and "
            "repositories in Maven's settings.xml, and run the command again"
        )
    return files[0]


def copy_dependencies(pom: Path, properties: Mapping[str, str], profiles: Sequence[str], directory: Path) -> None:
    """Copy the runtime dependencies of a Maven POM into a directory.

    Raises ArtifactError with the line of Maven's output that names the cause.
    """
    arguments = ("-f", str(pom), "-P", ",".join(profiles))
    goal_properties = {**properties, "outputDirectory": str(directory), "includeScope": "runtime"}
    _run_maven_goal(f"{_PLUGIN}:copy-dependencies", goal_properties, arguments, working_directory=directory)


def _run_maven_goal(
    goal: str, properties: Mapping[str, str], arguments: Sequence[str] = (), *, working_directory: Path
) -> None:
    executable = shutil.which("mvn")
    if executable is None:
        raise ArtifactError("mvn (Maven) is not on PATH: install it (Debian: apt-get install maven)")
    working_directory.mkdir(parents=True, exist_ok=True)
    defines = [f"-D{name}={value}" for name, value in properties.items()]
    try:
        run = subprocess.run(
            [executable, *_OPTIONS, *arguments, goal, *defines],
            cwd=working_directory,  # In the user's directory, Maven would apply the directory .mvn.
            env=_maven_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise FailedMavenRunError(
            f"Maven did not finish within {_TIMEOUT_SECONDS} s: check the connection to the Maven repository"
        ) from None
    if run.returncode != 0:
        line = maven_error_line(run.stdout)
        raise (MissingArtifactError if "Could not find artifact" in line else FailedMavenRunError)(line)


def maven_error_line(output: str) -> str:
    """Return the line of Maven's output that names the error of a failed run.

    Maven's prefix and suffix are removed.
    """
    lines = [line.strip() for line in split_lines(_TERMINAL_CODE.sub("", output)) if line.strip()]
    errors = [line.removeprefix("[ERROR] ") for line in lines if line.startswith("[ERROR] ")]
    line = next(
        (line for line in errors if _ERROR_CAUSE.search(line)),
        (errors or lines or ["the command mvn failed without output"])[0],
    )
    line = line.partition(" -> [Help")[0]
    cause_match = _ERROR_CAUSE.search(line)
    return f"Maven: {line[cause_match.start() :] if cause_match else line}"


def _maven_environment() -> dict[str, str]:
    environment = dict(os.environ)
    executable = (
        java_executable()
    )  # This call checks JAVA_HOME, because Maven's message about a wrong JAVA_HOME is long.
    if not environment.get("JAVA_HOME") and shutil.which("java") is None:
        environment["JAVA_HOME"] = str(executable.parent.parent)
    return environment
