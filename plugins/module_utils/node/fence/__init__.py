# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Fences a shared kahaDB store: a node that continues after a freeze can write only to files that are out of use."""

from __future__ import annotations
