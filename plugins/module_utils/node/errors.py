# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""The base error of everything that runs on managed hosts."""

from __future__ import annotations


class NodeError(Exception):
    """The base error of the code on managed hosts; it stops an action there, such as an installation.

    Its text is one line for the operator.
    """
