"""One host's whole explanation: what it is, why, and what happens when it dies. Pure: a fleet in, a page out.

Everything said is read from the fleet and from the rendered files, so that a page cannot say
anything else than what is deployed. Values that a variable decides name it.
"""

from __future__ import annotations

from activemq_fleet.explain.hosts import explanation_of
from activemq_fleet.explain.model import Entry, Explanation, Section
from activemq_fleet.explain.text import to_text

__all__ = ["Entry", "Explanation", "Section", "explanation_of", "to_text"]
