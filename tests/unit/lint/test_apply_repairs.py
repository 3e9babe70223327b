"""Tests of the repair of files: repaired content, unchanged bytes, and problems that are not repaired."""

from __future__ import annotations

import codecs
from collections import Counter

import pytest

from activemq_fleet import build_fleet, check_fleet, lint_file, repair_file
from activemq_fleet.findings import Finding
from activemq_fleet.lint import Rule, file_findings, rules_of_scope
from activemq_fleet.lint.apply_repairs import FileRepair, repair_content
from activemq_fleet.releases import Release
from activemq_fleet.schema import CompiledActivemqXsd
from tests.rule_examples import complete
from tests.situations import some_situations
from tests.xsds import broker, small_xsd

ANY_ORDER = CompiledActivemqXsd(small_xsd(broker_attributes=("deleteAllMessagesOnStartup", "excludedDestinations")))
IN_ORDER = CompiledActivemqXsd(small_xsd(ordered=True))
RELEASE = Release.of("5.18.3")


def repair_of(content: bytes, schema: CompiledActivemqXsd = ANY_ORDER) -> FileRepair:
    """Repair all problems that the schema and rule N009 report."""

    def check(edited: bytes) -> tuple[Finding, ...]:
        return file_findings(edited, RELEASE, schema=schema)

    return repair_content(content, check, lambda finding: finding.rule in {"V002", "N009"})


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        (' brokerNmae="x"', ' brokerName="x"'),
        (' brokername="x"', ' brokerName="x"'),
        (' broker-name="x"', ' brokerName="x"'),
        (" persistant='true'", " persistent='true'"),
        (' usejmx\n=\n"false"', ' useJmx\n=\n"false"'),
        (' brokerNmae="brokerNmae"', ' brokerName="brokerNmae"'),
    ],
)
def test_repair_corrects_misspelled_attribute_with_unambiguous_name(wrong: str, right: str) -> None:
    content = broker("<!-- brokerNmae -->", attributes=wrong)
    repair = repair_of(content)
    assert repair.content == content.replace(wrong.encode(), right.encode(), 1)
    assert [finding.rule for finding in repair.repaired] == ["V002"]


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("<transportConectors/>", "<transportConnectors/>"),
        ("<plugin></plugin >", "<plugins></plugins >"),
        (
            '<persistenceAdapter><KahaDb directory="a>b"><!-- </KahaDb> --></KahaDb></persistenceAdapter>',
            '<persistenceAdapter><kahaDB directory="a>b"><!-- </KahaDb> --></kahaDB></persistenceAdapter>',
        ),
        (
            '<transportConectors><transportConector nmae="a" uri="vm://a"/></transportConectors>',
            '<transportConnectors><transportConnector name="a" uri="vm://a"/></transportConnectors>',
        ),
    ],
)
def test_repair_renames_misspelled_element_in_both_tags(wrong: str, right: str) -> None:
    content = broker(wrong)
    assert repair_of(content).content == content.replace(wrong.encode(), right.encode(), 1)


def test_repair_keeps_prefix_of_misspelled_element() -> None:
    content = broker("<plugins/>").replace(b"<broker xmlns=", b"<amq:broker xmlns:amq=")
    content = content.replace(b"<plugins/>", b"<amq:plugin><!-- <amq:plugin> --></amq:plugin>")
    content = content.replace(b"</broker>", b"</amq:broker>")
    expected = content.replace(b"<amq:plugin><!--", b"<amq:plugins><!--").replace(b"</amq:plugin>", b"</amq:plugins>")
    assert repair_of(content).content == expected


@pytest.mark.parametrize(
    "attributes",
    [
        ' entirelyUnknown="x"',
        ' brokerNmae="a" brokerName="b"',  # the broker has both attributes
        ' brokerNmae="a" brokerNaem="b"',  # both attributes would get the same name
        ' usejmx="yes"',  # the attribute does not accept the value
        ' deleteAllMessagesOnStartupp="true"',  # the effect of the attribute cannot be reverted
        ' includedDestinations="a"',  # the schema contains an attribute with the opposite meaning
    ],
)
def test_repair_does_not_rename_ambiguous_attribute(attributes: str) -> None:
    schema = CompiledActivemqXsd(
        small_xsd(broker_attributes=("deleteAllMessagesOnStartup", "excludedDestinations", "includedTopics"))
    )
    content = broker(attributes=attributes)
    assert repair_of(content, schema).content == content


