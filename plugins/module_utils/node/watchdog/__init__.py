# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""The watchdog: a program that runs next to a broker and detects a hung broker."""

from __future__ import annotations
