"""A small activemq.xsd like those of the releases, and documents for it."""

from __future__ import annotations

_ELEMENT = """
  <xs:element name="{name}">
    <xs:complexType>
      <xs:{group}>
{children}
        <xs:any namespace="##other" minOccurs="0" maxOccurs="unbounded"/>
      </xs:{group_name}>
{attributes}
      <xs:anyAttribute namespace="##other" processContents="lax"/>
    </xs:complexType>
  </xs:element>"""

_BROKER = {
    "destinationPolicy": "",
    "persistenceAdapter": '<xs:element ref="tns:kahaDB"/>',
    "plugins": '<xs:element ref="tns:statisticsBrokerPlugin"/>',
    "transportConnectors": '<xs:element ref="tns:transportConnector"/>',
}
_TYPES = {"useJmx": "boolean", "persistent": "boolean", "schedulePeriod": "integer"}


def _element(name: str, children: str, attributes: tuple[str, ...], *, ordered: bool) -> str:
    group = "sequence" if ordered else 'choice minOccurs="0" maxOccurs="unbounded"'
    return _ELEMENT.format(
        name=name,
        group=group,
        group_name=group.partition(" ")[0],
        children=children,
        attributes="\n".join(
            f'      <xs:attribute name="{attribute}" type="xs:{_TYPES.get(attribute, "string")}"/>'
            for attribute in attributes
        ),
    )


def small_xsd(*, ordered: bool = False, broker_attributes: tuple[str, ...] = ()) -> bytes:
    """Return a schema like those of 5.6 and later, or with ``ordered`` like earlier ones: each child once, in order."""
    children = "\n".join(
        f'        <xs:element name="{name}" minOccurs="0" maxOccurs="1"><xs:complexType>'
        f'<xs:choice minOccurs="0" maxOccurs="unbounded">{inner}<xs:any namespace="##other"/></xs:choice>'
        "</xs:complexType></xs:element>"
        for name, inner in _BROKER.items()
    )
    elements = (
        _element("broker", children, ("brokerName", *_TYPES, *broker_attributes), ordered=ordered)
        + _element("kahaDB", "", ("directory",), ordered=True)
        + _element("statisticsBrokerPlugin", "", (), ordered=True)
        + _element("transportConnector", "", ("name", "uri"), ordered=True)
    )
    core = "http://activemq.apache.org/schema/core"
    return (
        f'<xs:schema elementFormDefault="qualified" targetNamespace="{core}" xmlns:tns="{core}"'
        f' xmlns:xs="http://www.w3.org/2001/XMLSchema">{elements}\n</xs:schema>\n'
    ).encode()


def beans(broker: str) -> bytes:
    """Return a document around a ``<broker>``; the argument begins on line 2, column 1."""
    return f'<beans xmlns="http://www.springframework.org/schema/beans">\n{broker}\n</beans>\n'.encode()


def broker(inside: str = "", attributes: str = "") -> bytes:
    """Return a document whose broker contains ``inside``, which begins on line 3, column 1."""
    return beans(f'<broker xmlns="http://activemq.apache.org/schema/core"{attributes}>\n{inside}\n</broker>')
