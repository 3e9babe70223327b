"""Rules L about directories that do not last."""

from __future__ import annotations

import re
from collections.abc import Iterator

from activemq_fleet.lint.document import Document, Problem
from activemq_fleet.lint.engine import rule

_SHORT_LIVED = re.compile(r"(?:file:(?://)?)?(/tmp|/var/tmp|/dev/shm|\$\{java\.io\.tmpdir\}|(?:\./)?target)(?:/|$)")


@rule("L028", "warning", source="20 of 275 files of public repositories; tmpfiles.d(5)")
def store_that_does_not_last(document: Document) -> Iterator[Problem]:
    """The store, or the broker's data, lies below /tmp or a build's target directory.

    Why: the system empties /tmp at a restart or after days without use, mvn clean removes target: persistent messages
        and the lock of the store go with it.
    Fix: write a directory that only the broker uses, such as ${activemq.data}/kahadb.

    Fires on 5.18.3::

        <kahaDB directory="/tmp/activemq/kahadb"/>

    Fires on 5.18.3::

        <broker dataDirectory="target/activemq-data"/>

    Silent on 5.18.3::

        <kahaDB directory="${activemq.data}/kahadb"/>
    """
    for node in (*document.brokers, *document.stores):
        if node.name == "broker" and node.flag("persistent", True) is False:
            continue
        for attribute in ("directory", "dataDirectory", "directoryArchive"):
            match = _SHORT_LIVED.match(node.get(attribute))
            if match is not None:
                yield node.problem(f"{attribute} is below {match[1]}, which is emptied by others", attribute)