def test_repair_sorts_elements_with_their_comments_if_release_requires_order() -> None:
    content = broker(
        "<!-- of the broker -->\n"
        "  <!-- the doors -->\n"
        '  <transportConnectors><transportConnector name="a" uri="vm://a"/></transportConnectors> <!-- open -->\n'
        "  <!-- what\n  is done -->\n"
        "  <plugins/>\n"
        '  <persistenceAdapter><kahaDB directory="x"/></persistenceAdapter>\n  <!-- end -->\n'
    )
    expected = broker(
        "<!-- of the broker -->\n"
        '  <persistenceAdapter><kahaDB directory="x"/></persistenceAdapter>\n'
        "  <!-- what\n  is done -->\n"
        "  <plugins/>\n"
        "  <!-- the doors -->\n"
        '  <transportConnectors><transportConnector name="a" uri="vm://a"/></transportConnectors> <!-- open -->\n'
        "  <!-- end -->\n"
    )
    content, expected = (text.replace(b">\n<!-- of", b"> <!-- of") for text in (content, expected))
    repair = repair_of(content, IN_ORDER)
    assert repair.content == expected
    assert [finding.rule for finding in repair.repaired] == ["V002"]
    assert repair_of(content, ANY_ORDER).content == content


def test_repair_sorts_elements_after_it_corrects_their_names() -> None:
    content = broker('<transportConnectors/><plugin/><persistenceAdapter><kahaDB directory="x"/></persistenceAdapter>')
    expected = broker(
        '<persistenceAdapter><kahaDB directory="x"/></persistenceAdapter><plugins/><transportConnectors/>'
    )
    assert repair_of(content, IN_ORDER).content == expected


@pytest.mark.parametrize(
    "children", ["<plugins/><persistenceAdapter/><plugins/>", "<plugins/>text<persistenceAdapter/>"]
)
def test_repair_does_not_sort_repeated_elements_and_elements_around_text(children: str) -> None:
    content = broker(children)
    assert repair_of(content, IN_ORDER).content == content


def test_repair_escapes_bare_ampersands_outside_comments() -> None:
    content = broker(
        '<!-- a & b --><transportConnectors><transportConnector name="a" uri="tcp://h:1?a=1&b=2&amp;c=3&d=&#52;"/>'
        "</transportConnectors>"
    )
    expected = content.replace(b"a=1&b", b"a=1&amp;b").replace(b"3&d", b"3&amp;d")
    repair = repair_of(content)
    assert repair.content == expected
    assert len(repair.repaired) == 2


@pytest.mark.parametrize(
    ("byte_order_mark", "encoding", "declaration"),
    [
        (b"", "utf-8", ""),
        (codecs.BOM_UTF8, "utf-8", '<?xml version="1.0" encoding="UTF-8"?>'),
        (codecs.BOM_UTF16_LE, "utf-16-le", '<?xml version="1.0" encoding="UTF-16"?>'),
        (codecs.BOM_UTF16_BE, "utf-16-be", '<?xml version="1.0" encoding="UTF-16"?>'),
        (b"", "windows-1252", '<?xml version="1.0" encoding="windows-1252"?>'),
        (b"", "iso-8859-15", "<?xml version='1.0' encoding='ISO-8859-15' ?>"),
    ],
)
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_repair_keeps_encoding_byte_order_mark_and_line_ends(
    byte_order_mark: bytes, encoding: str, declaration: str, line_end: str
) -> None:
    text = broker("<!-- \u00e9\u20ac -->\n<plugin/>\n", attributes='\n brokerNmae="x"\n').decode()
    text = declaration + text.replace("\n", line_end)
    expected = text.replace("<plugin/>", "<plugins/>").replace("brokerNmae", "brokerName")
    assert repair_of(byte_order_mark + text.encode(encoding)).content == byte_order_mark + expected.encode(encoding)


