"""Rules N about the TTLs of links: links that forward nothing, and TTLs without an effect."""

from __future__ import annotations

import re
from collections.abc import Iterator

from activemq_fleet.lint.document import Element, Problem
from activemq_fleet.lint.engine import rule

_TTL = re.compile(r"-1|[1-9][0-9]{0,5}")
"""A TTL that activemq_network_ttl accepts."""


@rule("N064", "error", each="networkConnector", needs="@networkTTL @messageTTL")
def link_with_message_ttl_zero(link: Element) -> Iterator[Problem]:
    """A link has a networkTTL or messageTTL of 0, and forwards no message.

    Why: the TTL is the number of bridges that a message may cross. The bridge is established, subscribes to the
        messages and ignores each of them. Only DEBUG and TRACE lines of the log report it.
    Fix: remove the attribute, so that the default of 1 applies, or set it to the number of bridges that a message may
        cross.
    Source: NetworkBridgeFilter; measured on 5.5.1, 5.18.3 and 6.3.1

    Fires on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://a:61616)" networkTTL="0"/>

    Silent on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://a:61616)" consumerTTL="1" messageTTL="-1"/>
    """
    if link.parsed_network_connector.message_ttl == 0:
        attribute = "networkTTL" if link.has_attribute("networkTTL") else "messageTTL"
        yield link.problem(f"{attribute} of link {link.get('name')} is 0: the link forwards no message", attribute)


@rule("N065", "warning", each="networkConnector", releases="5.9.0", needs="@networkTTL")
def network_ttl_replaces_other_ttls(link: Element) -> Iterator[Problem]:
    """A link sets networkTTL and also consumerTTL or messageTTL, which then have no effect.

    Why: networkTTL sets both of them. The broker sets it last, in whichever order the file has the attributes.
    Fix: remove networkTTL if consumerTTL and messageTTL are intended, and otherwise remove those two.
    Source: NetworkBridgeConfiguration.setNetworkTTL of 5.9.0 and 6.3.1; measured on 5.11.4, 5.18.3 and 6.3.1

    Fires on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://a:61616)" networkTTL="1" messageTTL="4"/>

    Silent on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://a:61616)" consumerTTL="1" messageTTL="4"/>
    """
    broker = link.document.broker
    planned_links = [planned for planned in broker.links if planned.name == link.get("name")] if broker else []
    if any(planned.network_ttl is None for planned in planned_links):
        return  # A fragment that sets networkTTL intends to replace the rendered consumerTTL and messageTTL.
    network_ttl = link.get("networkTTL")
    replaced = [
        name for name in ("consumerTTL", "messageTTL") if network_ttl and link.get(name, network_ttl) != network_ttl
    ]
    ttls = [link.get(name, network_ttl) for name in ("consumerTTL", "messageTTL")]
    fix = f"remove {' and '.join(replaced)} from activemq_xml_fragments"
    if all(map(_TTL.fullmatch, ttls)):
        is_rendered = any(str(planned.network_ttl) == network_ttl for planned in planned_links)
        removed = replaced if is_rendered else ["networkTTL", *replaced]  # The fragment sets another networkTTL.
        fix = (
            "set activemq_network_ttl, or ttl of the link in activemq_links, to {consumer: "
            f"{ttls[0]}, message: {ttls[1]}}}, and remove {' and '.join(removed)} from activemq_xml_fragments. Or only "
            f"remove {' and '.join(replaced)}"
        )
    for name in replaced:
        yield link.problem(
            f"{name}={link.get(name)} of link {link.get('name')} has no effect: networkTTL={network_ttl} replaces it",
            name,
            fix=fix if planned_links else "",
        )
