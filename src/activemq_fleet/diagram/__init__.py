"""The fleet as a picture: SVG for people and paper, Mermaid for Markdown. Pure: a fleet in, text out."""

from __future__ import annotations

from activemq_fleet.diagram.mermaid import to_mermaid
from activemq_fleet.diagram.svg import to_svg

__all__ = ["to_mermaid", "to_svg"]
