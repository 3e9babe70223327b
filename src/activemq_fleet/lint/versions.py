"""V: what the release knows, and what its schema takes."""

from __future__ import annotations

from collections.abc import Iterator

from activemq_fleet.lint.document import Document
from activemq_fleet.lint.engine import Problem, rule


@rule("V002", "error", source="the XSD in the release's own jar; measured", refuses=True)
def not_in_the_schema(document: Document) -> Iterator[Problem]:
    """An element or attribute that the release's schema does not have, or a file that is not XML.

    Why: the broker checks the file when it starts, and does not start.
    Fix: take it out, correct its spelling, or run a release that has it.

    Fires on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://south:61616)" networkTll="2"/>

    Silent on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://south:61616)" networkTTL="2"/>
    """
    # Told by the schema itself: see files.file_findings.
    yield from ()
