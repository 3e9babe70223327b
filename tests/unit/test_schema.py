from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from activemq_fleet.errors import SchemaUnavailableError
from activemq_fleet.schema import CompiledActivemqXsd, XmlDocument
from tests.xsds import beans, broker, small_xsd

ANY_ORDER = CompiledActivemqXsd(small_xsd())
IN_ORDER = CompiledActivemqXsd(small_xsd(ordered=True))


def told(document: bytes, schema: CompiledActivemqXsd = ANY_ORDER) -> list[str]:
    """What is wrong, each with its place."""
    problems = schema.find_problems(XmlDocument(document))
    assert schema.is_valid(XmlDocument(document)) == (not problems)
    return [str(problem) for problem in problems]


def fixes(document: bytes, schema: CompiledActivemqXsd) -> list[str]:
    """What to do about each problem of a document."""
    return [problem.fix for problem in schema.find_problems(XmlDocument(document))]


def test_a_good_document_is_valid_and_needs_no_explanation() -> None:
    document = broker('<persistenceAdapter><kahaDB directory="x"/></persistenceAdapter><transportConnectors/>')
    assert told(document) == []
    assert told(document, IN_ORDER) == []


def test_a_parsed_document_gives_the_same_answer() -> None:
    assert ANY_ORDER.accepts(etree.fromstring(broker("<plugins/>")))
    assert not ANY_ORDER.accepts(etree.fromstring(broker("<plugin/>")))


def test_an_unknown_attribute_is_named_with_its_own_line_and_column() -> None:
    document = broker(attributes='\n  brokerName="a > b"\n  restartAllowed="true"')
    assert told(document) == ["line 4, column 3: <broker> has no attribute restartAllowed in this release"]


def test_tags_in_comments_and_instructions_do_not_move_positions() -> None:
    before = '<!-- <plugins a="> -->\n<?note <plugins/>?>\n<persistenceAdapter><kahaDB directory="a > b"/>'
    document = broker(f"{before}</persistenceAdapter>\n<transportConector/>")
    assert [problem.partition(":")[0] for problem in told(document)] == ["line 6, column 1"]


def test_a_misspelt_attribute_gets_a_suggestion() -> None:
    document = broker(attributes=' brokrName="x"')
    assert told(document) == [
        "line 2, column 56: <broker> has no attribute brokrName in this release; did you mean brokerName?"
    ]


def test_attribute_that_differs_in_case_gets_a_suggestion() -> None:
    assert told(broker(attributes=' BROKERNAME="x"')) == [
        "line 2, column 56: <broker> has no attribute BROKERNAME in this release; did you mean brokerName?"
    ]


def test_a_value_of_the_wrong_kind_says_what_is_wanted() -> None:
    assert told(broker(attributes=' useJmx="yes" schedulePeriod="1s"')) == [
        'line 2, column 56: useJmx="yes" of <broker> must be true or false',
        'line 2, column 69: schedulePeriod="1s" of <broker> must be a whole number',
    ]


def test_a_misspelt_element_gets_a_suggestion_and_its_path() -> None:
    document = broker("<!-- a comment -->\n<transportConector/>")
    assert told(document) == [
        "line 4, column 1: <transportConector> is not allowed in <broker> in this release; "
        "did you mean <transportConnectors>?"
    ]
    assert ANY_ORDER.find_problems(XmlDocument(document))[0].element == "beans/broker/transportConector"


def test_the_path_numbers_siblings_of_one_name() -> None:
    document = broker('<transportConnectors><transportConnector/><transportConnector port="1"/></transportConnectors>')
    assert (
        ANY_ORDER.find_problems(XmlDocument(document))[0].element
        == "beans/broker/transportConnectors/transportConnector[2]"
    )


def test_what_follows_a_misspelt_element_is_looked_at_too() -> None:
    document = broker('<plugin/><plugins oops="1"/>', ' useJmx="  perhaps "')

    assert [message.partition(": ")[2].partition(" in this")[0] for message in told(document)] == [
        'useJmx="perhaps" of <broker> must be true or false',
        "<plugin> is not allowed in <broker>",
        "<plugins> has no attribute oops",
    ]


def test_a_misspelling_below_a_prefix_of_the_documents_own_is_told() -> None:
    inside = (
        '<a:transportConnectors xmlns:a="http://activemq.apache.org/schema/core"><a:transport/></a:transportConnectors>'
    )

    assert [message.partition(": ")[2][:55] for message in told(broker(inside))] == [
        "<transport> is not allowed in <transportConnectors> in "
    ]


