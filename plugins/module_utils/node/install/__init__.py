# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Installs configurations and releases on a managed host, each atomically."""

from __future__ import annotations
