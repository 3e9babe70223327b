# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Collects, masks and packs the evidence of one host."""

from __future__ import annotations
