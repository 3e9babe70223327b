"""Run the command line: ``python -m activemq_fleet`` does what ``activemq-fleet`` does."""

from __future__ import annotations

import sys

from activemq_fleet.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
