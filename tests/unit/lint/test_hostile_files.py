"""Tests with files that are made to slow down the linter: it stops early and reports what it did not check."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from activemq_fleet.cli.main import main
from activemq_fleet.findings import Finding
from activemq_fleet.lint import file_findings
from activemq_fleet.network.uri_parser import DEEPEST, Uri
from activemq_fleet.releases import Release
from activemq_fleet.schema import BEANS, CORE
from tests.hostile_files import SHAPES, document, link
from tests.situations import some_situations
from tests.work import QUADRATIC, growth_of_time

RELEASE = Release.of("5.18.3")


def findings_inside_broker(inside: str) -> tuple[Finding, ...]:
    return file_findings(document(inside), RELEASE)


def growth_of_check_time(make: Callable[[int], bytes], size: int) -> float:
    return growth_of_time(lambda document: file_findings(document, RELEASE), make, size)


@some_situations(12)
@pytest.mark.parametrize("shape", SHAPES)
def test_check_time_of_hostile_file_grows_less_than_quadratically(shape: str) -> None:
    assert growth_of_check_time(SHAPES[shape], 15_000) < QUADRATIC


@pytest.mark.parametrize(
    "inside",
    [
        pytest.param("<queue/>" * 10_001, id="elements"),
        pytest.param("<broker/>" * 10, id="brokers"),
        pytest.param(f"<queue {' '.join(f'a{n}=_1_' for n in range(201))}/>".replace("_", '"'), id="attributes"),
        pytest.param(f'<queue physicalName="{"a" * 16_385}"/>', id="characters"),
        pytest.param(link(f"static:({','.join(['tcp://a:1'] * 502)})"), id="transports"),
        pytest.param(link(f"static:(tcp://a:1)?{'&amp;'.join(['a=1'] * 502)}"), id="options"),
        pytest.param(link("failover:(" * 1500), id="brackets"),
    ],
)
def test_checked_file_that_exceeds_size_limit_of_linter_is_error(inside: str) -> None:
    (finding,) = findings_inside_broker(inside)
    assert (finding.rule, finding.severity) == ("V019", "error")
    assert "more than" in finding.message


@pytest.mark.parametrize(
    "inside",
    [
        pytest.param("<queue/>" * 9000, id="elements"),
        pytest.param(f'<queue physicalName="{"a" * 16_384}"/>', id="characters"),
        pytest.param(link(f"static:({','.join(['tcp://a:1'] * 400)})"), id="transports"),
        pytest.param(link("failover:(" * DEEPEST), id="brackets"),
    ],
)
def test_large_file_within_limits_of_linter_is_checked(inside: str) -> None:
    assert "V019" not in {finding.rule for finding in findings_inside_broker(inside)}


def test_rule_reports_at_most_100_findings_and_mentions_omitted_ones() -> None:
    reported = [finding for finding in findings_inside_broker("<masterConnector/>" * 300) if finding.rule == "V003"]
    assert len(reported) == 101
    assert sum("only the first 100 are reported" in finding.message for finding in reported) == 1


def test_adopt_refuses_file_with_too_deeply_nested_uri(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "orders-mq01-a.xml"
    path.write_bytes(document(link("failover:(" * 1500)))
    assert main(["adopt", str(path), "--release", "5.18.3", "-o", str(tmp_path / "out")]) == 2
    assert "brackets nested more than 20 deep" in capsys.readouterr().err


@some_situations(1)
@pytest.mark.parametrize(
    ("make", "size"),
    [
        (lambda depth: "failover:(" * depth, 10_000),
        (lambda depth: "failover:(" * depth + ")" * depth, 5_000),
        (lambda depth: "static:" + "(" * depth, 100_000),
    ],
    ids=["open", "closed", "brackets alone"],
)
def test_deeply_nested_uri_is_parsed_without_recursion(make: Callable[[int], str], size: int) -> None:
    assert len(list(Uri.parse(make(10 * size)).uri_and_nested_uris())) <= DEEPEST + 2
    assert growth_of_time(lambda text: list(Uri.parse(text).uri_and_nested_uris()), make, size) < QUADRATIC


def test_uri_nested_below_depth_limit_has_no_transports() -> None:
    inner = "tcp://a:1"
    for _ in range(DEEPEST - 1):
        inner = f"failover:({inner})"
    assert [part.host for part in Uri.parse(inner).transport_uris] == ["a"]
    assert Uri.parse(f"failover:(failover:({inner}))").transport_uris == ()


def test_unclosed_comments_after_stray_ampersand_are_searched_once() -> None:
    head = f'<beans xmlns="{BEANS}"><broker xmlns="{CORE}" brokerName="a&b">'.encode()
    assert growth_of_check_time(lambda comments: head + b"<!--" * comments, 10_000) < QUADRATIC