def test_order_matters_where_the_schema_has_a_sequence() -> None:
    document = broker("<transportConnectors/>\n<!-- not here -->\n<persistenceAdapter/>")
    assert told(document) == []
    assert told(document, IN_ORDER) == [
        "line 5, column 1: <persistenceAdapter> must be before <transportConnectors>: "
        "this release requires an order of the children of <broker>"
    ]
    assert fixes(document, IN_ORDER) == ["move <persistenceAdapter> before <transportConnectors>"]


def test_a_child_that_may_stand_only_once_is_told_so() -> None:
    document = broker("<plugins/>\n<plugins/>")
    assert told(document) == []
    assert told(document, IN_ORDER) == ["line 4, column 1: <plugins> is allowed only once in <broker> in this release"]
    assert fixes(document, IN_ORDER) == ["keep only one <plugins> in <broker>"]


def test_fix_names_attribute_with_bad_value() -> None:
    document = broker("").replace(b"<broker ", b'<broker useJmx="yes" ')
    assert fixes(document, ANY_ORDER) == ["set useJmx to true or false"]


def test_text_between_elements_is_told() -> None:
    assert told(broker("<plugins>hello</plugins>")) == [
        "line 3, column 1: <plugins> contains text, but allows only elements"
    ]


SPRING = 'xmlns="http://www.springframework.org/schema/beans"'


def test_a_bean_of_spring_may_stand_inside_the_broker() -> None:
    assert told(broker(f'<plugins><bean {SPRING} class="x"><property name="y" value="z"/></bean></plugins>')) == []


def test_a_misspelt_bean_may_not() -> None:
    assert told(broker(f"<plugins><baen {SPRING}/></plugins>")) == [
        "line 3, column 10: <baen> is not an element of http://www.springframework.org/schema/beans"
    ]


def test_an_element_of_a_namespace_that_a_jar_of_the_users_may_bring_is_let_through() -> None:
    """Rule V020 tells that its schema must be found."""
    assert told(beans('<camelContext xmlns="urn:camel"/>')) == []
    assert told(broker('<plugins><x xmlns="urn:x" a="b">text<y/></x></plugins>')) == []


def test_the_root_may_be_xbeans_own() -> None:
    core = '<broker xmlns="http://activemq.apache.org/schema/core" brokerName="north"'
    assert told(f'<beans xmlns="http://xbean.apache.org/schemas/spring/1.0">{core}/></beans>'.encode()) == []
    (problem,) = told(
        f'<beans xmlns="http://xbean.apache.org/schemas/spring/1.0">{core} brokerNam="x"/></beans>'.encode()
    )
    assert "<broker> has no attribute brokerNam in this release" in problem


def test_a_misspelt_broker_is_found_although_spring_lets_other_namespaces_through() -> None:
    assert told(beans('<borker xmlns="http://activemq.apache.org/schema/core"/>')) == [
        "line 2, column 1: <borker> is not allowed in <beans> in this release; did you mean <broker>?"
    ]


def test_a_broker_without_its_namespace_is_told_what_it_lacks() -> None:
    assert told(beans("<broker/>")) == [
        'line 2, column 1: <broker> lacks xmlns="http://activemq.apache.org/schema/core"'
    ]


def test_all_problems_are_told_in_the_order_of_the_document() -> None:
    document = broker("<plugin/>\n<persistenceAdapter><kahaDB dir='x'/></persistenceAdapter>", ' useJmx="1x"')
    assert [problem.line for problem in ANY_ORDER.find_problems(XmlDocument(document))] == [2, 3, 4]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (b"", "line 1, column 1: the file is not XML: Document is empty"),
        (b"<beans>\n<broker>\n", "line 3, column 1: the file is not XML: Premature end of data in tag broker line 2"),
        (
            b'<kahaDB xmlns="http://activemq.apache.org/schema/core"/>',
            'line 1, column 1: the root element must be <beans xmlns="http://www.springframework.org/schema/beans">, '
            "not <kahaDB>",
        ),
        (
            b"<broker/>",
            'line 1, column 1: the root element must be <broker xmlns="http://activemq.apache.org/schema/core">: '
            "<broker> has another namespace",
        ),
    ],
)
def test_what_is_no_document_for_spring_is_refused(document: bytes, message: str) -> None:
    assert told(document) == [message]


