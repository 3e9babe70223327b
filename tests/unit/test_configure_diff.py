"""What an installation shows: every changed line, and never a secret."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from activemq_fleet.node.config.configuration_archive import ConfigurationFile
from activemq_fleet.node.config.difference import hide_passwords
from activemq_fleet.node.install.configuration_install import (
    InstallationOutcome,
    Owners,
    install_configuration,
)

CREDENTIALS = "conf/credentials.properties"
MASKED = "activemq.network.password=@activemq_network_password@\n"


def secret(value: str, masked: str = MASKED) -> ConfigurationFile:
    return ConfigurationFile(masked.replace("@activemq_network_password@", value).encode(), 0o640, masked)


def put(base: Path, **files: ConfigurationFile) -> InstallationOutcome:
    names = {"xml": "conf/activemq.xml", "credentials": CREDENTIALS, "env": "bin/env", "key": "conf/key.bin"}
    outcome: InstallationOutcome = install_configuration(
        str(base), {names[name]: file for name, file in files.items()}, Owners()
    )
    return outcome


def text(content: str) -> ConfigurationFile:
    return ConfigurationFile(content.encode(), 0o644)


def test_a_changed_file_is_shown_before_and_after(tmp_path: Path) -> None:
    put(tmp_path, xml=text("one\ntwo\n"))
    outcome = put(tmp_path, xml=text("one\nthree\n"))
    assert outcome.changed_files == ("conf/activemq.xml",)
    assert outcome.diff == (
        {
            "before_header": "conf/activemq.xml",
            "after_header": "conf/activemq.xml",
            "before": "one\ntwo\n",
            "after": "one\nthree\n",
        },
    )


def test_an_added_and_a_removed_file_are_shown_whole(tmp_path: Path) -> None:
    put(tmp_path, xml=text("one\n"))
    added, removed = put(tmp_path, env=text("A=1\n")).diff
    assert (added["before_header"], added["before"], added["after"]) == ("/dev/null", "", "A=1\n")
    assert (removed["after_header"], removed["before"], removed["after"]) == ("/dev/null", "one\n", "")


def test_a_change_of_only_a_password_is_one_line_without_a_value(tmp_path: Path) -> None:
    put(tmp_path, credentials=secret("first-canary"))
    outcome = put(tmp_path, credentials=secret("second-canary"))
    assert outcome.changed
    assert outcome.diff == ({"prepared": f"{CREDENTIALS}: secret changed\n"},)


def test_a_file_with_secrets_is_shown_as_its_masked_text(tmp_path: Path) -> None:
    put(tmp_path, credentials=secret("first-canary"))
    more = MASKED + "activemq.user.bob.password=@activemq_users@\n"
    (shown,) = put(tmp_path, credentials=secret("second-canary", more)).diff
    assert (shown["before"], shown["after"]) == (MASKED, more)


def test_a_file_that_holds_secrets_now_and_did_not_before_is_masked(tmp_path: Path) -> None:
    put(tmp_path, credentials=text("nothing yet\n"))
    (shown,) = put(tmp_path, credentials=secret("canary")).diff
    assert (shown["before"], shown["after"]) == ("nothing yet\n", MASKED)


def test_a_file_with_secrets_that_a_person_changed_is_not_shown(tmp_path: Path) -> None:
    put(tmp_path, credentials=secret("canary"))
    (tmp_path / "current" / CREDENTIALS).write_text("activemq.network.password=typed-canary\n")
    assert put(tmp_path, credentials=secret("canary")).diff == (
        {"prepared": f"{CREDENTIALS}: was changed by hand; its content is not shown\n"},
    )


def test_a_file_that_a_person_added_is_not_shown(tmp_path: Path) -> None:
    put(tmp_path, xml=text("one\n"))
    (tmp_path / "current" / "conf" / "notes.txt").write_text("canary\n")
    assert put(tmp_path, xml=text("one\n")).diff == (
        {"prepared": "conf/notes.txt: was added by hand; its content is not shown\n"},
    )


def test_a_password_that_a_person_typed_into_a_plain_file_is_blotted_out(tmp_path: Path) -> None:
    put(tmp_path, xml=text("<a/>\n"))
    (tmp_path / "current" / "conf" / "activemq.xml").write_text('<a password="canary"/>\n')
    (shown,) = put(tmp_path, xml=text("<a/>\n")).diff
    assert shown["before"] == '<a password="********"/>\n'


def test_a_password_in_an_option_of_java_is_blotted_out(tmp_path: Path) -> None:
    put(tmp_path, env=text("OPTS=-Djavax.net.ssl.keyStorePassword=canary1\n"))
    assert put(tmp_path, env=text("OPTS=-Djavax.net.ssl.keyStorePassword=canary2\n")).diff == (
        {"prepared": "bin/env: secret changed\n"},
    )


def test_bytes_that_are_no_text_are_named_and_not_shown(tmp_path: Path) -> None:
    put(tmp_path, key=ConfigurationFile(b"\xff\x00", 0o644))
    assert put(tmp_path, key=ConfigurationFile(b"\xff\x01", 0o644)).diff == (
        {"prepared": "conf/key.bin: binary file changed\n"},
    )


def test_nothing_that_an_installation_tells_holds_a_secret(tmp_path: Path) -> None:
    told = []
    for value in ("canary-1", "canary-2"):
        outcome = put(tmp_path, credentials=secret(value), xml=text(f"<!-- {len(value)} -->\n"))
        told.append(json.dumps([outcome.diff, outcome.drift, outcome.reasons, outcome.changed_files]))
    assert "canary" not in "".join(told)


def test_what_a_version_says_of_itself_holds_no_secret(tmp_path: Path) -> None:
    put(tmp_path, credentials=secret("canary"))
    for name in (".fleet-manifest.json", ".fleet-install.json"):
        assert "canary" not in (tmp_path / "current" / name).read_text()


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ('password="${activemq.network.password}"', 'password="${activemq.network.password}"'),
        ("password=@activemq_network_password@", "password=@activemq_network_password@"),
        ("Password: hunter2", "Password: ********"),
        ('<property name="keyStorePassword" value="hunter2"/>', '<property name="keyStorePassword" value="********"/>'),
        (
            "<authenticationUser username='u' password='hunter2'/>",
            "<authenticationUser username='u' password='********'/>",
        ),
        ("maximumConnections=1000", "maximumConnections=1000"),
        ("# It may read its password, and kill it.", "# It may read its password, and kill it."),
        ("# password=hunter2", "# password=********"),
        ("# password, hunter2", "# password, ********"),
        ("# password,and", "# password,********"),
        ('["--password", "and"]', '["--password", "********"]'),
        ("<!-- password: and more -->", "<!-- password: ******** more -->"),
    ],
)
def test_only_what_is_called_a_password_is_blotted_out(line: str, shown: str) -> None:
    assert hide_passwords(line) == shown


def test_no_comment_of_a_rendered_file_is_masked() -> None:
    golden = Path(__file__).resolve().parents[1] / "golden" / "examples"
    comments = [
        line
        for path in sorted(golden.rglob("hosts/**/*"))
        if path.is_file()
        for line in path.read_text("utf-8").splitlines()
        if line.lstrip().startswith(("#", "<!--"))
    ]

    assert len(comments) > 100
    assert [line for line in comments if hide_passwords(line) != line] == []
