"""Problems of configuration documents that the schema of a release finds."""

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


def problem_texts(document: bytes, schema: CompiledActivemqXsd = ANY_ORDER) -> list[str]:
    """Return the problems of a document, each with its position."""
    problems = schema.find_problems(XmlDocument(document))
    assert schema.is_valid(XmlDocument(document)) == (not problems)
    return [str(problem) for problem in problems]


def problem_fixes(document: bytes, schema: CompiledActivemqXsd) -> list[str]:
    """Return the fix of each problem of a document."""
    return [problem.fix for problem in schema.find_problems(XmlDocument(document))]


def test_valid_activemq_xml_has_no_schema_problems() -> None:
    document = broker('<persistenceAdapter><kahaDB directory="x"/></persistenceAdapter><transportConnectors/>')
    assert problem_texts(document) == []
    assert problem_texts(document, IN_ORDER) == []


def test_schema_accepts_valid_parsed_document_and_rejects_invalid_document() -> None:
    assert ANY_ORDER.accepts(etree.fromstring(broker("<plugins/>")))
    assert not ANY_ORDER.accepts(etree.fromstring(broker("<plugin/>")))


def test_unknown_attribute_is_named_with_line_and_column() -> None:
    document = broker(attributes='\n  brokerName="a > b"\n  restartAllowed="true"')
    assert problem_texts(document) == ["line 4, column 3: <broker> has no attribute restartAllowed in this release"]


def test_tags_in_comments_and_instructions_do_not_move_positions() -> None:
    lines_before = '<!-- <plugins a="> -->\n<?note <plugins/>?>\n<persistenceAdapter><kahaDB directory="a > b"/>'
    document = broker(f"{lines_before}</persistenceAdapter>\n<transportConector/>")
    assert [problem.partition(":")[0] for problem in problem_texts(document)] == ["line 6, column 1"]


def test_misspelt_attribute_gets_suggestion() -> None:
    document = broker(attributes=' brokrName="x"')
    assert problem_texts(document) == [
        "line 2, column 56: <broker> has no attribute brokrName in this release; did you mean brokerName?"
    ]


def test_attribute_that_differs_in_case_gets_suggestion() -> None:
    assert problem_texts(broker(attributes=' BROKERNAME="x"')) == [
        "line 2, column 56: <broker> has no attribute BROKERNAME in this release; did you mean brokerName?"
    ]


def test_problem_of_invalid_value_names_expected_type() -> None:
    assert problem_texts(broker(attributes=' useJmx="yes" schedulePeriod="1s"')) == [
        'line 2, column 56: useJmx="yes" of <broker> must be true or false',
        'line 2, column 69: schedulePeriod="1s" of <broker> must be a whole number',
    ]


def test_misspelt_element_gets_suggestion_and_path() -> None:
    document = broker("<!-- a comment -->\n<transportConector/>")
    assert problem_texts(document) == [
        "line 4, column 1: <transportConector> is not allowed in <broker> in this release; "
        "did you mean <transportConnectors>?"
    ]
    assert ANY_ORDER.find_problems(XmlDocument(document))[0].element == "beans/broker/transportConector"


def test_path_of_schema_problem_numbers_siblings_with_same_name() -> None:
    document = broker('<transportConnectors><transportConnector/><transportConnector port="1"/></transportConnectors>')
    assert (
        ANY_ORDER.find_problems(XmlDocument(document))[0].element
        == "beans/broker/transportConnectors/transportConnector[2]"
    )


def test_elements_after_misspelt_element_are_checked() -> None:
    document = broker('<plugin/><plugins oops="1"/>', ' useJmx="  perhaps "')

    assert [message.partition(": ")[2].partition(" in this")[0] for message in problem_texts(document)] == [
        'useJmx="perhaps" of <broker> must be true or false',
        "<plugin> is not allowed in <broker>",
        "<plugins> has no attribute oops",
    ]


def test_misspelt_element_below_prefixed_element_is_reported() -> None:
    inside = (
        '<a:transportConnectors xmlns:a="http://activemq.apache.org/schema/core"><a:transport/></a:transportConnectors>'
    )

    assert [message.partition(": ")[2][:55] for message in problem_texts(broker(inside))] == [
        "<transport> is not allowed in <transportConnectors> in "
    ]


def test_order_of_children_is_checked_where_schema_has_sequence() -> None:
    document = broker("<transportConnectors/>\n<!-- not here -->\n<persistenceAdapter/>")
    assert problem_texts(document) == []
    assert problem_texts(document, IN_ORDER) == [
        "line 5, column 1: <persistenceAdapter> must be before <transportConnectors>: "
        "this release requires an order of the children of <broker>"
    ]
    assert problem_fixes(document, IN_ORDER) == ["move <persistenceAdapter> before <transportConnectors>"]


def test_repeated_child_is_reported_where_schema_allows_it_once() -> None:
    document = broker("<plugins/>\n<plugins/>")
    assert problem_texts(document) == []
    assert problem_texts(document, IN_ORDER) == [
        "line 4, column 1: <plugins> is allowed only once in <broker> in this release"
    ]
    assert problem_fixes(document, IN_ORDER) == ["keep only one <plugins> in <broker>"]


def test_fix_of_schema_problem_names_attribute_with_invalid_value() -> None:
    document = broker("").replace(b"<broker ", b'<broker useJmx="yes" ')
    assert problem_fixes(document, ANY_ORDER) == ["set useJmx to true or false"]


def test_text_between_elements_is_reported() -> None:
    assert problem_texts(broker("<plugins>hello</plugins>")) == [
        "line 3, column 1: <plugins> contains text, but allows only elements"
    ]


