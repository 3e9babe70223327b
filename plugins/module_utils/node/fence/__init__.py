# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Fences a shared kahaDB store: a node that froze and thaws can write only into files that nobody reads any more."""

from __future__ import annotations
