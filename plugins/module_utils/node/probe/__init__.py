# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Connect to a running broker: probe its connectors, and read its management view over JMX."""

from __future__ import annotations
