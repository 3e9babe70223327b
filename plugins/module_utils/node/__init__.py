# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Code that runs on managed hosts: that of Ansible's modules, of the guard and of the watchdog.

It requires only Python 3.9 and its standard library. The library contains it as ``activemq_fleet.node``, a link into
the collection.
"""

from __future__ import annotations
