# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""The documentation fragment of modules that read the state of a broker on its own host."""

from __future__ import annotations


class ModuleDocFragment:
    """Documents the attributes of a module that changes nothing."""

    DOCUMENTATION = r"""
options:
  base:
    description: The directory of the broker, C(activemq_base/activemq_instance).
    type: path
    required: true
attributes:
  check_mode:
    description: Does the same as without.
    support: full
  diff_mode:
    description: It changes nothing.
    support: none
"""