@pytest.mark.parametrize(
    "content",
    [
        b'<!DOCTYPE beans [<!ENTITY e "x">]>' + broker(attributes=' brokerNmae="&e;"'),
        b'<?xml version="1.0" encoding="UTF-8"?>' + broker("<!-- \xe9 -->".encode("latin-1").decode("latin-1")),
        b"not XML & more",
        b"",
        broker(attributes=' brokerNmae="{{ name }}"'),
        broker("<plugin>"),
    ],
)
def test_repair_does_not_change_unreadable_file(content: bytes) -> None:
    repair = repair_of(content)
    assert (repair.content, repair.repaired) == (content, ())


def test_invalid_bytes_of_declared_encoding_prevent_repair() -> None:
    content = broker("<!-- \u00e9 -->", attributes=' brokerNmae="x"').decode().encode("latin-1")
    repair = repair_of(content)
    assert (repair.content, repair.repaired) == (content, ())


def test_repair_that_causes_error_is_withheld_and_others_are_applied() -> None:
    content = broker(attributes=' usejmx="yes" persistant="true"')
    repair = repair_of(content)
    assert repair.content == content.replace(b"persistant", b"persistent")
    assert [finding.message for finding in repair.repaired] == [
        "<broker> has no attribute persistant in ActiveMQ 5.18.3; did you mean persistent?"
    ]
    assert [(refused.finding.message, refused.error.message) for refused in repair.withheld] == [
        (
            "<broker> has no attribute usejmx in ActiveMQ 5.18.3; did you mean useJmx?",
            'useJmx="yes" of <broker> must be true or false',
        )
    ]


def test_second_repair_of_file_has_no_changes() -> None:
    content = repair_of(broker("<plugin/>", attributes=' brokerNmae="x"')).content
    assert repair_of(content) == FileRepair(content, content)


def test_repair_corrects_every_broker_of_file() -> None:
    content = broker("<plugin/>")
    start, end = content.index(b"<broker"), content.index(b"</broker>") + len(b"</broker>")
    file_with_two_brokers = content[:end] + content[start:end] + content[end:]
    assert repair_of(file_with_two_brokers).content == file_with_two_brokers.replace(b"<plugin/>", b"<plugins/>")


def repair_by_rules(snippet: str, release: str, *rules: str) -> tuple[bytes, FileRepair]:
    """Return a complete file of a release around a snippet, and its repair without a schema."""
    content = complete(snippet, Release.of(release))
    return content, repair_file(content, Release.of(release), schema_of=None, select=rules)


@pytest.mark.parametrize(
    ("snippet", "release", "rule", "wrong", "right"),
    [
        (
            '<policyEntry queue=">" gcInactiveDestinations="true" inactiveTimoutBeforeGC="9"/>',
            "5.18.3",
            "V060",
            b"inactiveTimoutBeforeGC",
            b"inactiveTimeoutBeforeGC",
        ),
        (
            '<jdbcPersistenceAdapter dataSource="#a" useDatabaseLock="true"/>',
            "5.7.0",
            "V060",
            b"useDatabaseLock",
            b"useLock",
        ),
        (
            '<broker><ioExceptionHandler><jDBCIOExceptionHandler stopStartConnectors="true"></jDBCIOExceptionHandler>'
            '</ioExceptionHandler><persistenceAdapter><jdbcPersistenceAdapter dataSource="#a"/></persistenceAdapter>'
            "</broker>",
            "5.18.3",
            "L014",
            b"jDBCIOExceptionHandler",
            b"leaseLockerIOExceptionHandler",
        ),
    ],
)
def test_repair_replaces_deprecated_name_by_name_with_same_effect(
    snippet: str, release: str, rule: str, wrong: bytes, right: bytes
) -> None:
    content, repair = repair_by_rules(snippet, release, rule)
    assert wrong in content
    assert repair.content == content.replace(wrong, right)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ('<bean id="a" clas="java.util.Date"/>', '<bean id="a" class="java.util.Date"/>'),
        ('<baen id="a" class="a.B"><!-- --></baen>', '<bean id="a" class="a.B"><!-- --></bean>'),
        (
            '<bean id="a" class="a.B"><propety nmae="b" value="c"/></bean>',
            '<bean id="a" class="a.B"><property name="b" value="c"/></bean>',
        ),
        (
            '<bean id="a" class="a.B"><property name="b"><ref local="c"/></property></bean>',
            '<bean id="a" class="a.B"><property name="b"><ref bean="c"/></property></bean>',
        ),
        ('<bean id="a" class="a.B" singleton="true"/>', '<bean id="a" class="a.B" singleton="true"/>'),
        ('<bean id="a" class="a.B" factory-methods="b"/>', '<bean id="a" class="a.B" factory-method="b"/>'),
    ],
)
def test_repair_corrects_misspelled_names_of_spring_beans(wrong: str, right: str) -> None:
    file = complete('<networkConnector uri="static:(tcp://a:61616)"/>', RELEASE)
    content, faultless = (file.replace(b"<broker ", text.encode() + b"<broker ", 1) for text in (wrong, right))
    assert repair_file(content, RELEASE, schema_of=None, select=["V"]).content == faultless


