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
]
