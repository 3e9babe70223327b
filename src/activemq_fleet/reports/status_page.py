"""Write the status of a fleet as an HTML page."""

from __future__ import annotations

import json
from pathlib import Path

from activemq_fleet.atomic_files import write_file_atomically
from activemq_fleet.errors import InputError
from activemq_fleet.reports.pages import render_html_page
from activemq_fleet.status import FleetStatus
from activemq_fleet.status.text import status_headline, status_table_titles_and_rows


def status_html_page(status: FleetStatus) -> str:
    """Return the status of a fleet as an HTML page."""
    tables = [([(title, "h") for title in titles], rows) for titles, rows in status_table_titles_and_rows(status)]
    return render_html_page(
        "status.html.j2",
        status=status,
        headline=status_headline(status),
        verdict="findings" if status.exit_code else "clean",
        tiles=[
            (name, value) for name, value in status.summary_counts.items() if value or name in ("brokers", "errors")
        ],
        tables=tables,
        wrong={finding.host for finding in status.findings if finding.severity == "error"},
        links=[
            (row.host, link.link, " or ".join(link.to), link.state, link.reason)
            for row in status.brokers
            for link in row.links
        ],
    )


def write_status_as_html_or_json(status: FleetStatus, file: str) -> None:
    """Write the status of a fleet to a file, as HTML or JSON according to the file's extension (.html or .json).

    Raises InputError for another extension, and OutputError if the file cannot be written.
    """
    path = Path(file)
    if path.suffix == ".html":
        write_file_atomically(path, status_html_page(status).encode())
    elif path.suffix == ".json":
        write_file_atomically(path, json.dumps(status.to_dict(), indent=1).encode() + b"\n")
    else:
        raise InputError(
            f"{file}: the status report is written as HTML or JSON: use a file name that ends in .html or .json"
        )
