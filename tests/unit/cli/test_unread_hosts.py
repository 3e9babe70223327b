"""check names the hosts of an inventory that it does not read as brokers."""

from __future__ import annotations

from pathlib import Path

import pytest

from activemq_fleet.cli.main import main


def test_check_names_host_that_is_not_read_as_broker(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inventory = tmp_path / "inventory"
    assert main(["init", "mq-kiel-1", "mq-kiel-2", "--release", "6.3.1", "-o", str(inventory)]) == 0
    hosts = inventory / "hosts.yml"
    hosts.write_text(hosts.read_text().replace("mq-kiel-2", "mqkiel2"))
    capsys.readouterr()

    assert main(["check", "-i", str(inventory), "--select", "T"]) == 1

    printed = capsys.readouterr()
    command = f"activemq-fleet names -i {inventory}"
    assert f"warning: 1 host is not read as a broker: mqkiel2 ({command} shows why)" in printed.err
    assert "add mq-kiel-2 (mqkiel2 has a similar name" in printed.out