SPRING = 'xmlns="http://www.springframework.org/schema/beans"'


def test_spring_bean_inside_broker_is_accepted() -> None:
    assert (
        problem_texts(broker(f'<plugins><bean {SPRING} class="x"><property name="y" value="z"/></bean></plugins>'))
        == []
    )


def test_misspelt_spring_bean_is_reported() -> None:
    assert problem_texts(broker(f"<plugins><baen {SPRING}/></plugins>")) == [
        "line 3, column 10: <baen> is not an element of http://www.springframework.org/schema/beans"
    ]


def test_element_of_unknown_namespace_is_accepted() -> None:
    """An added jar can contain the schema. Rule V020 checks that the schema exists."""
    assert problem_texts(beans('<camelContext xmlns="urn:camel"/>')) == []
    assert problem_texts(broker('<plugins><x xmlns="urn:x" a="b">text<y/></x></plugins>')) == []


def test_beans_element_of_xbean_is_accepted_as_root() -> None:
    core = '<broker xmlns="http://activemq.apache.org/schema/core" brokerName="north"'
    assert problem_texts(f'<beans xmlns="http://xbean.apache.org/schemas/spring/1.0">{core}/></beans>'.encode()) == []
    (problem,) = problem_texts(
        f'<beans xmlns="http://xbean.apache.org/schemas/spring/1.0">{core} brokerNam="x"/></beans>'.encode()
    )
    assert "<broker> has no attribute brokerNam in this release" in problem


def test_misspelt_broker_element_is_reported() -> None:
    assert problem_texts(beans('<borker xmlns="http://activemq.apache.org/schema/core"/>')) == [
        "line 2, column 1: <borker> is not allowed in <beans> in this release; did you mean <broker>?"
    ]


def test_problem_of_broker_without_namespace_names_missing_namespace() -> None:
    assert problem_texts(beans("<broker/>")) == [
        'line 2, column 1: <broker> lacks xmlns="http://activemq.apache.org/schema/core"'
    ]


def test_schema_problems_are_reported_in_document_order() -> None:
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
def test_document_that_spring_cannot_read_is_reported(document: bytes, message: str) -> None:
    assert problem_texts(document) == [message]


def test_broker_as_root_is_validated_like_broker_in_beans() -> None:
    assert problem_texts(b'<broker xmlns="http://activemq.apache.org/schema/core"/>') == []
    (problem,) = problem_texts(b'<broker xmlns="http://activemq.apache.org/schema/core" useJmx="maybe"/>')
    assert "must be true or false" in problem


def test_whole_number_above_java_int_is_reported() -> None:
    assert problem_texts(broker("", ' schedulePeriod="2147483647"')) == []
    (problem,) = problem_texts(broker("", ' schedulePeriod="2147483648"'))
    assert problem.endswith("must be a whole number up to 2147483647")


@pytest.mark.parametrize(
    "declaration",
    ["<!DOCTYPE beans>", '<!DOCTYPE beans [<!ENTITY x SYSTEM "file:///etc/hostname">]>'],
)
def test_doctype_is_reported_before_entities_are_resolved(declaration: str) -> None:
    document = f"<?xml version='1.0'?>\n{declaration}\n".encode() + beans("")
    assert problem_texts(document) == [
        "line 2, column 1: the file has a DOCTYPE, which could include other files, so it was not checked"
    ]


def test_exponential_entities_are_refused() -> None:
    steps = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 10))
    document = f'<!DOCTYPE beans [<!ENTITY e0 "x">{steps}]><beans>&e9;</beans>'.encode()
    assert not ANY_ORDER.is_valid(XmlDocument(document))


def test_schema_does_not_read_included_file(tmp_path: Path) -> None:
    included_schema = tmp_path / "other.xsd"
    included_schema.write_bytes(small_xsd())
    core = "http://activemq.apache.org/schema/core"
    schema = CompiledActivemqXsd(
        f'<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" targetNamespace="{core}">'
        f'<xs:include schemaLocation="{included_schema}"/><xs:element name="only"/></xs:schema>'.encode()
    )
    assert schema.model.global_element_declarations.keys() == {"only"}
    assert not schema.is_valid(XmlDocument(broker()))


@pytest.mark.parametrize("xsd", [b"", b"<html/>", b"PK\x03\x04", small_xsd()[:200]])
def test_error_of_invalid_schema_is_single_line(xsd: bytes) -> None:
    with pytest.raises(SchemaUnavailableError, match=r"^the file activemq.xsd is not an XML schema of ActiveMQ[^\n]+$"):
        CompiledActivemqXsd(xsd)


def test_child_names_have_schema_order_and_are_selected_by_path() -> None:
    names = ("destinationPolicy", "persistenceAdapter", "plugins", "transportConnectors")
    assert ANY_ORDER.model.child_names("broker") == names
    assert IN_ORDER.model.child_names("broker") == names
    assert ANY_ORDER.model.child_names("plugins") == ("statisticsBrokerPlugin",)
    assert ANY_ORDER.model.child_names("broker/transportConnectors") == ("transportConnector",)
    assert ANY_ORDER.model.child_names("kahaDB") == ()


def test_attribute_types_are_read_from_schema() -> None:
    assert ANY_ORDER.model.attribute_types("broker") == {
        "brokerName": "string",
        "useJmx": "boolean",
        "persistent": "boolean",
        "schedulePeriod": "integer",
    }


@pytest.mark.parametrize("path", ["borker", "broker/kahaDB", "kahaDB/plugins"])
def test_unknown_element_has_no_children_and_no_attributes(path: str) -> None:
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
def test_invalid_document_has_problems_and_valid_document_has_none(fragment: str) -> None:
    problem_texts(broker(fragment))