def repaired_uri(uri: str, element: str) -> str:
    """Return the URI of an element after the repair of its options."""
    content = broker(f'<{element}s><{element} name="x" uri="{uri}"/></{element}s>')
    repaired_text = repair_file(content, RELEASE, schema_of=None, select=["N007", "N008"]).content.decode()
    return repaired_text.partition('uri="')[2].partition('"')[0]


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("tcp://a:1?maximumConections=1&amp;b=2", "tcp://a:1?maximumConnections=1&amp;b=2"),
        ("tcp://a:1?b=2&wireformat.maxFrameSize=1", "tcp://a:1?b=2&wireFormat.maxFrameSize=1"),
        ("tcp://a:1?wireFormat.maxFrameSiz=1", "tcp://a:1?wireFormat.maxFrameSize=1"),
        ("tcp://a:1?transport.soWriteTimout=1", "tcp://a:1?transport.soWriteTimeout=1"),
        ("tcp://a:1?soWriteTimeout=1", "tcp://a:1?transport.soWriteTimeout=1"),
        ("tcp://a:1?transport.socket.soTimout=1", "tcp://a:1?transport.socket.soTimeout=1"),
        ("auto+nio://a:1?wireFormat.stomp.maxFrameSiz=1", "auto+nio://a:1?wireFormat.stomp.maxFrameSize=1"),
    ],
)
def test_repair_corrects_misspelled_listener_option(wrong: str, right: str) -> None:
    assert repaired_uri(wrong, "transportConnector") == right


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("static:(tcp://a:1)?maxReconectDelay=2", "static:(tcp://a:1)?maxReconnectDelay=2"),
        ("static:(tcp://a:1)?discovered.soTimout=2", "static:(tcp://a:1)?discovered.soTimeout=2"),
        ("static:(failover:(tcp://a:1)?randomise=false)", "static:(failover:(tcp://a:1)?randomize=false)"),
        ("static:(failover:(tcp://a:1)?nested.soTimout=1)", "static:(failover:(tcp://a:1)?nested.soTimeout=1)"),
        ("static:(tcp://a:1?soTimout=1,tcp://b:1?soTimout=1)", "static:(tcp://a:1?soTimeout=1,tcp://b:1?soTimeout=1)"),
        ("static:(tcp://a:1?socket.soTimout=1)", "static:(tcp://a:1?socket.soTimeout=1)"),
        (
            "static:(tcp://a:1?wireFormat.maxInactivityDurationInitialDelay=1)",
            "static:(tcp://a:1?wireFormat.maxInactivityDurationInitalDelay=1)",
        ),
    ],
)
def test_repair_corrects_misspelled_link_option(wrong: str, right: str) -> None:
    assert repaired_uri(wrong, "networkConnector") == right


@pytest.mark.parametrize(
    ("element", "uri"),
    [
        ("transportConnector", "tcp://a:1?maximumConections=1&amp;maximumConnections=2"),
        ("transportConnector", "tcp://a:1?minimumConnections=1"),
        ("transportConnector", "tcp://a:1?maxFrameSize=1"),  # an option of transport. and of wireFormat.
        ("transportConnector", "tcp://a:1?rebalanceClusterClients=true"),  # an attribute of the element
        ("networkConnector", "static:(failover:(tcp://a:1)?minReconnectDelay=1)"),
        ("networkConnector", "static:(tcp://a:1?networkTTL=1)"),
    ],
)
def test_repair_does_not_rename_ambiguous_uri_option(element: str, uri: str) -> None:
    assert repaired_uri(uri, element) == uri


