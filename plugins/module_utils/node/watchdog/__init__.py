# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""The watchdog: the program beside a broker that notices when the broker hangs."""

from __future__ import annotations
