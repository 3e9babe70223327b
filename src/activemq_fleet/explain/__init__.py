"""Explain a host: its role, the reasons for it, and what happens when it fails; pure functions.

Everything is read from the fleet and from the rendered files, so that a page cannot deviate from what is deployed. A
value that a variable decides names the variable.
"""

from __future__ import annotations

from activemq_fleet.explain.explanation import HostExplanation, HostStatement
from activemq_fleet.explain.host_pages import explain_host
from activemq_fleet.explain.plain_text import explanation_to_text

__all__ = ["HostExplanation", "HostStatement", "explain_host", "explanation_to_text"]
