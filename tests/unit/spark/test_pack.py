"""The archive of the Python environment for Spark's executors."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from activemq_fleet.spark import pack


def test_link_as_output_of_pack_stays_and_its_target_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pack, "_required_distributions", dict)
    (tmp_path / "archives").mkdir()
    output = tmp_path / "environment.tar.gz"
    output.symlink_to("archives/environment.tar.gz")

    packed = pack.pack_activemq_fleet_environment(output)

    assert output.is_symlink()
    assert [path.name for path in (tmp_path / "archives").iterdir()] == ["environment.tar.gz"]
    with tarfile.open(packed.archive) as archive:
        assert "bin/python" in archive.getnames()
