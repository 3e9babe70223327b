# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""What is put on a managed host, whole or not at all."""

from __future__ import annotations
