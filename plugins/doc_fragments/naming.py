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
    description: The naming pattern. The default is the default of the variable C(activemq_naming_pattern).
    type: str
  master_node:
    description:
      - The node of a pair that is the preferred master, as the host names contain it. The default is V(a).
      - With O(parity), the host names contain no node. The value is then V(odd) or V(even), and the preferred master is
        the host of the pair with the odd or even number. The default is V(odd) for V(odd-even), and V(even) for
        V(even-odd).
    type: str
  parity:
    description: The value of the variable C(activemq_naming_parity), which is V(odd-even) or V(even-odd).
    type: str
    version_added: 0.2.0
"""
