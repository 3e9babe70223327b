"""Define fonts and colours; one table of fonts writes the style sheet and measures text.

Plain classes and no CSS variables, so that renderers other than browsers apply them. Print uses the light colours;
links also differ by dash, so that a print without colour tells them apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

_SANS = '"Segoe UI", Roboto, "Helvetica Neue", Arial, "Liberation Sans", "DejaVu Sans", sans-serif'
_MONO = 'ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", "DejaVu Sans Mono", monospace'


@dataclass(frozen=True, slots=True)
class Font:
    """A font of the picture; ``size`` is in pixels."""

    size: float
    weight: int = 400
    mono: bool = False


FONTS: Mapping[str, Font] = MappingProxyType({
    "title": Font(21, 600),
    "summary": Font(13),
    "heading": Font(13, 600),
    "group-name": Font(16, 600),
    "facts": Font(12),
    "pair-name": Font(13.5, 600),
    "pair-small": Font(12.5, 600),
    "host": Font(12.5, 600),
    "small": Font(11),
    "mono": Font(10.5, mono=True),
    "label": Font(11),
    "badge": Font(10, 600),
    "note": Font(12),
})  # fmt: skip

# class -> (light, dark); each value is what stands between the braces.
_COLOURS: Mapping[str, tuple[str, str]] = MappingProxyType({
    "paper": ("fill:#ffffff", "fill:#0d1117"),
    "ink": ("fill:#1f2328", "fill:#e6edf3"),
    "muted": ("fill:#57606a", "fill:#9da7b3"),
    "group-box": ("fill:#f5f7fa;stroke:#cfd6de", "fill:#141a22;stroke:#343c46"),
    "card": ("fill:#ffffff;stroke:#b9c2cd", "fill:#1b222c;stroke:#465160"),
    "node": ("fill:#f8fafc;stroke:#c3ccd6", "fill:#222b36;stroke:#4a5664"),
    "node-master": ("fill:#e8f1fd;stroke:#5b93dd", "fill:#16304f;stroke:#4688d8"),
    "absent": ("fill:none;stroke:#cf222e", "fill:none;stroke:#ff7b72"),
    "star": ("fill:#1d63c4;stroke:#1d63c4", "fill:#79b8ff;stroke:#79b8ff"),
    "star-open": ("fill:none;stroke:#7a8694", "fill:none;stroke:#8b97a5"),
    "store": ("fill:#fff4d6;stroke:#a97b16", "fill:#4a3a12;stroke:#d9a93c"),
    "tie": ("stroke:#a97b16", "stroke:#d9a93c"),
    "agent": ("fill:#e3f5ee;stroke:#4f9e83", "fill:#12352b;stroke:#4fa386"),
    "agent-dot": ("fill:#4f9e83", "fill:#4fa386"),
    "agent-tie": ("stroke:#4f9e83", "stroke:#4fa386"),
    "balancer": ("fill:#fdeef6;stroke:#b4488a", "fill:#3d1c30;stroke:#d672ae"),
    "balances": ("stroke:#b4488a", "stroke:#d672ae"),
    "balanced": ("stroke:#b4488a", "stroke:#d672ae"),
    "head-balances": ("fill:#b4488a", "fill:#d672ae"),
    "cloud": ("fill:#e6f5e9;stroke:#2b7d3d", "fill:#12331b;stroke:#46a95b"),
    "group-box-fill": ("fill:#f5f7fa", "fill:#141a22"),
    "frame": ("fill:none;stroke:#0a5cbf", "fill:none;stroke:#62aeff"),
    "line-masterslave": ("stroke:#0a5cbf", "stroke:#62aeff"),
    "line-failover": ("stroke:#8140c9", "stroke:#c297ff"),
    "line-static": ("stroke:#9a5b00", "stroke:#e0a040"),
    "line-multicast": ("stroke:#2b7d3d", "stroke:#46a95b"),
    "head-masterslave": ("fill:#0a5cbf", "fill:#62aeff"),
    "head-failover": ("fill:#8140c9", "fill:#c297ff"),
    "head-static": ("fill:#9a5b00", "fill:#e0a040"),
    "head-multicast": ("fill:#2b7d3d", "fill:#46a95b"),
    "head-tie": ("fill:#a97b16", "fill:#d9a93c"),
    "badge-error": ("fill:#cf222e", "fill:#ff7b72"),
    "badge-warning": ("fill:#8f6300", "fill:#e3b341"),
    "badge-info": ("fill:#0969da", "fill:#79c0ff"),
    "badge-waived": ("fill:#6e7781", "fill:#8b949e"),
    "on-badge": ("fill:#ffffff", "fill:#0d1117"),
    "ring-error": ("stroke:#cf222e", "stroke:#ff7b72"),
    "ring-warning": ("stroke:#8f6300", "stroke:#e3b341"),
    "ring-info": ("stroke:#0969da", "stroke:#79c0ff"),
    "ring-waived": ("stroke:#6e7781", "stroke:#8b949e"),
    "good": ("fill:#1a7f37", "fill:#56d364"),
})  # fmt: skip

_SHAPES: Mapping[str, str] = MappingProxyType({
    "line": "fill:none;stroke-width:1.8",
    "line-failover": "stroke-dasharray:9 4",
    "line-static": "stroke-dasharray:2.5 3.5",
    "line-multicast": "stroke-dasharray:none",
    "thin": "fill:none;stroke-width:1.4",
    "agent-tie": "fill:none;stroke-width:1.2",
    "balances": "fill:none;stroke-width:1.4",
    "balanced": "fill:none;stroke-width:1.2;stroke-dasharray:2 3",
    "absent": "stroke-dasharray:4 3",
    "frame": "stroke-width:1.8",
    "ringed": "stroke-width:2",
})  # fmt: skip


def style_sheet() -> str:
    """Return the picture's CSS; every rule is limited to the class ``fleet``, with dark colours for dark mode."""
    rules = [f".fleet text{{font-family:{_SANS}}}"]
    for name, font in FONTS.items():
        family = f"font-family:{_MONO};" if font.mono else ""
        rules.append(f".fleet .{name}{{{family}font-size:{font.size:g}px;font-weight:{font.weight}}}")
    rules += [f".fleet .{name}{{{rule}}}" for name, rule in _SHAPES.items()]
    rules += [f".fleet .{name}{{{light}}}" for name, (light, _) in _COLOURS.items()]
    rules.append("@media screen and (prefers-color-scheme:dark){")
    rules += [f".fleet .{name}{{{dark}}}" for name, (_, dark) in _COLOURS.items()]
    rules += ["}", "@media print{.fleet{max-width:100%;max-height:100%}}"]
    return "\n".join(rules)
