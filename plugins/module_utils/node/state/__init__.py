# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Determine the state of a broker and of its machine on a managed host."""

from __future__ import annotations
