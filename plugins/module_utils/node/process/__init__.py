# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Read the processes, sockets and accounts of a managed host."""

from __future__ import annotations
