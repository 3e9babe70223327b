# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""The timeouts in seconds that several parts of the project share, each with its reason.

The role ``broker`` has two of them as variables (``__activemq_ready_timeout`` and ``__activemq_settle_timeout``), so
that an operator can increase them with ``-e`` for a slower machine. A test compares the values.
"""

from __future__ import annotations

PROBE = 5.0
"""Seconds that a connector has for each answer to a probe: many times what a healthy broker needs."""
LAB_PROBE = 10.0
"""``PROBE`` in the lab, where one machine runs the whole fleet, all JVMs of which may start at once."""

HUNG = 30.0
"""Seconds that a broker must be silent until operations consider it hung: a machine under load, or a JVM that collects
garbage, may answer slowly. The watchdog concludes the same within 27 s, and drills freeze a node for this time."""
MISSES = 3
"""Consecutive samples without an answer until the watchdog considers a broker hung; a single one may be accidental."""
WATCH_INTERVAL = 6.0
"""Seconds between two samples of the watchdog. With a sample's own timeout, the third miss is seen within 27 s."""
WATCH_BUSY = 120.0
"""Seconds that a broker with open ports may be silent, while its log reports a start or stop, until the watchdog
considers it hung."""

STORE_ANSWER = 20.0
"""Seconds within which a shared store must answer its guard. A guard without an answer kills its broker, which cannot
serve clients either."""
MAX_GUARD_SILENCE = 30
"""Seconds without a sign of life after which systemd kills a guard (``WatchdogSec``). It is longer than
``STORE_ANSWER``, because a guard whose store does not answer must first be able to kill its broker."""

SETTLE = 120.0
"""Seconds until a broker that is starting, stopping or taking over counts as unhealthy."""
READY = 300.0
"""Seconds until a started broker must be active or standby. A store that was not closed is checked first, which takes
minutes for tens of gigabytes."""
LAB_READY = 120.0
"""``READY`` in the lab, whose stores are small; a busy machine needs many times what an idle one does."""
