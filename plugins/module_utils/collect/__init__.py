# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""The evidence of one host, masked and packed."""

from __future__ import annotations
