# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""The base error of everything that runs on managed hosts."""

from __future__ import annotations


class NodeError(Exception):
    """An error that stops an action on a host.

    Its text is one line for the operator.
    """
