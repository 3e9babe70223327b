"""Define the colors of a picture and write its style sheet.

The style sheet has plain classes and no CSS variables, so that renderers other than browsers apply it. Print uses the
light colors. Links also differ by dash pattern, so that they can be distinguished without color.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from activemq_fleet.canvas import FONTS
from activemq_fleet.findings import SEVERITIES

_SANS = '"Segoe UI", Roboto, "Helvetica Neue", Arial, "Liberation Sans", "DejaVu Sans", sans-serif'
_MONO = 'ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", "DejaVu Sans Mono", monospace'

# Colors as (light, dark), and classes as their fill and stroke. A class without a separate color has none.
_PALETTE: Mapping[str, tuple[str, str]] = MappingProxyType({
    "masterslave": ("#0a5cbf", "#62aeff"),
    "failover": ("#8140c9", "#c297ff"),
    "static": ("#9a5b00", "#e0a040"),
    "multicast": ("#2b7d3d", "#46a95b"),
    "error": ("#cf222e", "#ff7b72"),
    "warning": ("#8f6300", "#e3b341"),
    "info": ("#0969da", "#79c0ff"),
    "waived": ("#6e7781", "#8b949e"),
    "store": ("#a97b16", "#d9a93c"),
    "store-fill": ("#fff4d6", "#4a3a12"),
    "agent": ("#4f9e83", "#4fa386"),
    "agent-fill": ("#e3f5ee", "#12352b"),
    "balancer": ("#b4488a", "#d672ae"),
    "balancer-fill": ("#fdeef6", "#3d1c30"),
    "multicast-fill": ("#e6f5e9", "#12331b"),
    "paper": ("#ffffff", "#0d1117"),
    "ink": ("#1f2328", "#e6edf3"),
    "muted": ("#57606a", "#9da7b3"),
    "good": ("#1a7f37", "#56d364"),
    "group-fill": ("#f5f7fa", "#141a22"),
    "group": ("#cfd6de", "#343c46"),
    "card-fill": ("#ffffff", "#1b222c"),
    "card": ("#b9c2cd", "#465160"),
    "node-fill": ("#f8fafc", "#222b36"),
    "node": ("#c3ccd6", "#4a5664"),
    "master-fill": ("#e8f1fd", "#16304f"),
    "master": ("#5b93dd", "#4688d8"),
    "star": ("#1d63c4", "#79b8ff"),
    "star-open": ("#7a8694", "#8b97a5"),
})  # fmt: skip
_LINK_KINDS = ("masterslave", "failover", "static", "multicast")
_FINDING_KINDS = (*SEVERITIES, "waived")
# class -> (fill, stroke); None leaves the property to other classes.
_CLASSES: Mapping[str, tuple[str | None, str | None]] = MappingProxyType({
    **{name: (name, None) for name in ("paper", "ink", "muted", "good")},
    "group-box": ("group-fill", "group"),
    "card": ("card-fill", "card"),
    "node": ("node-fill", "node"),
    "node-master": ("master-fill", "master"),
    "absent": ("none", "error"),
    "star": ("star", "star"),
    "star-open": ("none", "star-open"),
    "store": ("store-fill", "store"),
    "tie": (None, "store"),
    "head-tie": ("store", None),
    "agent": ("agent-fill", "agent"),
    "agent-dot": ("agent", None),
    "balancer": ("balancer-fill", "balancer"),
    "balances": ("none", "balancer"),
    "balanced": ("none", "balancer"),
    "head-balances": ("balancer", None),
    "cloud": ("multicast-fill", "multicast"),
    **{f"line-{kind}": (None, kind) for kind in _LINK_KINDS},
    **{f"head-{kind}": (kind, None) for kind in _LINK_KINDS},
    **{f"badge-{kind}": (kind, None) for kind in _FINDING_KINDS},
    **{f"ring-{kind}": (None, kind) for kind in _FINDING_KINDS},
    "on-badge": ("paper", None),
})  # fmt: skip
_SHAPES: Mapping[str, str] = MappingProxyType({
    "line": "fill:none;stroke-width:1.8",
    "line-failover": "stroke-dasharray:9 4",
    "line-static": "stroke-dasharray:2.5 3.5",
    "thin": "fill:none;stroke-width:1.4",
    "balances": "stroke-width:1.4",
    "balanced": "stroke-width:1.2;stroke-dasharray:2 3",
    "absent": "stroke-dasharray:4 3",
    "ringed": "stroke-width:2",
})  # fmt: skip


def style_sheet() -> str:
    """Return the CSS style sheet of a fleet's picture.

    Every rule is limited to the class ``fleet``, with dark colors for dark mode.
    """
    rules = [f".fleet text{{font-family:{_SANS}}}"]
    for name, font in FONTS.items():
        family = f"font-family:{_MONO};" if font.mono else ""
        rules.append(f".fleet .{name}{{{family}font-size:{font.size:g}px;font-weight:{font.weight}}}")
    rules += [f".fleet .{name}{{{rule}}}" for name, rule in _SHAPES.items()]
    rules += _color_rules(0)
    rules += ["@media screen and (prefers-color-scheme:dark){", *_color_rules(1), "}"]
    rules.append("@media print{.fleet{max-width:100%;max-height:100%}}")
    return "\n".join(rules)


def _color_rules(scheme: int) -> list[str]:
    """Return a rule for each class with its colors in a scheme: 0 for light, 1 for dark."""
    rules = []
    for name, colors in _CLASSES.items():
        properties = zip(("fill", "stroke"), colors, strict=True)
        declarations = [
            f"{key}:{_PALETTE[c][scheme] if c in _PALETTE else c}" for key, c in properties if c is not None
        ]
        rules.append(f".fleet .{name}{{{';'.join(declarations)}}}")
    return rules
