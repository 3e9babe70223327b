# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""The documentation fragments of modules that work on a broker or its store."""

from __future__ import annotations


class ModuleDocFragment:
    """The documentation fragments of options and attributes that several modules about brokers share.

    Each constant is one fragment.
    """

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
      - The account of the broker. If the module runs as root, it reads the store as this account.
      - The default is the owner of the first directory, along the path of the store from C(/), to which an account
        other than root can write. Without such a directory, the default is root.
    type: str
"""
    UNCHANGING = r"""
attributes:
  check_mode:
    description: The module only reads, so it does the same in check mode.
    support: full
  diff_mode:
    description: The module changes nothing.
    support: none
"""
    NO_DIFF = r"""
attributes:
  diff_mode:
    description: The module shows no differences.
    support: none
"""