def test_finding_about_rendered_file_has_no_edits() -> None:
    policy = '<policyEntry queue="a" gcInactiveDestinations="true" inactiveTimoutBeforeGC="9"/>'
    fragment = {"parent": "broker/destinationPolicy/policyMap/policyEntries", "xml": policy}
    variables = {"activemq_release": "5.18.3", "activemq_ha": "none", "activemq_xml_fragments": [fragment]}
    (finding,) = check_fleet(build_fleet({"orders-mq01-a": variables}), schema_of=None, select=["V060"])
    assert finding.edits == ()


def test_repair_does_not_replace_exception_handler_of_file_store() -> None:
    content, repair = repair_by_rules(
        "<broker><ioExceptionHandler><jDBCIOExceptionHandler/></ioExceptionHandler><persistenceAdapter>"
        '<kahaDB><locker><lease-database-locker dataSource="#a"/></locker></kahaDB></persistenceAdapter></broker>',
        "5.18.3",
        "L014",
    )
    assert repair.content == content


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("http://activemq.apache.org/schema/core/activemq-core-5.5.0.xsd", True),
        ("http://activemq.apache.org/schema/activemq-core.xsd", True),
        ("https://example.com/activemq-core.xsd", True),
        ("file:/etc/activemq/activemq.xsd", False),
        ("${schemas}/activemq.xsd", False),
    ],
)
def test_repair_replaces_unknown_xml_schema_address(address: str, expected: bool) -> None:
    address_of_all = b"http://activemq.apache.org/schema/core/activemq-core.xsd"
    faultless = complete('<networkConnector uri="static:(tcp://a:61616)"/>', RELEASE)
    assert address_of_all in faultless
    content = faultless.replace(address_of_all, address.encode())
    repair = repair_file(content, RELEASE, schema_of=None, select=["V"])
    assert repair.content == (faultless if expected else content)


@some_situations(40)
@pytest.mark.parametrize(
    "file_rule", [rule for rule in rules_of_scope("file") if rule.failing_examples], ids=lambda rule: str(rule.id)
)
def test_repair_of_rule_examples_causes_no_new_error(file_rule: Rule) -> None:
    for example in (*file_rule.failing_examples, *file_rule.passing_examples):
        release = Release.of(example.release)
        content = complete(example.text, release)
        repair = repair_file(content, release, schema_of=None)
        errors_before = Counter(f.rule for f in lint_file(content, release, schema_of=None) if f.severity == "error")
        errors_after = Counter(
            f.rule for f in lint_file(repair.content, release, schema_of=None) if f.severity == "error"
        )
        assert errors_after - errors_before == Counter()
        assert bool(repair.repaired) == (repair.content != content)
        assert repair_file(repair.content, release, schema_of=None).content == repair.content


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("static:(tcp://a:1, tcp://b:2)", "static:(tcp://a:1,tcp://b:2)"),
        ("static:(\r\n\ttcp://a:1?x=1&amp;y=2,\r\n\ttcp://b:2)", "static:(tcp://a:1?x=1&amp;y=2,tcp://b:2)"),
        (" masterslave: (tcp://a:1, tcp://b:2 )", " masterslave:(tcp://a:1,tcp://b:2 )"),
        ("static:(failover:(tcp://a:1, tcp://b:2), tcp://c:3)", "static:(failover:(tcp://a:1, tcp://b:2),tcp://c:3)"),
    ],
)
def test_repair_removes_white_space_in_list_of_uris(wrong: str, right: str) -> None:
    content = complete('<networkConnector name="n" uri="URI"/>', RELEASE)
    wrong_content, right_content = (content.replace(b"URI", uri.encode()) for uri in (wrong, right))
    repair = repair_content(
        wrong_content, lambda edited: file_findings(edited, RELEASE), lambda finding: finding.rule == "V068"
    )
    assert repair.content == right_content


@pytest.mark.parametrize("uri", ["static:(127.0.0.1:1)", "static:(tcp://a:1, 127.0.0.1:1)"])
def test_uri_without_scheme_in_list_has_no_repair(uri: str) -> None:
    content = complete(f'<networkConnector name="n" uri="{uri}"/>', RELEASE)
    findings = [finding for finding in file_findings(content, RELEASE) if finding.rule == "V068"]
    assert [finding.edits for finding in findings] == [()]
