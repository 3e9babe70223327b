"""Tests of ``check --fix`` on files that prevent the start of a broker."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from activemq_fleet import repair_file
from activemq_fleet.artifacts import load_schema
from activemq_fleet.cli.main import main
from activemq_fleet.releases import Release
from activemq_fleet.schema._similar_names import sole_similar_name
from tests.integration.single_brokers import BrokerSandbox, document, link
from tests.situations import further, in_every_situation
from tests.support.schema_releases import SCHEMA_RELEASES

ENTRY = '<policyMap><policyEntries><policyEntry queue="a"/></policyEntries></policyMap>'
POLICY = f"<destinationPolicy>{ENTRY}</destinationPolicy>"
RENAMED = {
    frozenset({"advisdoryForFastProducers", "advisoryForFastProducers"}),
    frozenset({"batchStatements", "batchStatments"}),
    frozenset({"doOptimzeMessageStorage", "optimizeMessageStorage"}),
    frozenset({"inactiveTimoutBeforeGC", "inactiveTimeoutBeforeGC"}),
    frozenset({"zkSessionTmeout", "zkSessionTimeout"}),
}


@pytest.mark.parametrize("release", ["5.5.1", *further("5.8.0", "5.15.16"), "5.18.3", "6.3.1"])
def test_broker_starts_with_file_that_check_fix_repaired(sandbox: BrokerSandbox, release: str, tmp_path: Path) -> None:
    bridge = link(f"static:(tcp://{sandbox.address(9)}:61616?soTimeout=0&amp;soWriteTimeout=0)", networkTTL="2")
    faultless = document("repaired", sandbox.address(1), bridge, POLICY)
    faulty = (
        faultless.replace("brokerName=", "brokerNmae=")
        .replace("networkTTL", "networkTtl")
        .replace("networkConnector", "networkConector")
        .replace("useJmx", "usejmx")
        .replace("&amp;", "&")
        .replace("activemq-core.xsd", "activemq-core-4.1.xsd")
    )
    if release == "5.5.1":  # its schema requires an order of the elements
        faulty = faulty.replace(f"{POLICY}\n", "").replace("</networkConectors>\n", f"</networkConectors>\n{POLICY}\n")
    broken = sandbox.add_broker("broken", release, faulty)
    assert broken.boot().fate == "refused", broken.output

    path = tmp_path / "activemq.xml"
    path.write_text(faulty)
    assert main(["check", "--file", str(path), "--release", release, "--select", "V,N009", "--fix"]) == 0
    assert path.read_text() == faultless
    assert path.with_name("activemq.xml.orig").read_text() == faulty

    repaired = sandbox.add_broker("repaired", release, path.read_text())
    assert repaired.boot().fate == "started", repaired.output


@in_every_situation
def test_names_of_other_releases_are_not_corrected_as_misspellings() -> None:
    models = [load_schema(Release.of(release)).model for release in SCHEMA_RELEASES]
    elements = frozenset().union(*(model.global_element_declarations for model in models))
    attributes = {name: {key for model in models for key in model.attribute_types(name)} for name in elements}
    children = {name: {key for model in models for key in model.child_names(name)} for name in elements}
    corrections = set()
    for model in models:
        for names_of_all, names_of_release in ((attributes, model.attribute_types), (children, model.child_names)):
            for element in model.global_element_declarations:
                declared_names = list(names_of_release(element))
                for name in names_of_all[element].difference(declared_names):
                    similar_name = sole_similar_name(name, declared_names, model.words_in_declared_names)
                    if similar_name and frozenset({name, similar_name}) not in RENAMED:
                        corrections.add((element, name, similar_name))
        corrections |= {
            ("", name, similar_name)
            for name in elements.difference(model.global_element_declarations)
            if (
                similar_name := sole_similar_name(
                    name, model.global_element_declarations, model.words_in_declared_names
                )
            )
        }
    assert corrections == set()


@pytest.mark.parametrize("release", ["5.5.1", "5.18.3", "6.3.1"])
def test_repair_restores_each_name_of_file_after_doubled_letter(release: str) -> None:
    faultless = document("north", "127.0.0.1", link("static:(tcp://south:61616)", networkTTL="2"), POLICY).encode()
    names = [*re.finditer(rb' (\w+)="(?!http)', faultless), *re.finditer(rb"<([a-z]\w+)[ >/](?!xmlns)", faultless)]
    not_restored = set()
    for match in names:
        name = match[1]
        misspelled = name[:1] + name[1:2] * 2 + name[2:]
        if match[0].startswith(b"<"):
            faulty = re.sub(rb"(</?)" + name + rb"\b", rb"\g<1>" + misspelled, faultless)
        else:
            faulty = faultless[: match.start(1)] + misspelled + faultless[match.end(1) :]
        if repair_file(faulty, Release.of(release), select=["V"]).content != faultless:
            not_restored.add(name)
    assert len(names) >= 20
    assert not_restored == set()
