"""Import the parts of ansible-core that are no public API. No other module of the project imports them.

ansible-core has no public API for the origin of a value, for warnings as objects, and for templates with encrypted
values. The matrix of versions (`make versions`) runs the tests of this module with every supported ansible-core.
"""

from __future__ import annotations

from ansible._internal._datatag._tags import Origin
from ansible._internal._display_utils import DeferredWarningContext
from ansible._internal._templating._engine import TemplateEngine, TemplateOptions
from ansible._internal._templating._jinja_bits import is_possibly_template
from ansible._internal._templating._jinja_common import Marker, TruncationMarker, VaultExceptionMarker
from ansible._internal._templating._marker_behaviors import MarkerBehavior, RoutingMarkerBehavior
from ansible.module_utils._internal._event_utils import format_event_brief_message

from activemq_fleet._variable_lines import line_of_last_definition_in_section, line_of_variable_key

__all__ = [
    "DeferredWarningContext",
    "Marker",
    "MarkerBehavior",
    "Origin",
    "RoutingMarkerBehavior",
    "TemplateEngine",
    "TemplateOptions",
    "TruncationMarker",
    "VaultExceptionMarker",
    "format_event_brief_message",
    "is_possibly_template",
    "variable_origin",
]


def variable_origin(name: object, value: object) -> tuple[str, int] | None:
    """Return the origin of a variable: the file and line that define it.

    The result is None where Ansible does not record it. Ansible records the origin of texts, numbers, lists and
    mappings. For other values the origin of the name is returned, which can be that of a definition with lower
    precedence in another mapping. Of several definitions in one mapping, the last one has an effect and is returned.
    """
    if not Origin.is_tagged_on(value) and not isinstance(value, bool | None):
        # The value is of -e or of a program; the name can be that of a file with lower precedence.
        return None
    tags = (Origin.get_tag(tagged) for tagged in (value, name))
    positions = [(tag.path, tag.line_num) for tag in tags if tag is not None and tag.path and tag.line_num is not None]
    if not positions:
        return None
    path, line = positions[0]
    lines = [line for position_path, line in positions if position_path == path]
    if not Origin.is_tagged_on(value):
        return path, line_of_last_definition_in_section(path, str(name), line)
    if len(lines) > 1 and lines[0] == lines[1]:
        return path, line
    # A list or a mapping begins at its first part, often below its key.
    return path, (line_of_variable_key(path, str(name), line) if name else None) or min(lines)
