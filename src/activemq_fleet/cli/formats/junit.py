"""Format findings as JUnit XML, with a test case for each finding, and one for each host without findings."""

from __future__ import annotations

from collections import defaultdict

from lxml import etree

from activemq_fleet.cli.formats.report import Report, place_of, subject_of
from activemq_fleet.findings import Finding
from activemq_fleet.printable import printable


def write(report: Report) -> str:
    """Return the report as a JUnit suite: an error finding fails, a waived finding is skipped, any other passes."""
    suite = etree.Element("testsuite", name="activemq-fleet")
    by_host: dict[str, list[Finding]] = defaultdict(list)
    for finding in report.findings:
        by_host[subject_of(finding)].append(finding)
    for host in dict.fromkeys((*report.hosts, *by_host)):
        for finding in by_host[host]:
            _case(suite, finding)
        if not by_host[host]:
            etree.SubElement(suite, "testcase", classname=_safe(host), name="no findings")
    suite.set("tests", str(len(suite)))
    suite.set("failures", str(len(suite.findall("testcase/failure"))))
    suite.set("skipped", str(len(suite.findall("testcase/skipped"))))
    suite.set("errors", "0")
    return etree.tostring(suite, encoding="unicode", pretty_print=True).rstrip()


def _case(suite: etree._Element, finding: Finding) -> None:
    case = etree.SubElement(suite, "testcase", classname=_safe(subject_of(finding)), name=_safe(finding.rule))
    where = f"{place_of(finding)}: " if finding.file else ""
    why = f"why: {finding.why}\n" if finding.why else ""
    text = _safe(f"{where}{finding.message}\n{why}fix: {finding.fix}")
    if finding.waived is not None:
        etree.SubElement(case, "skipped", message=_safe(f"waived: {finding.waived}"))
    elif finding.blocks:
        etree.SubElement(case, "failure", message=_safe(finding.message), type=finding.rule).text = text
    else:
        etree.SubElement(case, "system-out").text = f"{finding.severity}: {text}"


def _safe(text: str) -> str:
    """Return the text without characters that XML 1.0 cannot hold."""
    return printable(text, lines=True)
