# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Runs the guard: ``python -m activemq_fleet.node.fence.start_guard``."""

from __future__ import annotations

from .guard import main

if __name__ == "__main__":
    main()
