# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Open files of other accounts safely, and write files durably."""

from __future__ import annotations
