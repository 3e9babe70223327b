"""Options that have no effect together with, or without, another option are refused before anything is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from activemq_fleet.cli.main import main
from tests.unit.adopt_files import document

FILE = ("check", "--file", "activemq.xml", "--release", "5.18.3")
PLAN = ("plan", "-o", "out")
AUDIT = ("audit", "--logs", "logs", "-o", "out")
REPLAY = ("store", "replay", ".", "--to", "a:61616")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((*FILE, "--diff", "--baseline", "x"), "--diff and --baseline cannot be used together"),
        ((*FILE, "--diff", "--strict"), "--diff and --strict cannot be used together"),
        ((*FILE, "--diff", "--no-backup"), "--diff and --no-backup cannot be used together"),
        ((*FILE, "--diff", "--fix"), "--diff and --fix cannot be used together"),
        ((*FILE, "--no-backup"), "--no-backup requires --fix"),
        ((*FILE, "-e", "a=b"), "--file and --extra-vars cannot be used together"),
        ((*FILE, "--vault-id", "x"), "--file and --vault-id cannot be used together"),
        (("check", "-i", "hosts.yml", "--no-backup"), "--no-backup requires --fix"),
        (("names", "mq1-a", "-e", "a=b"), "--extra-vars requires -i: add -i, or remove --extra-vars"),
        (("status", "--lab", "--forks", "2"), "--lab and --forks cannot be used together"),
        (("status", "--dir", ".", "--ansible-options", "-v"), "--dir and --ansible-options cannot be used together"),
        ((*PLAN, "-i", "hosts.yml", "--hosts-format", "csv"), "--hosts-format requires --hosts"),
        ((*PLAN, "--hosts", "hosts.csv", "-e", "a=b"), "--hosts and --extra-vars cannot be used together"),
        ((*AUDIT, "--vault-password-file", "x"), "--vault-password-file requires -i"),
        ((*AUDIT, "--until-idle", "1"), "--until-idle requires --follow"),
        ((*AUDIT, "--follow", "--metrics", "x"), "--follow and --metrics cannot be used together"),
        ((*REPLAY, "--password-file", __file__), "--password-file requires --username"),
        ((*REPLAY, "--ca-file", __file__), "--ca-file requires --to ssl://HOST:PORT"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_option_without_effect_is_refused(
    words: tuple[str, ...],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(list(words)) == 2
    assert message in capsys.readouterr().err


def test_option_without_effect_is_accepted_with_its_default_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("activemq.xml").write_bytes(document(""))
    assert main([*FILE, "--diff", "--format", "text", "--backup"]) == 0
