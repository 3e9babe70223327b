"""``python -m activemq_fleet.agent``: the same as ``activemq-agent``."""

from __future__ import annotations

import sys

from activemq_fleet.agent.cli import main

sys.exit(main())
