"""Fuzz tests of the linter: a malformed file causes no exception, no entity expansion and no connection."""

from __future__ import annotations

import socket
from pathlib import Path
from random import Random
from typing import NoReturn

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from activemq_fleet.lint import file_findings
from activemq_fleet.releases import Release
from tests.mutations import RELEASES, mutate_document, seed_documents

SEEDS = seed_documents()
BOMB = "<!DOCTYPE a [<!ENTITY a0 'x'>{}]><beans>&a19;</beans>".format(
    "".join(f"<!ENTITY a{n} '&a{n - 1};&a{n - 1};&a{n - 1};'>" for n in range(1, 20))
)


@settings(deadline=None)
@given(st.integers(0, 2**63), st.sampled_from(SEEDS), st.sampled_from(RELEASES))
def test_linter_reports_valid_findings_for_mutated_files(number: int, seed: bytes, release: str) -> None:
    mutated_file = mutate_document(seed, SEEDS, Random(number))
    for finding in file_findings(
        mutated_file, Release.of(release), other_files={"jetty.xml": mutated_file, "users.properties": mutated_file}
    ):
        assert (finding.line is None) == (finding.column is None)
        if finding.line is not None and finding.column is not None:
            assert finding.line >= 1
            assert finding.column >= 1
        assert finding.message
        assert finding.fix


def test_linter_reports_xml_entity_bomb_at_its_line() -> None:
    (finding,) = file_findings(f"<?xml version='1.0'?>\n{BOMB}".encode(), Release.of("5.18.3"))
    assert (finding.rule, finding.line) == ("V002", 2)
    assert "DOCTYPE" in finding.message or "entit" in finding.message.lower()


@pytest.mark.parametrize(
    "declaration",
    [
        '<!DOCTYPE a SYSTEM "{url}">',
        '<!DOCTYPE a [<!ENTITY x SYSTEM "{url}">]>',
        '<!DOCTYPE a [<!ENTITY % x SYSTEM "{url}"> %x;]>',
    ],
)
def test_linter_reports_external_xml_entity_and_does_not_open_it(
    declaration: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: object, **_options: object) -> NoReturn:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    secret = tmp_path / "secret"
    secret.write_text("canary")
    for url in (secret.as_uri(), "http://127.0.0.1:1/x.dtd"):
        document = f"{declaration.format(url=url)}<beans>&x;</beans>"
        (finding,) = file_findings(document.encode(), Release.of("5.18.3"))
        assert finding.rule == "V002"
        assert "canary" not in str(finding)
