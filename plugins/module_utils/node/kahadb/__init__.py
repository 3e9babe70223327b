# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Reads and copies kahaDB stores: their files, their journals, their messages."""

from __future__ import annotations
