"""Rules V about templates of Jinja, ERB, EPP and the like, which are no activemq.xml yet."""

from __future__ import annotations

import re
from collections.abc import Iterator

from activemq_fleet.lint.document import Document, Problem
from activemq_fleet.lint.engine import rule

# Parts in which these marks mean nothing, or something else: {{name}} is a property of Camel.
# To the end where one is left open: a search that begins again at each of them would take for ever.
_ELSEWHERE = re.compile(
    r"<!--.*?(?:-->|\Z)|<!\[CDATA\[.*?(?:\]\]>|\Z)|<camelContext\b.*?(?:</camelContext>|\Z)", re.DOTALL
)
_MARKS = re.compile(
    r"<%|<#\w|<@\w|\[%"  # ERB, EPP, FreeMarker, Template Toolkit
    r"|\{\{[^{}\n]{1,300}\}\}|\{%|\{#\s"  # Jinja, Go
    r"|@@[\w.-]{1,100}@@|%%[A-Z][A-Z0-9_]{1,100}%%|(?<![\w.@])@[A-Z][A-Z0-9_.]{2,100}@(?!\w)"  # Maven, sed
)


@rule("V022", "warning", source="39 templates among 310 files of public repositories")
def template(document: Document) -> Iterator[Problem]:
    """A template, not a configuration: render it first.

    Why: what a broker reads is the rendered file. Of a template nothing can be said for certain, so nothing else is
        said: its placeholders are no values, and its conditions may take out what a rule would complain about.
    Fix: render it, as the tool that installs it does, and check the result.

    Fires on 5.18.3::

        <broker brokerName="{{ inventory_hostname }}"/>

    Silent on 5.18.3::

        <broker brokerName="${env.HOSTNAME}"/>
    """
    # Told where the file is read: see files.file_findings.
    yield from ()


def template_mark(text: str) -> tuple[int, int, str] | None:
    """Return line, column and text of the first mark of a template language; None for a file that is no template."""
    blank = _ELSEWHERE.sub(lambda part: re.sub(r"[^\n]", " ", part[0]), text)
    match = _MARKS.search(blank)
    if match is None:
        return None
    begin = match.start()
    return blank.count("\n", 0, begin) + 1, begin - blank.rfind("\n", 0, begin), match[0]
