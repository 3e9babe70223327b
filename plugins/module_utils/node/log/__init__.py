# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Read a broker's log: phases, errors and bridges."""

from __future__ import annotations