def test_a_broker_as_the_root_is_validated_as_one_in_beans() -> None:
    assert told(b'<broker xmlns="http://activemq.apache.org/schema/core"/>') == []
    (problem,) = told(b'<broker xmlns="http://activemq.apache.org/schema/core" useJmx="maybe"/>')
    assert "must be true or false" in problem


def test_a_whole_number_beyond_an_int_of_java_is_refused() -> None:
    assert told(broker("", ' schedulePeriod="2147483647"')) == []
    (problem,) = told(broker("", ' schedulePeriod="2147483648"'))
    assert problem.endswith("must be a whole number up to 2147483647")


@pytest.mark.parametrize(
    "declaration",
    ["<!DOCTYPE beans>", '<!DOCTYPE beans [<!ENTITY x SYSTEM "file:///etc/hostname">]>'],
)
def test_a_doctype_is_refused_before_anything_is_resolved(declaration: str) -> None:
    document = f"<?xml version='1.0'?>\n{declaration}\n".encode() + beans("")
    assert told(document) == [
        "line 2, column 1: the file has a DOCTYPE, which could include other files, so it was not checked"
    ]


def test_entities_that_multiply_are_refused_quickly() -> None:
    steps = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 10))
    document = f'<!DOCTYPE beans [<!ENTITY e0 "x">{steps}]><beans>&e9;</beans>'.encode()
    assert not ANY_ORDER.is_valid(XmlDocument(document))


def test_a_schema_that_imports_a_file_reads_none(tmp_path: Path) -> None:
    other = tmp_path / "other.xsd"
    other.write_bytes(small_xsd())
    core = "http://activemq.apache.org/schema/core"
    schema = CompiledActivemqXsd(
        f'<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" targetNamespace="{core}">'
        f'<xs:include schemaLocation="{other}"/><xs:element name="only"/></xs:schema>'.encode()
    )
    assert schema.model.global_element_declarations.keys() == {"only"}
    assert not schema.is_valid(XmlDocument(broker()))


@pytest.mark.parametrize("xsd", [b"", b"<html/>", b"PK\x03\x04", small_xsd()[:200]])
def test_bytes_that_are_no_schema_are_one_line(xsd: bytes) -> None:
    with pytest.raises(SchemaUnavailableError, match=r"^the file activemq.xsd is not an XML schema of ActiveMQ[^\n]+$"):
        CompiledActivemqXsd(xsd)


def test_children_come_in_schema_order_and_by_path() -> None:
    names = ("destinationPolicy", "persistenceAdapter", "plugins", "transportConnectors")
    assert ANY_ORDER.model.child_names("broker") == names
    assert IN_ORDER.model.child_names("broker") == names
    assert ANY_ORDER.model.child_names("plugins") == ("statisticsBrokerPlugin",)
    assert ANY_ORDER.model.child_names("broker/transportConnectors") == ("transportConnector",)
    assert ANY_ORDER.model.child_names("kahaDB") == ()


def test_attributes_come_with_their_types() -> None:
    assert ANY_ORDER.model.attribute_types("broker") == {
        "brokerName": "string",
        "useJmx": "boolean",
        "persistent": "boolean",
        "schedulePeriod": "integer",
    }


@pytest.mark.parametrize("path", ["borker", "broker/kahaDB", "kahaDB/plugins"])
def test_an_element_that_the_schema_has_not_has_neither_children_nor_attributes(path: str) -> None:
    assert ANY_ORDER.model.child_names(path) == ()
    assert ANY_ORDER.model.attribute_types(path) == {}


NAMES = st.sampled_from(["broker", "plugins", "transportConnectors", "kahaDB", "bean", "x"])
FRAGMENTS = st.recursive(
    st.text(alphabet="ab <>&\n'\"é", max_size=8),
    lambda inner: st.builds(
        lambda name, attribute, content: f"<{name} {attribute}>{content}</{name}>",
        NAMES,
        st.sampled_from(["", 'useJmx="x"', "b:c='d'", 'xmlns="urn:x"', f"{SPRING}"]),
        inner,
    ),
    max_leaves=4,
)


@given(FRAGMENTS)
def test_every_no_is_explained_and_every_yes_is_not(fragment: str) -> None:
    told(broker(fragment))
