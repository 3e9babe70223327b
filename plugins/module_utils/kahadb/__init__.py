# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Stores: their files, their journals, their messages."""

from __future__ import annotations
