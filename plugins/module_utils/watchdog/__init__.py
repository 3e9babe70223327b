# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""The program beside a broker that finds out when it hangs."""

from __future__ import annotations
