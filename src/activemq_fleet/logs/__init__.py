"""Read broker logs into the events that audits use: all kinds of log messages, many records at once.

The grammar of records, and the kinds from which phases and bridges are read, are those of ``node.log``.
"""

from __future__ import annotations
