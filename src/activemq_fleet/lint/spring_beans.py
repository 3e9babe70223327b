"""Rules V about Spring's own elements, by the Spring schema of the release."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from activemq_fleet.lint.document import Document, Element, Problem
from activemq_fleet.lint.engine import rule
from activemq_fleet.schema import BEANS, sole_similar_name, split_name_into_words

Version = tuple[int, int]
_VALUE_ELEMENTS = "bean ref idref value null list set map props"
# Attributes and children of each element of spring-beans-2.0.xsd; then the changes of each later version (- removes).
_ELEMENTS = {
    "beans": (
        "default-lazy-init default-merge default-autowire default-dependency-check default-init-method"
        " default-destroy-method",
        "description import alias bean",
    ),
    "bean": (
        "id name class parent scope abstract lazy-init autowire dependency-check depends-on autowire-candidate"
        " init-method destroy-method factory-method factory-bean",
        "description meta constructor-arg property lookup-method replaced-method",
    ),
    "alias": ("name alias", ""),
    "import": ("resource", ""),
    "meta": ("key value", ""),
    "property": ("name ref value", f"description meta {_VALUE_ELEMENTS}"),
    "constructor-arg": ("index type ref value", f"description {_VALUE_ELEMENTS}"),
    "lookup-method": ("name bean", ""),
    "replaced-method": ("name replacer", "arg-type"),
    "arg-type": ("match", ""),
    "ref": ("bean local parent", ""),
    "idref": ("bean local", ""),
    "value": ("type", ""),
    "null": ("", ""),
    "list": ("value-type merge", _VALUE_ELEMENTS),
    "set": ("value-type merge", _VALUE_ELEMENTS),
    "map": ("key-type value-type merge", "entry"),
    "entry": ("key key-ref value value-ref", f"key {_VALUE_ELEMENTS}"),
    "key": ("", _VALUE_ELEMENTS),
    "props": ("merge", "prop"),
    "prop": ("key", ""),
    "description": ("", ""),
}
_LATER_CHANGES: tuple[tuple[Version, dict[str, tuple[str, str]]], ...] = (
    (
        (2, 5),
        {
            "bean": ("primary", "qualifier"),
            "beans": ("default-autowire-candidates", ""),
            "qualifier": ("type value", "attribute"),
            "attribute": ("key value", ""),
            "props": ("value-type", ""),
            **dict.fromkeys(("entry", "key", "list", "set", "map"), ("", "description")),
        },
    ),
    (
        (3, 0),
        {
            "array": ("value-type merge", f"description array {_VALUE_ELEMENTS}"),
            "bean": ("-dependency-check", ""),
            "beans": ("-default-dependency-check", ""),
            "constructor-arg": ("name", "array"),
            **dict.fromkeys(("property", "entry", "key", "list", "set"), ("", "array")),
        },
    ),
    ((3, 1), {"beans": ("profile", "beans")}),
    ((3, 2), {"entry": ("value-type", "")}),
    ((4, 0), {"ref": ("-local", ""), "idref": ("-local", "")}),
)
_REQUIRED_ATTRIBUTES = {
    "property": "name",
    "import": "resource",
    "prop": "key",
    "meta": "key value",
    "attribute": "key value",
    "alias": "name alias",
}
_REPLACEMENTS = {
    "singleton": 'scope="singleton" or scope="prototype"',
    "local": 'bean="…"',
    "dependency-check": "",
}
# Removed names, each with a name that has the same effect for a bean of the same file.
_NEW_NAMES = {"local": "bean"}


@rule("V021", "error", refuses=True)
def element_not_in_spring_schema(document: Document) -> Iterator[Problem]:
    """The file has a Spring element or attribute that the release's Spring does not have.

    Why: the broker validates <bean> and the other elements of Spring against Spring's schema when it starts. It does
        not start with an element or attribute that the schema does not have. Spring's old DTD has the attribute
        singleton, but Spring's schema does not. Spring 3.0 removed dependency-check, and Spring 4.0 removed the
        attribute local of <ref>. From 5.17 on (Spring 5) the newest schema applies, whatever version schemaLocation
        names.
    Fix: replace singleton="false" with scope="prototype", and <ref local="…"/> with <ref bean="…"/>. Remove
        dependency-check, and correct misspelled names.
    Source: spring-beans.xsd of Spring's release tags, 2.0 to 7.0; measured on 5.3.2, 5.5.1, 5.18.3 and 6.3.1

    Fires on 5.18.3::

        <bean id="clock" class="java.util.Date" singleton="true"/>

    Fires on 5.18.3::

        <bean id="clock" class="java.util.Date"/>
        <bean id="clocks" class="java.util.ArrayList">
          <constructor-arg><list><ref local="clock"/></list></constructor-arg>
        </bean>

    Fires on 5.5.1::

        <bean id="clock" class="java.util.Date"><propety name="time" value="0"/></bean>

    Silent on 5.5.1::

        <bean id="clock" class="java.util.Date"/>
        <bean id="clocks" class="java.util.ArrayList">
          <constructor-arg><list><ref local="clock"/></list></constructor-arg>
        </bean>

    Silent on 6.3.1::

        <bean id="clock" class="java.util.Date" scope="prototype"><property name="time" value="0"/></bean>
    """
    if (document.root.namespace, document.root.name) != (BEANS, "beans"):
        return
    version = _beans_schema_version(document)
    if version is None:  # rule V020 reports the reason
        return
    elements = _elements_of_version(version)
    name = f"the Spring schema {version[0]}.{version[1]} of ActiveMQ {document.release.text}"
    for node in document.nodes:
        if node.namespace == BEANS:
            yield from _element_problems(node, elements, name)


def _beans_schema_version(document: Document) -> Version | None:
    address = next((address for namespace, address in document.root.schema_locations if namespace == BEANS), "")
    return document.release.schemas_in_jars.spring_beans_schema_version_at_address(address)


def _element_problems(
    node: Element, elements: dict[str, tuple[frozenset[str], frozenset[str]]], name: str
) -> Iterator[Problem]:
    if node.name not in elements:
        inside_spring = node.parent is not None and node.parent.namespace == BEANS
        permitted_names = (
            elements[node.parent.name][1] if node.parent and inside_spring and node.parent.name in elements else ()
        )
        intended_name = sole_similar_name(node.name, permitted_names, _words_of_spring())
        text = f"{name} does not define an element <{node.name}>: the broker does not start"
        fix = f"write <{intended_name}>" if intended_name else "correct the spelling of the element, or remove it"
        yield node.problem(text, fix=fix, edits=node.rename_edits(intended_name) if intended_name else ())
        return
    attributes, children = elements[node.name]
    for attribute in node.attributes:
        if "}" not in attribute and attribute not in attributes:
            replacement = _REPLACEMENTS.get(attribute)
            intended_name = _NEW_NAMES.get(attribute) or sole_similar_name(attribute, attributes, _words_of_spring())
            fix = (
                f"write {intended_name}"
                if intended_name in attributes
                else f"correct the spelling of {attribute}, or remove it"
            )
            if replacement is not None:
                fix = (
                    f"write {replacement} instead of {attribute}"
                    if replacement
                    else f"remove the attribute {attribute}"
                )
            yield node.problem(
                f"<{node.name}> has no attribute {attribute} in {name}: the broker does not start",
                attribute,
                fix=fix,
                edits=node.attribute_rename_edit(attribute, intended_name) if intended_name in attributes else (),
            )
    for required in _REQUIRED_ATTRIBUTES.get(node.name, "").split():
        if not node.has_attribute(required):
            text = f"<{node.name}> lacks the attribute {required}, which {name} requires: the broker does not start"
            yield node.problem(text, fix=f"add the attribute {required} to <{node.name}>")
    for child in node.children():
        if child.namespace == BEANS and child.name in elements and child.name not in children:
            yield child.problem(
                f"{name} does not permit <{child.name}> in <{node.name}>: the broker does not start",
                fix=f"move <{child.name}> into an element that permits it, such as <property>, or remove it",
            )


@cache
def _words_of_spring() -> frozenset[str]:
    """Return the words of all names of elements and attributes of any version of Spring's beans schema."""
    names = [*_ELEMENTS, *(name for parts in _ELEMENTS.values() for part in parts for name in part.split())]
    names += (
        word for _, changes in _LATER_CHANGES for parts in changes.values() for part in parts for word in part.split()
    )
    return frozenset().union(*map(split_name_into_words, names))


@cache
def _elements_of_version(version: Version) -> dict[str, tuple[frozenset[str], frozenset[str]]]:
    """Return the attributes and children of each element in one version of Spring's beans schema."""
    elements = {
        name: (set(attributes.split()), set(children.split())) for name, (attributes, children) in _ELEMENTS.items()
    }
    for since, changes in _LATER_CHANGES:
        for name, changed in changes.items() if since <= version else ():
            parts = elements.setdefault(name, (set(), set()))
            for part, words in zip(parts, changed, strict=True):
                part |= {word for word in words.split() if not word.startswith("-")}
                part -= {word[1:] for word in words.split() if word.startswith("-")}
    return {name: (frozenset(attributes), frozenset(children)) for name, (attributes, children) in elements.items()}
