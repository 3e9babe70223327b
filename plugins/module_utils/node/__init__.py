# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""What runs on managed hosts: the code of Ansible's modules, of the guard and of the watchdog.

It needs Python 3.9 and its standard library only. The library has it as ``activemq_fleet.node``, through its one link
into the collection.
"""

from __future__ import annotations
