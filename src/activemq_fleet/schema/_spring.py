"""Replacements for Spring's own schemas.

ActiveMQ's XSD accepts elements of other namespaces only if their schema is available (``xs:any``, strict). This project
does not validate against Spring's schemas: with these replacements, a ``<bean>`` is accepted, and a misspelled one is
rejected.
"""

from __future__ import annotations

from activemq_fleet.releases import BEANS, XBEAN
from activemq_fleet.schema._documents import FOREIGN

_STUB_TEMPLATE = """\
<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" xmlns="{namespace}"
           targetNamespace="{namespace}" elementFormDefault="qualified">
  <xs:complexType name="anything" mixed="true">
    <xs:sequence><xs:any processContents="lax" minOccurs="0" maxOccurs="unbounded"/></xs:sequence>
    <xs:anyAttribute processContents="lax"/>
  </xs:complexType>
  {elements}
</xs:schema>
"""
# Other namespaces are allowed at the top level, because a user's jar may contain their handlers. An
# element without a namespace, such as a <broker> without xmlns, is rejected.
_BEANS_ELEMENT = """\
  <xs:element name="beans"><xs:complexType>
    <xs:choice minOccurs="0" maxOccurs="unbounded">
      <xs:element ref="alias"/><xs:element ref="bean"/><xs:element ref="beans"/>
      <xs:element ref="description"/><xs:element ref="import"/>
      <xs:any namespace="##other" processContents="lax"/>
    </xs:choice>
    <xs:anyAttribute processContents="lax"/>
  </xs:complexType></xs:element>
"""
_SPRING_ELEMENTS = (
    "alias arg-type array attribute bean constructor-arg description entry idref import key list lookup-method map"
    " meta null prop property props qualifier ref replaced-method set value"
)
_ELEMENTS_BY_NAMESPACE = {
    BEANS: _SPRING_ELEMENTS,
    XBEAN: _SPRING_ELEMENTS,
    FOREIGN: "element",
    "http://www.springframework.org/schema/jee": "jndi-lookup local-slsb remote-slsb",
    "http://www.springframework.org/schema/util": "constant list map properties property-path set",
}


def _stub(namespace: str, names: str) -> str:
    elements = "\n  ".join(f'<xs:element name="{name}" type="anything"/>' for name in names.split())
    return _STUB_TEMPLATE.format(
        namespace=namespace, elements=elements + (_BEANS_ELEMENT if namespace in {BEANS, XBEAN} else "")
    )


STUBS = {namespace: _stub(namespace, names) for namespace, names in _ELEMENTS_BY_NAMESPACE.items()}
