# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""The documentation fragments of modules that work on a broker or its store."""

from __future__ import annotations


class ModuleDocFragment:
    """Documents the options and attributes that several modules share; each constant is one fragment."""

    DOCUMENTATION = r"""
options:
  base:
    description: The directory of the broker, C(activemq_base/activemq_instance).
    type: path
    required: true
"""
    READER = r"""
options:
  user:
    description:
      - The account of the broker. As root the store is read as this account; without it as the one to which the
        first directory on the way to the store belongs that is not root's.
    type: str
"""
    UNCHANGING = r"""
attributes:
  check_mode:
    description: Does the same as without.
    support: full
  diff_mode:
    description: It changes nothing.
    support: none
"""
    NO_DIFF = r"""
attributes:
  diff_mode:
    description: It shows no differences.
    support: none
"""
