# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""The kinds of faults that a drill injects into an active broker."""

from __future__ import annotations

from typing import Literal, get_args

FaultKind = Literal["kill", "crash", "pause", "stop"]
FAULT_KINDS: tuple[FaultKind, ...] = get_args(FaultKind)
