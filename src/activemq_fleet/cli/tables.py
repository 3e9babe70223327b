"""Print tables of text on a terminal, or line by line where the output goes elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from activemq_fleet.node.printable import printable


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]], styles: Mapping[str, str] | None = None) -> None:
    """Print rows below their titles; ``styles`` maps a cell's text to a style of rich. Without a terminal: a plain line
    a row.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for title in head:
        table.add_column(title, overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell), style=(styles or {}).get(cell, "")) for cell in row))
    console = Console()
    if not console.is_terminal:
        console = Console(width=10_000)  # piped, a line is a host, whatever its length
    console.print(table)
