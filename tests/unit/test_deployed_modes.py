"""What other accounts of a host, and readers of a task's output, get of files that hold secrets: nothing."""

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
NOBODY = 65534
CANARY = "canary-of-a-vault"
PLACES: dict[str, dict[str, Any]] = {
    "an option of Java": {"activemq_java_options": [f"-Dx.y={CANARY}"]},
    "an attribute": {"activemq_broker_attributes": {"dataDirectory": f"/srv/{CANARY}"}},
    "a fragment": {
        "activemq_xml_fragments": [
            {"parent": "broker/plugins", "xml": f'<discardingDLQBrokerPlugin dropOnly="{CANARY}"/>'}
        ]
    },
    "a file of the user": {"activemq_extra_files": [{"path": "conf/mine.properties", "content": f"k={CANARY}\n"}]},
    "an option of a connector": {
        "activemq_connectors": [{"name": "openwire", "scheme": "nio", "port": 61616, "options": {"x": CANARY}}]
    },
}


def tree(release: str = "5.18.3", **variables: Any) -> dict[str, ConfigurationFile]:
    """The files of a broker as they arrive at its host, out of the archive."""
    known = {"activemq_release": release, "activemq_ha": "none", **variables}
    (broker,) = build_fleet({HOST: known}, {}).brokers
    files = files_to_deploy(broker).items()
    archive = pack_configuration(
        {path: ConfigurationFile(file.content, file.mode, file.masked, file.hidden) for path, file in files}
    )
    unpacked: dict[str, ConfigurationFile] = unpack_configuration(archive)
    return unpacked


def read_as_nobody(paths: Mapping[str, Path]) -> set[str]:
    """Which of these files a process of another account can open."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        found = [name for name, path in paths.items() if os.access(path, os.R_OK)]
        os.write(writer, json.dumps(found).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return set(json.loads(said))


@pytest.mark.parametrize("release", RELEASES)
def test_passwords_among_options_of_java_are_for_root_and_the_broker_only(release: str) -> None:
    files = tree(release, activemq_java_options=[f"-Dpassword={CANARY}"])
    assert {file.mode for file in files.values() if CANARY.encode() in file.content} == {0o640}


@pytest.mark.parametrize("place", PLACES)
def test_a_vaulted_value_makes_no_file_readable_wherever_it_is_put(place: str) -> None:
    files = tree(**PLACES[place])
    assert {file.mode for file in files.values() if CANARY.encode() in file.content} == {0o640}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another account: run as root")
def test_another_account_opens_units_and_nothing_else(tmp_path: Path) -> None:
    files = tree()
    install_configuration(str(tmp_path / "activemq"), files, Owners(user=0, root=0, group=0))
    # The directories are closed too; opened here, so that only the files' own modes count.
    for directory in (*tmp_path.parents, tmp_path, *tmp_path.glob("**/")):
        if tmp_path in (directory, *directory.parents) or "pytest" in str(directory):
            directory.chmod(0o755)
    current = tmp_path / "activemq" / "current"
    opened = read_as_nobody({path: current / path for path in files})
    assert opened == {path for path in files if path.startswith("systemd/")}
    assert opened


def test_a_diff_shows_nothing_of_files_that_the_user_wrote(tmp_path: Path) -> None:
    def put(*contents: str) -> str:
        extra = [{"path": f"conf/{number}.txt", "content": text} for number, text in enumerate(contents)]
        return json.dumps(install_configuration(str(tmp_path), tree(activemq_extra_files=extra), Owners()).diff)

    assert CANARY not in put(f"{CANARY}-1\n")
    changed = put(f"{CANARY}-2\n")
    assert CANARY not in changed
    assert "conf/0.txt: the file was changed; its content is not shown" in changed
    added = put(f"{CANARY}-2\n", f"{CANARY}-3\n")
    assert CANARY not in added
    assert "conf/1.txt: the file was added; its content is not shown" in added
    removed = put()
    assert CANARY not in removed
    assert "conf/1.txt: the file was removed; its content is not shown" in removed


def test_a_file_that_was_shown_before_is_hidden_as_soon_as_the_user_writes_it(tmp_path: Path) -> None:
    install_configuration(
        str(tmp_path), {"conf/mine.txt": ConfigurationFile(f"{CANARY}-1\n".encode(), 0o644)}, Owners()
    )
    outcome = install_configuration(
        str(tmp_path), {"conf/mine.txt": ConfigurationFile(f"{CANARY}-2\n".encode(), 0o640, None, True)}, Owners()
    )
    assert CANARY not in json.dumps(outcome.diff)


def test_a_mode_alone_restarts_no_broker(tmp_path: Path) -> None:
    files = tree()
    install_configuration(
        str(tmp_path),
        {path: ConfigurationFile(file.content, 0o644, file.masked) for path, file in files.items()},
        Owners(),
    )
    outcome = install_configuration(str(tmp_path), files, Owners())
    assert (outcome.changed, outcome.reasons) == (True, ())
