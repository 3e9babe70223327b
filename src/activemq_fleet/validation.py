"""Check a whole fleet, or any configuration file, by schema, rules and routes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from lxml import etree

from activemq_fleet.errors import SettingsError, hosts_by_error_line
from activemq_fleet.findings import Finding, InventoryVariablesOfValue, error_finding
from activemq_fleet.lint import (
    InstalledReleaseFacts,
    Rule,
    RuleSelection,
    host_findings,
    installed_release_findings,
    rules_of_scope,
)
from activemq_fleet.lint.apply_repairs import FileRepair, repair_content
from activemq_fleet.lint.document import Document
from activemq_fleet.lint.engine import all_rules_by_id, findings_from_problems, variables_that_set_element
from activemq_fleet.lint.file_kinds import KIND_RULE
from activemq_fleet.lint.file_network import DUPLEX_RULE, mutual_duplex_link_problems
from activemq_fleet.lint.files import (
    check_activemq_xml,
    exposed_port_kind_of_checked_file,
    one_finding_per_mistake,
    schema_finding,
)
from activemq_fleet.lint.fleets import FleetView, file_and_release_findings_of_broker, whole_fleet_findings
from activemq_fleet.lint.suppressions import waive_suppressed_findings
from activemq_fleet.node.host_paths import ACTIVEMQ_XML
from activemq_fleet.releases import Release
from activemq_fleet.render import render_activemq_xml_document
from activemq_fleet.render.broker_paths import kahadb_directory_in_xml
from activemq_fleet.routes import route_findings, routes_without_refused_links
from activemq_fleet.schema import CORE, CompiledActivemqXsd, UnreadableXmlError, XmlDocument
from activemq_fleet.settings.host_settings import WaiverSettings
from activemq_fleet.site_refusals import (
    archive_unused_by_install_method_findings,
    missing_archive_findings,
    site_playbook_refusal_findings,
)
from activemq_fleet.topology import Broker, Fleet
from activemq_fleet.topology.build import apply_waivers
from activemq_fleet.topology.inventory_rules import INPUT_RULE, InventoryRule, inventory_rules

if TYPE_CHECKING:
    from activemq_fleet.deployment import BrokerFacts
    from activemq_fleet.node.state.evidence import MachineFacts

_Node = TypeVar("_Node")
_Result = TypeVar("_Result")
_EVERY_RULE = RuleSelection()
_NO_FILES: Mapping[str, bytes] = MappingProxyType({})
SchemaSource = Callable[[Release], CompiledActivemqXsd]

STOPPING = "errors-that-stop-a-broker"
"""The name that selects all rules about mistakes with which a broker does not start."""


@cache
def known_rule_ids() -> tuple[str, ...]:
    """Return the ids of all known rules: lint rules, and rules about topology and routes."""
    return (*(registered.id for registered in rules_of_scope()), *(rule.id for rule in inventory_rules()))


DescribedRule = Rule | InventoryRule
"""A rule with an id, a severity, a title, the reason why it matters, and the fix."""


@cache
def lint_and_inventory_rules_by_id() -> Mapping[str, DescribedRule]:
    """Return the rules for rendered configuration files (lint rules) and those for the inventory, by rule id.

    The rule about unusable input (T000) is included.
    """
    described: tuple[DescribedRule, ...] = (*rules_of_scope(), INPUT_RULE, *inventory_rules())
    return MappingProxyType({rule.id: rule for rule in described})


def select_rules(select: Sequence[str], ignore: Sequence[str]) -> RuleSelection:
    """Return the selection of rules to check: the rules in ``select``, or else all rules, except those in ``ignore``.

    The options ``--select`` and ``--ignore`` of ``check`` have the same effect.

    Raises InputError for a word that begins no rule's id.
    """
    if not select and not ignore:
        return _EVERY_RULE
    stopping = tuple(rule.id for rule in rules_of_scope() if rule.refuses)
    return RuleSelection.from_prefixes(select, ignore, known_rule_ids(), groups={STOPPING: stopping})


def schema_from_cache_or_maven(release: Release) -> CompiledActivemqXsd:
    """Return the compiled XML schema (``activemq.xsd``) of a release; Maven fetches it if the cache does not have it.

    Raises SchemaUnavailableError or ArtifactError where no schema of the release's line can be obtained.
    """
    from activemq_fleet.artifacts import load_schema

    return load_schema(release)


def check_fleet(
    fleet: Fleet,
    *,
    schema_of: SchemaSource | None = schema_from_cache_or_maven,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
) -> tuple[Finding, ...]:
    """Check the configuration of a fleet's brokers, and return all findings (errors, warnings and infos).

    The findings are sorted by host, rule and message, as ``activemq-fleet check`` reports them. Renders the
    ``activemq.xml`` of each broker, and checks topology, schemas, rules, routes, and what the playbook ``site``
    refuses. Waived findings are included, with the reason in ``waived``.

    ``schema_of`` returns the compiled XML schema of a release, by default from the cache or through Maven; None skips
    the findings of schemas. ``select`` and ``ignore`` are ids of rules or families: ``["N", "L003"]``.

    Raises SettingsError for settings that cannot be rendered, InputError for unknown rules, and SchemaUnavailableError
    or ArtifactError for a missing schema.

    >>> from activemq_fleet import build_fleet, check_fleet
    >>> variables = {"activemq_release": "5.18.3", "activemq_ha": "shared-file"}
    >>> fleet = build_fleet({"orders-mq01-a": variables})
    >>> for finding in check_fleet(fleet, schema_of=None, select=["T"]):
    ...     print(finding.rule, finding.severity, finding.host, finding.line)
    T002 error orders-mq01-a None
    T016 warning orders-mq01-a None
    T030 warning orders-mq01-a None
    """
    selection = select_rules(select, ignore)
    rendered = map_hosts_and_join_errors(fleet.brokers, render_activemq_xml_document)
    documents = {broker.host: document for broker, document in zip(fleet.brokers, rendered, strict=True)}
    return fleet_with_check_findings(fleet, documents, schema_of, selection, for_site=True, files_here=True).findings


def lint_file(
    content: bytes,
    release: Release,
    *,
    file: str = ACTIVEMQ_XML,
    other_files: Mapping[str, bytes] = _NO_FILES,
    schema_of: SchemaSource | None = schema_from_cache_or_maven,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
) -> tuple[Finding, ...]:
    """Check an ``activemq.xml`` with the lint rules, and return the findings.

    Those about its release are first, then those of the file by position. ``content`` is checked as a broker of
    ``release`` reads it; a file that is not XML yields a finding. ``file`` is the name in the findings. ``other_files``
    are the files of the same directory by name, such as ``jetty.xml``. Lines and columns are 1-based. ``schema_of``,
    ``select`` and ``ignore`` are those of ``check_fleet``.

    Raises InputError for unknown rules, and SchemaUnavailableError or ArtifactError for a missing schema.

    >>> from activemq_fleet import Release, lint_file
    >>> content = b'''<beans xmlns="http://www.springframework.org/schema/beans">
    ...   <broker xmlns="http://activemq.apache.org/schema/core">
    ...     <networkConnectors><networkConnector uri="static:(tcp://hub-mq01-a:61616)"/></networkConnectors>
    ...   </broker>
    ... </beans>'''
    >>> for finding in lint_file(content, Release.of("5.18.3"), schema_of=None, select=["N"], ignore=["N019"]):
    ...     print(finding.rule, finding.severity, f"{finding.file}:{finding.line}:{finding.column}")
    N014 warning conf/activemq.xml:2:3
    """
    selection = select_rules(select, ignore)
    schema = schema_of(release) if schema_of else None
    findings, document = check_activemq_xml(
        content, release, schema=schema, file=file, selection=selection, other_files=other_files
    )
    if any(finding.rule == KIND_RULE for finding in findings):
        return findings  # No release of ActiveMQ Classic reads such a file.
    release_facts = InstalledReleaseFacts(release, exposure=exposed_port_kind_of_checked_file(document))
    return (*one_finding_per_mistake(installed_release_findings(release_facts, selection, file=file)), *findings)


def repair_file(
    content: bytes,
    release: Release,
    *,
    file: str = ACTIVEMQ_XML,
    other_files: Mapping[str, bytes] = _NO_FILES,
    schema_of: SchemaSource | None = schema_from_cache_or_maven,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
) -> FileRepair:
    """Apply the automatic edits of lint findings to an ``activemq.xml``, and return the repaired content.

    The result also has the findings that are repaired. ``check --fix`` writes the same content. Repairs findings that
    have ``edits`` and that no comment suppresses, if no rule reports a new error afterwards. ``content`` of the result
    is unchanged where nothing is repaired. Writes no file. The parameters and errors are those of ``lint_file``;
    ``select`` and ``ignore`` choose what is repaired, and all rules check the result.

    >>> from activemq_fleet import Release, repair_file
    >>> content = b'''<beans xmlns="http://www.springframework.org/schema/beans">
    ...   <broker xmlns="http://activemq.apache.org/schema/core"><networkConnectors>
    ...     <networkConnector uri="static:(tcp://hub-mq01-a:61616?soTimeout=0&connectionTimeout=9)"/>
    ...   </networkConnectors></broker>
    ... </beans>'''
    >>> repair = repair_file(content, Release.of("5.18.3"), schema_of=None)
    >>> [finding.rule for finding in repair.repaired]
    ['N009']
    >>> b"soTimeout=0&amp;connectionTimeout=9" in repair.content
    True
    """
    selection = select_rules(select, ignore)

    def check(edited: bytes) -> tuple[Finding, ...]:
        findings = lint_file(edited, release, file=file, other_files=other_files, schema_of=schema_of)
        return mark_findings_waived_by_comments(findings, {file: edited})

    def is_selected(finding: Finding) -> bool:
        return finding.file == file and finding.waived is None and selection.includes_rule(finding.rule)

    return repair_content(content, check, is_selected)


def lint_links_between_files(
    contents: Mapping[str, bytes],
    releases: Mapping[str, Release],
    *,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
) -> tuple[Finding, ...]:
    """Check the links between brokers of several activemq.xml files with the lint rules, and return the findings.

    ``contents`` and ``releases`` are by path. The directories and the name of a file, its brokerName and its connectors
    identify the broker. A file that is not XML is passed over: ``lint_file`` reports it. ``select`` and ``ignore`` are
    those of ``check_fleet``.

    Raises InputError for unknown rules.

    >>> from activemq_fleet import Release, lint_links_between_files
    >>> def file_with_link_to(host):
    ...     return f'''<beans xmlns="http://www.springframework.org/schema/beans">
    ...       <broker xmlns="http://activemq.apache.org/schema/core"><networkConnectors>
    ...         <networkConnector name="to-{host}" uri="static:(tcp://{host}.example.com:61616)" duplex="true"/>
    ...       </networkConnectors></broker>
    ...     </beans>'''.encode()
    >>> contents = {"north/activemq.xml": file_with_link_to("south"), "south/activemq.xml": file_with_link_to("north")}
    >>> for finding in lint_links_between_files(contents, dict.fromkeys(contents, Release.of("5.18.3"))):
    ...     print(finding.rule, f"{finding.file}:{finding.line}")
    ...     print(finding.message)
    N010 south/activemq.xml:3
    link to-north and link to-south (north/activemq.xml:3) are both duplex: each message has two routes
    """
    duplex_rule = all_rules_by_id()[DUPLEX_RULE]
    if not select_rules(select, ignore).includes_rule(duplex_rule.id):
        return ()
    documents: dict[str, Document] = {}
    for path, content in contents.items():
        if b"duplex" in content.replace(b"\0", b""):  # In UTF-16, every second byte of these letters is 0.
            with suppress(UnreadableXmlError):
                documents[path] = Document(XmlDocument(content), releases[path])
    return tuple(
        finding
        for path, problem in mutual_duplex_link_problems(documents)
        for finding in findings_from_problems(duplex_rule, [problem], file=path)
    )


def mark_findings_waived_by_comments(
    findings: Sequence[Finding],
    contents: Mapping[str, bytes],
    *,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
) -> tuple[Finding, ...]:
    """Return all findings about XML files, with those marked as waived that a comment in the file suppresses.

    Findings about the comments are added. ``contents`` are the XML files by the path that findings have.
    """
    return waive_suppressed_findings(findings, contents, known_rule_ids(), select_rules(select, ignore))


def _raise_for_unknown_waivers(fleet: Fleet) -> None:
    if not fleet.waivers:
        return  # The file with the rule ids is not read without need.
    known_ids = frozenset(known_rule_ids())
    hosts_by_problem: dict[str, list[str]] = {}
    for rule in dict.fromkeys(waiver["rule"] for waiver in fleet.waivers):
        if rule not in known_ids:
            hosts = [b.host for b in fleet.brokers if any(w.rule == rule for w in b.settings.waivers)]
            hosts_by_problem[
                f"activemq_waivers has a waiver of {rule}, but no rule has this id: correct the id (`activemq-fleet "
                "rule` lists all ids)"
            ] = hosts or ["the inventory"]
    if hosts_by_problem:
        lines = hosts_by_error_line(hosts_by_problem)
        raise SettingsError(*lines, hosts_by_line=lines)


def fleet_with_check_findings(
    fleet: Fleet,
    documents: Mapping[str, XmlDocument],
    schema_of: SchemaSource | None,
    selection: RuleSelection = _EVERY_RULE,
    *,
    for_site: bool = False,
    files_here: bool = False,
) -> Fleet:
    """Check a fleet and its rendered activemq.xml files, and return the fleet with the findings of ``check``.

    They are about topology, schema, rules and routes, in the order of a report. ``documents`` are rendered activemq.xml
    by inventory name, each of which is parsed once; their trees are discarded. ``schema_of`` is called once per
    release; None omits the checks that require a schema. Lines and columns are 1-based, in those documents.
    ``for_site`` adds what the playbook ``site`` refuses (T030) or ignores (T042), ``files_here`` archives that are not
    on this machine (T031); these are warnings. Waivers are applied. Raises what ``schema_of`` raises.
    """
    _raise_for_unknown_waivers(fleet)
    schemas = cache(schema_of) if schema_of else None
    view = FleetView(fleet, documents)
    schema_results: list[Finding] = []
    rule_results: list[Finding] = []
    for broker in fleet.brokers:
        document = documents[broker.host]
        if schemas:
            schema_results += _schema_findings(broker, document, schemas(broker.release))
        schema_results += _unprotected_store_findings(broker, document)
        rule_results += file_and_release_findings_of_broker(view, broker, selection)
        document.discard_parsed_tree()
    rule_results += whole_fleet_findings(view, selection)
    # A link that its far end rejects is a separate finding; its consequences are not reported as well.
    route_results = route_findings(routes_without_refused_links(fleet, documents, as_planned=True))
    findings = [*schema_results, *rule_results, *route_results]
    findings += (
        (*site_playbook_refusal_findings(fleet), *archive_unused_by_install_method_findings(fleet)) if for_site else ()
    )
    findings += missing_archive_findings(fleet) if files_here else ()
    is_selected = cache(selection.includes_rule)
    selected = (f for f in (*fleet.findings, *one_finding_per_mistake(findings)) if is_selected(f.rule))
    waivers = [WaiverSettings.model_validate(waiver) for waiver in fleet.waivers]
    return replace(
        fleet,
        findings=tuple(apply_waivers((f if f.waived is None else replace(f, waived=None) for f in selected), waivers)),
    )


def fleet_with_lint_findings(fleet: Fleet, documents: Mapping[str, XmlDocument]) -> Fleet:
    """Return a fleet of brokers with the findings of the lint rules about its rendered configuration files.

    Only schema findings are missing, which would need downloaded schemas.
    """
    return fleet_with_check_findings(fleet, documents, None)


def map_hosts_and_join_errors(hosts: Iterable[_Node], make: Callable[[_Node], _Result]) -> list[_Result]:
    """Call a function for each host (broker, agent or load balancer), and return its results as a list.

    A host is a broker, agent or load balancer, a result such as its rendered files. ``make`` is called for all hosts;
    if it raised SettingsError, one SettingsError with the problems of all hosts is raised.
    """
    results: list[_Result] = []
    errors: list[SettingsError] = []
    for host in hosts:
        try:
            results.append(make(host))
        except SettingsError as error:
            errors.append(error)
    if errors:
        raise SettingsError.join_errors(errors)
    return results


def preflight_findings(
    brokers: Mapping[str, BrokerFacts],
    facts: Mapping[str, MachineFacts],
    waivers: Sequence[Mapping[str, Any]] = (),
) -> list[Finding]:
    """Return the findings about the machines of brokers before their deployment.

    They result from facts gathered on the machines, with waivers applied. ``brokers`` and ``facts`` are by inventory
    name.
    """
    findings: list[Finding] = []
    for host, machine_facts in facts.items():
        findings += host_findings(brokers[host], machine_facts, facts.get(brokers[host].peer or ""))
    return apply_waivers(findings, [WaiverSettings.model_validate(dict(waiver)) for waiver in waivers])


def _schema_findings(broker: Broker, document: XmlDocument, schema: CompiledActivemqXsd) -> Iterator[Finding]:
    if not schema.is_valid(document):
        fix = (
            "correct the attribute or element in the variable that sets it: activemq_broker_attributes or "
            "activemq_xml_fragments"
        )
        for problem in schema.find_problems(document):
            finding = schema_finding(problem, broker.release, ACTIVEMQ_XML, broker.host, fix)
            yield replace(finding, origin=_origin_at(broker, document, problem.line, problem.column))


def _origin_at(broker: Broker, document: XmlDocument, line: int, column: int) -> InventoryVariablesOfValue | None:
    """Return the origin of an attribute or element of activemq.xml that begins at a position; None without one."""
    try:
        elements = Document(document, broker.release, broker).nodes
    except UnreadableXmlError:
        return None
    for element in elements:
        if element.position() == (line, column):
            return variables_that_set_element(element)
        for attribute in element.attributes:
            if element.position(attribute) == (line, column):
                return variables_that_set_element(element, attribute)
    return None


def _unprotected_store_findings(broker: Broker, document: XmlDocument) -> Iterator[Finding]:
    """Yield an error (T032) for a guarded broker whose store is not the kahaDB directory that its guard protects."""
    reason = _unprotected_store_reason(broker, document.root) if broker.has_guard else ""
    if reason:
        yield error_finding(
            "T032",
            broker.host,
            f"{reason}, but activemq_fence: guard protects only the kahaDB directory of the pair",
            "remove this change from activemq_xml_fragments, or set activemq_fence: none on both nodes of the pair",
            why="both nodes could write to the unprotected files of the store at the same time, and destroy the store",
        )


def _unprotected_store_reason(broker: Broker, root: etree._Element) -> str:
    adapter = root.find(f"{{{CORE}}}broker/{{{CORE}}}persistenceAdapter")
    stores = [] if adapter is None else [store for store in adapter if isinstance(store.tag, str)]
    names = [etree.QName(store).localname for store in stores]
    if names != ["kahaDB"]:
        if not names:
            return "activemq_xml_fragments removes the element kahaDB from activemq.xml"
        return f"activemq_xml_fragments replaces the element kahaDB of activemq.xml with {' and '.join(names)}"
    directory_attributes = [name for name in ("indexDirectory", "directoryArchive") if stores[0].get(name) is not None]
    if directory_attributes:
        return f"activemq_xml_fragments sets {' and '.join(directory_attributes)} of the element kahaDB"
    directory = stores[0].get("directory")
    if directory == kahadb_directory_in_xml(broker):
        return ""
    return f"activemq_xml_fragments sets the directory of the element kahaDB to {directory}"
