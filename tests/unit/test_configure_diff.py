"""The diff of an installation: it shows every changed line and no secret."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from activemq_fleet.node.config.configuration_archive import ConfigurationFile
from activemq_fleet.node.install.configuration_install import (
    InstallationOutcome,
    Owners,
    install_configuration,
)
from activemq_fleet.node.masking import mask_configuration_file_text

CREDENTIALS = "conf/credentials.properties"
MASKED = "activemq.network.password=@activemq_network_password@\n"


def credentials_file(password: str, masked: str = MASKED) -> ConfigurationFile:
    return ConfigurationFile(masked.replace("@activemq_network_password@", password).encode(), 0o640, masked)


def install(base: Path, **files: ConfigurationFile) -> InstallationOutcome:
    names = {"xml": "conf/activemq.xml", "credentials": CREDENTIALS, "env": "bin/env", "key": "conf/key.bin"}
    outcome: InstallationOutcome = install_configuration(
        str(base), {names[name]: file for name, file in files.items()}, Owners()
    )
    return outcome


def plain_file(content: str) -> ConfigurationFile:
    return ConfigurationFile(content.encode(), 0o644)


def test_configuration_diff_of_changed_file_shows_old_and_new_content(tmp_path: Path) -> None:
    install(tmp_path, xml=plain_file("one\ntwo\n"))
    outcome = install(tmp_path, xml=plain_file("one\nthree\n"))
    assert outcome.changed_files == ("conf/activemq.xml",)
    assert outcome.diff == (
        {
            "before_header": "conf/activemq.xml",
            "after_header": "conf/activemq.xml",
            "before": "one\ntwo\n",
            "after": "one\nthree\n",
        },
    )


def test_configuration_diff_of_added_and_removed_files_shows_full_content(tmp_path: Path) -> None:
    install(tmp_path, xml=plain_file("one\n"))
    added, removed = install(tmp_path, env=plain_file("A=1\n")).diff
    assert (added["before_header"], added["before"], added["after"]) == ("/dev/null", "", "A=1\n")
    assert (removed["after_header"], removed["before"], removed["after"]) == ("/dev/null", "one\n", "")


def test_diff_of_changed_password_is_single_line_without_value(tmp_path: Path) -> None:
    install(tmp_path, credentials=credentials_file("first-canary"))
    outcome = install(tmp_path, credentials=credentials_file("second-canary"))
    assert outcome.changed
    assert outcome.diff == ({"prepared": f"{CREDENTIALS}: secret changed\n"},)


def test_diff_of_file_with_secrets_shows_masked_text(tmp_path: Path) -> None:
    install(tmp_path, credentials=credentials_file("first-canary"))
    masked_with_bob = MASKED + "activemq.user.bob.password=@activemq_users@\n"
    (diff,) = install(tmp_path, credentials=credentials_file("second-canary", masked_with_bob)).diff
    assert (diff["before"], diff["after"]) == (MASKED, masked_with_bob)


def test_diff_masks_file_that_gains_secrets(tmp_path: Path) -> None:
    install(tmp_path, credentials=plain_file("nothing yet\n"))
    (diff,) = install(tmp_path, credentials=credentials_file("canary")).diff
    assert (diff["before"], diff["after"]) == ("nothing yet\n", MASKED)


def test_diff_hides_file_with_secrets_changed_by_hand(tmp_path: Path) -> None:
    install(tmp_path, credentials=credentials_file("canary"))
    (tmp_path / "current" / CREDENTIALS).write_text("activemq.network.password=typed-canary\n")
    assert install(tmp_path, credentials=credentials_file("canary")).diff == (
        {"prepared": f"{CREDENTIALS}: was changed by hand; its content is not shown\n"},
    )


def test_diff_hides_file_added_by_hand(tmp_path: Path) -> None:
    install(tmp_path, xml=plain_file("one\n"))
    (tmp_path / "current" / "conf" / "notes.txt").write_text("canary\n")
    assert install(tmp_path, xml=plain_file("one\n")).diff == (
        {"prepared": "conf/notes.txt: was added by hand; its content is not shown\n"},
    )


def test_diff_masks_password_written_by_hand_into_plain_file(tmp_path: Path) -> None:
    install(tmp_path, xml=plain_file("<a/>\n"))
    (tmp_path / "current" / "conf" / "activemq.xml").write_text('<a password="canary"/>\n')
    (diff,) = install(tmp_path, xml=plain_file("<a/>\n")).diff
    assert diff["before"] == '<a password="@secret@"/>\n'


@pytest.mark.parametrize(
    ("line", "masked_line"),
    [
        ('<property name="password" value="Old Canary99"/>', '<property name="password" value="@secret@"/>'),
        ('<property value="Canary99" name="password"/>', '<property value="@secret@" name="password"/>'),
        ('<x trustStorePassword="ab&amp;Canary99"/>', '<x trustStorePassword="@secret@"/>'),
        ('<x url="jdbc:oracle:thin:amq/Canary99@db"/>', '<x url="jdbc:oracle:thin:amq/@secret@@db"/>'),
        ('<x uri="static:(tcp://app:Canary99@h:61616)"/>', '<x uri="static:(tcp://app:@secret@@h:61616)"/>'),
    ],
)
def test_diff_masks_every_form_of_secret_in_file_changed_by_hand(tmp_path: Path, line: str, masked_line: str) -> None:
    install(tmp_path, xml=plain_file("<a/>\n"))
    (tmp_path / "current" / "conf" / "activemq.xml").write_text(f"<a>\n{line}\n</a>\n")
    (diff,) = install(tmp_path, xml=plain_file("<a/>\n")).diff
    assert diff["before"] == f"<a>\n{masked_line}\n</a>\n"


def test_diff_hides_password_in_java_option(tmp_path: Path) -> None:
    install(tmp_path, env=plain_file("OPTS=-Djavax.net.ssl.keyStorePassword=canary1\n"))
    assert install(tmp_path, env=plain_file("OPTS=-Djavax.net.ssl.keyStorePassword=canary2\n")).diff == (
        {"prepared": "bin/env: secret changed\n"},
    )


def test_diff_names_binary_file_without_content(tmp_path: Path) -> None:
    install(tmp_path, key=ConfigurationFile(b"\xff\x00", 0o644))
    assert install(tmp_path, key=ConfigurationFile(b"\xff\x01", 0o644)).diff == (
        {"prepared": "conf/key.bin: binary file changed\n"},
    )


def test_outcome_of_configuration_install_contains_no_secret(tmp_path: Path) -> None:
    outcomes = []
    for password in ("canary-1", "canary-2"):
        outcome = install(
            tmp_path, credentials=credentials_file(password), xml=plain_file(f"<!-- {len(password)} -->\n")
        )
        outcomes.append(json.dumps([outcome.diff, outcome.drift, outcome.reasons, outcome.changed_files]))
    assert "canary" not in "".join(outcomes)


def test_records_of_configuration_version_contain_no_secret(tmp_path: Path) -> None:
    install(tmp_path, credentials=credentials_file("canary"))
    for name in (".fleet-manifest.json", ".fleet-install.json"):
        assert "canary" not in (tmp_path / "current" / name).read_text()


def test_diff_shows_references_comments_and_values_without_secrets(tmp_path: Path) -> None:
    text = (
        'password="${activemq.network.password}"\n'
        "password=@activemq_network_password@\n"
        "maximumConnections=1000\n"
        "# It may read its password, and kill it.\n"
    )
    install(tmp_path, env=plain_file("A=1\n"))
    (diff,) = install(tmp_path, env=plain_file(text)).diff
    assert diff["after"] == text


def test_comments_of_rendered_files_are_not_masked_in_configuration_diff() -> None:
    golden = Path(__file__).resolve().parents[1] / "golden" / "examples"
    comments = [
        (path.name, line)
        for path in sorted(golden.rglob("hosts/**/*"))
        if path.is_file()
        for line in path.read_text("utf-8").splitlines()
        if line.lstrip().startswith(("#", "<!--"))
    ]

    assert len(comments) > 100
    assert [line for name, line in comments if mask_configuration_file_text(name, line) != line] == []
