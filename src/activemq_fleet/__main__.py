"""``python -m activemq_fleet``: the same as ``activemq-fleet``."""

from __future__ import annotations

import sys

from activemq_fleet.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
