"""Read the comment with which each rendered ``activemq.xml`` begins."""

from __future__ import annotations

import re
from typing import NamedTuple

_HEADER = re.compile(rb"<!-- ([^\n]*), release ([0-9.]+)\s+Made by activemq\.fleet from the inventory")
_PREFERRED = b"(preferred master)"
_HEADER_BYTES = 4096


class ActivemqXmlHeader(NamedTuple):
    """The header of a rendered ``activemq.xml``: its release, and whether its broker is a preferred master."""

    release: str
    is_preferred_master: bool


def read_activemq_xml_header(activemq_xml: bytes) -> ActivemqXmlHeader | None:
    """Return the header of a rendered ``activemq.xml``, or None for a file that activemq.fleet did not render."""
    match = _HEADER.search(activemq_xml, 0, _HEADER_BYTES)
    return ActivemqXmlHeader(match[2].decode(), _PREFERRED in match[1]) if match else None
