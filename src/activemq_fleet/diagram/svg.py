"""Draw a fleet as SVG: a single file without scripts, fonts or images from elsewhere."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from activemq_fleet.canvas import SvgCanvas, format_decimal, wrap_words
from activemq_fleet.diagram.captions_and_descriptions import (
    MAX_FULL,
    connection_caption_lines,
    connection_description,
    describe_fleet,
    finding_counts_text_and_worst_severity,
    fleet_summary_texts,
    join_words,
    shared_heading_texts,
)
from activemq_fleet.diagram.grid import place_in_grid
from activemq_fleet.diagram.group_box import GroupBox, balancer_box
from activemq_fleet.diagram.layout_model import DiagramLayout, PaperSheet, most_readable_layout
from activemq_fleet.diagram.legend import draw_findings, draw_legend, legend_entries
from activemq_fleet.diagram.scene import (
    BalancerView,
    DrawnConnection,
    PairCountAndNoun,
    PictureContent,
    picture_content,
)
from activemq_fleet.diagram.star import hub_box_name, place_star
from activemq_fleet.diagram.style import style_sheet
from activemq_fleet.node.printable import count_with_noun, escape_html
from activemq_fleet.topology import Fleet

MAX_DRAWN = 24
_MARGIN, _MIN_WIDTH, _MAX_LISTED = 26.0, 720.0, 16
# Paper of the A sizes. Heading and legend take about 240 pixels of its height.
_PAPER = PaperSheet(math.sqrt(2), 240)


def to_svg(fleet: Fleet, states: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return the picture of a fleet as an SVG document.

    The bytes are the same for the same fleet. Up to ``MAX_FULL`` pairs are drawn in full; with more, pairs show only
    what differs within a group. The picture follows the reader's light or dark mode and prints in light colors.
    ``states`` are those of brokers at run time, by host; they are next to the brokers.
    """
    scene = picture_content(fleet, states)
    detailed = len(scene.pairs) <= MAX_FULL
    shared_facts = () if detailed else shared_heading_texts(scene.groups)
    boxes = [GroupBox(group, detailed=detailed, shared_facts=shared_facts) for group in scene.groups]
    placement = _place_groups(boxes, scene)
    group_connections = [connection for connection, _ in placement.lines]
    listed_connections = [connection for connection in scene.between if connection not in group_connections]
    width = max(placement.width, _MIN_WIDTH)
    canvas = SvgCanvas()
    y = _draw_heading(canvas, scene, fleet, shared_facts, width)
    if scene.idle_balancers:
        y += _draw_idle_balancers(canvas, scene.idle_balancers, y, width)
    placement.draw(canvas, _MARGIN + (width - placement.width) / 2, y)
    y += placement.height + 24
    if listed_connections:
        y += _draw_link_list(canvas, listed_connections, scene.pair_count_and_noun_by_group, y, width)
    y += draw_findings(canvas, scene, _MARGIN, y, width)
    drawn = [*group_connections, *(connection for box in boxes for connection in box.drawn)]
    meshed = {box.meshed for box in boxes if box.meshed}
    y += draw_legend(canvas, legend_entries(scene, drawn, meshed, detailed=detailed), _MARGIN, y, width) + 18
    size = f'width="{format_decimal(width + 2 * _MARGIN)}" height="{format_decimal(y)}"'
    names = [group.name for group in scene.groups]
    title = f"ActiveMQ fleet: {join_words(names) if len(names) <= 6 else count_with_noun(len(names), 'group')}"
    description = describe_fleet(scene, fleet.findings, group_connections)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="fleet" {size} '
        f'viewBox="0 0 {format_decimal(width + 2 * _MARGIN)} {format_decimal(y)}" role="img" '
        'aria-labelledby="fleet-title fleet-description">\n'
        f'<title id="fleet-title">{escape_html(title)}</title>\n'
        f'<desc id="fleet-description">{escape_html(description)}</desc>\n'
        f"<style>\n{style_sheet()}\n</style>\n"
        f'<rect class="paper" {size}/>\n{canvas}\n</svg>\n'
    )


def _place_groups(boxes: Sequence[GroupBox], scene: PictureContent) -> DiagramLayout:
    """Return the most readable positions of group boxes on a sheet of paper, and the lines between them.

    More connections than ``MAX_DRAWN`` are not drawn, unless they all lead to one group.
    """

    def captions(connection: DrawnConnection) -> list[str]:
        return connection_caption_lines(connection, scene.pair_count_and_noun_by_group)

    if not boxes:
        return DiagramLayout()
    hub = hub_box_name(scene.between)
    if hub is not None:
        spokes = [box for box in boxes if box.name != hub]
        hub_box = next(box for box in boxes if box.name == hub)
        return place_star(hub_box, spokes, scene.between, (26, 37), _PAPER, captions)
    drawn = scene.between if len(scene.between) <= MAX_DRAWN else ()
    gap = (60.0, 40.0) if drawn else (26.0, 26.0)
    return most_readable_layout(len(boxes), lambda columns: place_in_grid(boxes, columns, gap, drawn, captions), _PAPER)


def _draw_heading(
    canvas: SvgCanvas, scene: PictureContent, fleet: Fleet, shared_facts: Sequence[str], width: float
) -> float:
    """Draw the heading of the picture: a summary of the fleet, and its number of findings.

    Return the height in pixels.
    """
    canvas.add_text("title ink", _MARGIN, 42, "ActiveMQ fleet")
    text, worst = finding_counts_text_and_worst_severity(fleet.findings)
    css = "good" if worst == "good" else f"badge-{worst}"
    canvas.add_text(f"summary {css}", _MARGIN + width, 42, text, "end")
    lines = wrap_words(fleet_summary_texts(scene), "summary", width, " · ")
    if shared_facts:
        lines += wrap_words([f"all groups: {shared_facts[0]}", *shared_facts[1:]], "summary", width, " · ")
    for row, line in enumerate(lines):
        canvas.add_text("summary muted", _MARGIN, 64 + 18 * row, line)
    return 70.0 + 18 * len(lines)


def _draw_idle_balancers(canvas: SvgCanvas, hosts: Sequence[str], y: float, width: float) -> float:
    """Draw boxes for load balancers without a virtual address.

    Return the height of all rows in pixels.
    """
    boxes = [
        balancer_box(BalancerView(host, "no address", (), f"load balancer {host} has no virtual address"))
        for host in hosts
    ]
    columns = max(1, int(width // (max(box.width for box in boxes) + 6)))
    placement = place_in_grid(boxes, columns, (6, 6))
    placement.draw(canvas, _MARGIN, y)
    return placement.height + 18


def _draw_link_list(
    canvas: SvgCanvas,
    connections: Sequence[DrawnConnection],
    sizes: Mapping[str, PairCountAndNoun],
    y: float,
    width: float,
) -> float:
    """Write the links between groups as text, because drawn lines would cover each other.

    Return the height in pixels.
    """
    canvas.add_text("heading ink", _MARGIN, y + 13, f"Links between groups ({len(connections)})")
    lines = wrap_words([connection_description(connection, sizes) for connection in connections], "note", width, ", ")
    if (hidden := len(lines) - _MAX_LISTED) > 0:
        lines[_MAX_LISTED:] = [f"and {count_with_noun(hidden, 'more line')} of links"]
    for row, line in enumerate(lines):
        canvas.add_text("note muted", _MARGIN, y + 33 + 16 * row, line)
    return 45.0 + 16 * len(lines)
