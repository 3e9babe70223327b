"""A lab of releases before 6.0 on Java 11, the oldest Java that it accepts."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from activemq_fleet.errors import ArtifactError
from tests.integration.conftest import LabOf
from tests.integration.labs import processes_of
from tests.integration.old_java import java_11
from tests.situations import in_every_situation

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "two-machines"
PAIR = "orders-mq01"

pytestmark = in_every_situation


@pytest.fixture(autouse=True)
def java_home(monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set JAVA_HOME to Java 11 and return it."""
    home = java_11().parents[1]
    monkeypatch.setenv("JAVA_HOME", str(home))
    return home


def test_pair_of_5_18_takes_over_on_java_11(lab_of: LabOf, java_home: Path) -> None:
    lab = lab_of([EXAMPLE], extra_vars=["activemq_release=5.18.3"])
    lab.up()
    programs = {Path(psutil.Process(pid).exe()) for pid in processes_of(lab.directory)}
    assert (java_home / "bin" / "java").resolve() in programs
    victim = lab.active(PAIR)
    assert victim is not None
    lab.kill(victim)
    assert lab.wait_active(PAIR) != victim


def test_lab_of_6_3_is_refused_on_java_11(
    lab_of: LabOf, java_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = lab_of([EXAMPLE])
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ArtifactError, match=rf"^Java 17 or newer is required, but {java_home}/bin/java is Java 11: "):
        lab.prepare()
    assert not (lab.directory / "lab.json").exists()
