# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""A broker and its machine as a managed host shows them."""

from __future__ import annotations
