"""Protection of files with secrets from other accounts of a host and from the output of tasks."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.deployment import files_to_deploy
from activemq_fleet.node.config.configuration_archive import ConfigurationFile, pack_configuration, unpack_configuration
from activemq_fleet.node.install.configuration_install import Owners, install_configuration
from activemq_fleet.topology import build_fleet

HOST = "orders-mq01-a.example.com"
RELEASES = ("5.5.1", "5.8.0", "5.18.3", "6.3.1")
OTHER_ACCOUNT = 65534
CANARY = "canary-of-a-vault"
LOCATIONS: dict[str, dict[str, Any]] = {
    "Java option": {"activemq_java_options": [f"-Dx.y={CANARY}"]},
    "broker attribute": {"activemq_broker_attributes": {"dataDirectory": f"/srv/{CANARY}"}},
    "XML fragment": {
        "activemq_xml_fragments": [
            {"parent": "broker/plugins", "xml": f'<discardingDLQBrokerPlugin dropOnly="{CANARY}"/>'}
        ]
    },
    "extra file": {"activemq_extra_files": [{"path": "conf/mine.properties", "content": f"k={CANARY}\n"}]},
    "connector option": {
        "activemq_connectors": [{"name": "openwire", "scheme": "nio", "port": 61616, "options": {"x": CANARY}}]
    },
}


def unpack_files_of_broker(release: str = "5.18.3", **variables: Any) -> dict[str, ConfigurationFile]:
    """Return the files of a broker as its host unpacks them from the archive."""
    host_variables = {"activemq_release": release, "activemq_ha": "none", **variables}
    (broker,) = build_fleet({HOST: host_variables}, {}).brokers
    files = files_to_deploy(broker).items()
    archive = pack_configuration(
        {path: ConfigurationFile(file.content, file.mode, file.masked, file.hidden) for path, file in files}
    )
    unpacked: dict[str, ConfigurationFile] = unpack_configuration(archive)
    return unpacked


def files_readable_by_other_account(paths: Mapping[str, Path]) -> set[str]:
    """Return the names of the files that a process of another account can open."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setgid(OTHER_ACCOUNT)
        os.setuid(OTHER_ACCOUNT)
        readable = [name for name, path in paths.items() if os.access(path, os.R_OK)]
        os.write(writer, json.dumps(readable).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        output = pipe.read()
    os.waitpid(child, 0)
    return set(json.loads(output))


@pytest.mark.parametrize("release", RELEASES)
def test_files_with_password_in_java_options_have_mode_0640(release: str) -> None:
    files = unpack_files_of_broker(release, activemq_java_options=[f"-Dpassword={CANARY}"])
    assert {file.mode for file in files.values() if CANARY.encode() in file.content} == {0o640}


@pytest.mark.parametrize("location", LOCATIONS)
def test_files_with_vaulted_value_have_mode_0640(location: str) -> None:
    files = unpack_files_of_broker(**LOCATIONS[location])
    assert {file.mode for file in files.values() if CANARY.encode() in file.content} == {0o640}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another account: run as root")
def test_other_accounts_can_read_only_service_units_of_deployed_files(tmp_path: Path) -> None:
    files = unpack_files_of_broker()
    install_configuration(str(tmp_path / "activemq"), files, Owners(user=0, root=0, group=0))
    # The test opens the directories, which are closed too, so that only the modes of the files matter.
    for directory in (*tmp_path.parents, tmp_path, *tmp_path.glob("**/")):
        if tmp_path in (directory, *directory.parents) or "pytest" in str(directory):
            directory.chmod(0o755)
    current = tmp_path / "activemq" / "current"
    opened = files_readable_by_other_account({path: current / path for path in files})
    assert opened == {path for path in files if path.startswith("systemd/")}
    assert opened


def test_diff_hides_content_of_extra_files(tmp_path: Path) -> None:
    def install_extra_files(*contents: str) -> str:
        extra_files = [{"path": f"conf/{number}.txt", "content": text} for number, text in enumerate(contents)]
        return json.dumps(
            install_configuration(
                str(tmp_path), unpack_files_of_broker(activemq_extra_files=extra_files), Owners()
            ).diff
        )

    assert CANARY not in install_extra_files(f"{CANARY}-1\n")
    changed = install_extra_files(f"{CANARY}-2\n")
    assert CANARY not in changed
    assert "conf/0.txt: the file was changed; its content is not shown" in changed
    added = install_extra_files(f"{CANARY}-2\n", f"{CANARY}-3\n")
    assert CANARY not in added
    assert "conf/1.txt: the file was added; its content is not shown" in added
    removed = install_extra_files()
    assert CANARY not in removed
    assert "conf/1.txt: the file was removed; its content is not shown" in removed


def test_diff_hides_old_content_of_file_that_becomes_hidden(tmp_path: Path) -> None:
    install_configuration(
        str(tmp_path), {"conf/mine.txt": ConfigurationFile(f"{CANARY}-1\n".encode(), 0o644)}, Owners()
    )
    outcome = install_configuration(
        str(tmp_path), {"conf/mine.txt": ConfigurationFile(f"{CANARY}-2\n".encode(), 0o640, None, True)}, Owners()
    )
    assert CANARY not in json.dumps(outcome.diff)


def test_changed_mode_of_deployed_file_requires_no_restart(tmp_path: Path) -> None:
    files = unpack_files_of_broker()
    install_configuration(
        str(tmp_path),
        {path: ConfigurationFile(file.content, 0o644, file.masked) for path, file in files.items()},
        Owners(),
    )
    outcome = install_configuration(str(tmp_path), files, Owners())
    assert (outcome.changed, outcome.reasons) == (True, ())
