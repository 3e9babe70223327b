"""The archive of the Python environment for Spark's executors."""

from __future__ import annotations

import tarfile
from importlib.metadata import Distribution
from pathlib import Path

import pytest

from activemq_fleet.errors import InputError
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


@pytest.mark.parametrize("sources", [None, "setup.py\nlib/yaml/__init__.py\n"])
def test_pack_refuses_package_whose_installed_files_are_not_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sources: str | None
) -> None:
    egg_info = tmp_path / "dist-packages/PyYAML-6.0.egg-info"
    egg_info.mkdir(parents=True)
    (egg_info / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: PyYAML\nVersion: 6.0\n")
    if sources is not None:
        (egg_info / "SOURCES.txt").write_text(sources)
    monkeypatch.setattr(pack, "_required_distributions", lambda: {"pyyaml": Distribution.at(egg_info)})

    with pytest.raises(InputError, match=r"^the Python package PyYAML was installed without a list of its files"):
        pack.pack_activemq_fleet_environment(tmp_path / "environment.tar.gz")

    assert [path.name for path in tmp_path.iterdir()] == ["dist-packages"]
