"""Draw a fleet as SVG or Mermaid. Pure: a fleet goes in, text comes out."""

from __future__ import annotations

from activemq_fleet.diagram.mermaid import to_mermaid
from activemq_fleet.diagram.svg import to_svg

__all__ = ["to_mermaid", "to_svg"]
