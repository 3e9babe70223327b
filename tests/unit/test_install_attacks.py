"""Files that the broker's account plants where root installs the broker's files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from activemq_fleet.node.config.configuration_archive import ConfigurationFile
from activemq_fleet.node.config.versions import ConfigurationPaths
from activemq_fleet.node.errors import NodeError
from activemq_fleet.node.files.untrusted_paths import UntrustedPathError
from activemq_fleet.node.install.configuration_install import Owners, install_configuration
from activemq_fleet.node.install.runtime_configuration import log_end_position
from tests.unit.attackers import BROKER, call_as, create_owned_directory, directory_for_all_accounts, requires_root

pytestmark = requires_root
OWNERS = Owners(user=BROKER, root=0, group=BROKER)
TREE = {
    "conf/activemq.xml": ConfigurationFile(b"<beans/>", 0o640),
    "systemd/activemq.service": ConfigurationFile(b"[Service]", 0o644),
}


@pytest.fixture
def common() -> Iterator[Path]:
    with directory_for_all_accounts() as directory:
        (directory / "secret").mkdir(mode=0o700)
        yield directory


def test_root_installs_nothing_where_account_can_replace_files(common: Path) -> None:
    """Debian's package gives /var/lib/activemq to its account. A systemd unit is a link to a file in this directory."""
    home = create_owned_directory(common / "home")
    call_as(BROKER, lambda: (home / "activemq").symlink_to(common / "secret"))
    with pytest.raises(NodeError, match=rf"account 61616\) can replace files that root installs in {home}. Make root"):
        install_configuration(str(home / "activemq"), TREE, OWNERS)
    assert os.listdir(common / "secret") == []
    assert (common / "secret").stat().st_gid == 0


def test_link_planted_before_root_owned_directory_is_not_followed(common: Path) -> None:
    home = create_owned_directory(common / "home")
    call_as(BROKER, lambda: (home / "activemq").mkdir(), lambda: (home / "activemq" / "versions").symlink_to("/etc"))
    os.chown(home, 0, 0)
    etc_before = os.stat("/etc")
    with pytest.raises(UntrustedPathError, match=r"versions is a symbolic link that belongs to account 61616"):
        install_configuration(str(home / "activemq"), TREE, OWNERS)
    assert (os.stat("/etc").st_mode, os.stat("/etc").st_gid) == (etc_before.st_mode, etc_before.st_gid)


def test_configuration_version_with_files_of_account_is_not_reused(common: Path) -> None:
    base = common / "activemq"
    name = install_configuration(str(base), TREE, OWNERS).version
    planted = base / "versions" / name
    os.chown(planted / "systemd", BROKER, BROKER)
    (base / "current").unlink()
    assert install_configuration(str(base), TREE, OWNERS).version == f"{name}-1"


def test_data_directory_that_root_linked_to_another_disk_is_used(common: Path) -> None:
    disk = create_owned_directory(common / "disk")
    (common / "activemq").mkdir()
    (common / "activemq" / "data").symlink_to(disk)
    install_configuration(str(common / "activemq"), TREE, OWNERS)
    assert (disk.stat().st_uid, disk.stat().st_mode & 0o777) == (BROKER, 0o750)


def test_log_that_is_fifo_has_no_end_position(common: Path) -> None:
    install_configuration(str(common / "activemq"), TREE, OWNERS)
    call_as(BROKER, lambda: os.mkfifo(common / "activemq" / "data" / "activemq.log"))
    assert log_end_position(ConfigurationPaths(str(common / "activemq"))).inode == 0
