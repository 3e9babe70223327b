from __future__ import annotations

import stat
from pathlib import Path

import pytest

from activemq_fleet.errors import LabError
from activemq_fleet.lab.layout import LabLayout, lab_layout_for, write_lab_file


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def test_an_inventory_has_the_same_directory_however_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop").mkdir()
    monkeypatch.chdir(tmp_path)
    named = {lab_layout_for([source]).directory for source in ("shop", str(tmp_path / "shop"), "shop/")}
    assert len(named) == 1


def test_two_inventories_of_one_name_have_two_directories(tmp_path: Path) -> None:
    named = [lab_layout_for([str(tmp_path / parent / "shop")]).directory for parent in "ab"]
    assert named[0] != named[1]


def test_the_directory_shows_which_inventory_it_is(tmp_path: Path) -> None:
    assert lab_layout_for([str(tmp_path / "my shop")]).directory.name.startswith("my-shop-")


def test_a_list_of_hosts_is_an_inventory_too() -> None:
    assert lab_layout_for(["orders-mq01-a,orders-mq01-b,"]).directory.name.startswith("orders-mq01-a-")


def test_a_directory_of_the_users_own_is_taken(tmp_path: Path) -> None:
    assert lab_layout_for(["x"], tmp_path / "lab").directory == tmp_path / "lab"


def test_a_directory_behind_a_link_is_the_same_lab(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert lab_layout_for(["x"], tmp_path / "link").directory == lab_layout_for(["x"], tmp_path / "real").directory


@pytest.mark.parametrize("name", ["with space", "with,comma", "with%percent", "with:colon"])
def test_a_directory_that_brokers_could_not_be_given_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(LabError, match="--dir"):
        lab_layout_for(["x"], tmp_path / name)


def test_the_directory_is_private(tmp_path: Path) -> None:
    LabLayout(tmp_path / "lab").make_directory()
    assert stat.S_IMODE((tmp_path / "lab").stat().st_mode) == 0o700


def test_a_directory_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LabError, match="--dir"):
        LabLayout(tmp_path / "file" / "lab").make_directory()


def test_two_commands_do_not_work_on_one_lab_at_once(tmp_path: Path) -> None:
    layout = LabLayout(tmp_path / "lab")
    with layout.hold_lab_lock(), pytest.raises(LabError, match="another command"), layout.hold_lab_lock():
        pass
    with layout.hold_lab_lock():
        pass


def test_a_file_is_replaced_whole_and_private(tmp_path: Path) -> None:
    write_lab_file(tmp_path / "d" / "f", "one")
    write_lab_file(tmp_path / "d" / "f", b"two")
    assert (tmp_path / "d" / "f").read_text() == "two"
    assert stat.S_IMODE((tmp_path / "d" / "f").stat().st_mode) == 0o600
    assert [path.name for path in (tmp_path / "d").iterdir()] == ["f"]
