# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""The base class of actions that run once on the controller, for all hosts of a play."""

from __future__ import annotations

from ansible.plugins.action import ActionBase


class FleetAction(ActionBase):
    """The base class of an action that runs once, for all hosts of a play; in check mode, too."""

    BYPASS_HOST_LOOP = True
    _requires_connection = False
    _supports_check_mode = True
    _supports_async = False
