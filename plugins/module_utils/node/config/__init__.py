# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Read the deployed versions of a broker's configuration and the archive that carries a new version."""

from __future__ import annotations
