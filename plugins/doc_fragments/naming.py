# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""The documentation fragment of plugins that parse host names."""

from __future__ import annotations


class ModuleDocFragment:
    """The documentation fragment of options for host names and their naming convention.

    The filter and both tests of host names take these options.
    """

    DOCUMENTATION = r"""
positional: pattern, master_node, parity
options:
  _input:
    description: A host name.
    type: str
    required: true
  pattern:
    description: The naming pattern, as in the variable C(activemq_naming_pattern). Without it the default.
    type: str
  master_node:
    description: The node mark of preferred masters. Without it V(a), or the first of O(parity).
    type: str
  parity:
    description: As the variable C(activemq_naming_parity), V(odd-even) or V(even-odd).
    type: str
    version_added: 0.2.0
"""
