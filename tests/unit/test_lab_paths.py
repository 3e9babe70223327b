from __future__ import annotations

import stat
from pathlib import Path

import pytest

from activemq_fleet.errors import InputError, LabError
from activemq_fleet.lab.lab_paths import LabPaths, lab_paths_for, write_lab_file


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def test_inventory_has_same_lab_directory_for_all_forms_of_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop").mkdir()
    monkeypatch.chdir(tmp_path)
    directories = {lab_paths_for([source]).directory for source in ("shop", str(tmp_path / "shop"), "shop/")}
    assert len(directories) == 1


def test_inventories_with_same_name_have_different_lab_directories(tmp_path: Path) -> None:
    directories = [lab_paths_for([str(tmp_path / parent / "shop")]).directory for parent in "ab"]
    assert directories[0] != directories[1]


def test_name_of_lab_directory_starts_with_name_of_inventory(tmp_path: Path) -> None:
    assert lab_paths_for([str(tmp_path / "my shop")]).directory.name.startswith("my-shop-")


def test_name_of_lab_directory_for_host_list_starts_with_first_host() -> None:
    assert lab_paths_for(["orders-mq01-a,orders-mq01-b,"]).directory.name.startswith("orders-mq01-a-")


def test_selected_lab_directory_is_used(tmp_path: Path) -> None:
    assert lab_paths_for(["x"], tmp_path / "lab").directory == tmp_path / "lab"


def test_link_to_lab_directory_selects_same_lab(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert lab_paths_for(["x"], tmp_path / "link").directory == lab_paths_for(["x"], tmp_path / "real").directory


@pytest.mark.parametrize("name", ["with space", "with,comma", "with%percent", "with:colon"])
def test_lab_directory_that_brokers_cannot_use_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="--dir"):
        lab_paths_for(["x"], tmp_path / name)


def test_lab_directory_is_private(tmp_path: Path) -> None:
    LabPaths(tmp_path / "lab").make_private_lab_directory()
    assert stat.S_IMODE((tmp_path / "lab").stat().st_mode) == 0o700


def test_lab_directory_that_cannot_be_created_is_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="--dir"):
        LabPaths(tmp_path / "file" / "lab").make_private_lab_directory()


def test_second_lab_command_is_refused_while_first_command_uses_lab(tmp_path: Path) -> None:
    lab_paths = LabPaths(tmp_path / "lab")
    with lab_paths.hold_lab_lock(), pytest.raises(LabError, match="another command"), lab_paths.hold_lab_lock():
        pass
    with lab_paths.hold_lab_lock():
        pass


def test_lab_file_is_replaced_with_private_mode_and_no_temporary_file(tmp_path: Path) -> None:
    write_lab_file(tmp_path / "d" / "f", "one")
    write_lab_file(tmp_path / "d" / "f", b"two")
    assert (tmp_path / "d" / "f").read_text() == "two"
    assert stat.S_IMODE((tmp_path / "d" / "f").stat().st_mode) == 0o600
    assert [path.name for path in (tmp_path / "d").iterdir()] == ["f"]
