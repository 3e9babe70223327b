"""Runs the command ``activemq-agent`` for ``python -m activemq_agent``."""

from __future__ import annotations

import sys

from activemq_agent.cli import main

sys.exit(main())
