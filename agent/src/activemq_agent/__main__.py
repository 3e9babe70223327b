"""``python -m activemq_agent``: the same as ``activemq-agent``."""

from __future__ import annotations

import sys

from activemq_agent.cli import main

sys.exit(main())
