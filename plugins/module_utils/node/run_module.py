# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Runs a function as an Ansible module: parameters in, the result or one line of failure out.

Ansible runs modules on Python 3.8, too, and so each can be imported there, to say that it needs a later one: aliases of
types in module_utils are those of ``typing``, for that reason alone.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Mapping
from typing import Any
from xml.etree.ElementTree import ParseError

from ansible.module_utils.basic import AnsibleModule

from .errors import NodeError

OLDEST_PYTHON = (3, 9)
"""With it came ``os.pidfd_open``, by which a broker and nothing else is sent a signal."""


def run_module(
    argument_spec: Mapping[str, Mapping[str, Any]],
    act: Callable[[dict[str, Any], bool], Mapping[str, Any]],
    failure: str = "{error}",
    **restrictions: Any,
) -> None:
    """Run an Ansible module: call ``act(parameters, check_mode)`` and exit with its result, or fail with its error.

    ``changed`` is False unless the result says otherwise.

    For an NodeError, OSError or ParseError (of XML) the module fails with ``failure``, in which ``{error}`` and the
    names of parameters are filled in. ``restrictions`` are further arguments of AnsibleModule.
    """
    module = AnsibleModule(argument_spec=argument_spec, **{"supports_check_mode": True, **restrictions})
    if sys.version_info < OLDEST_PYTHON:
        needed = ".".join(map(str, OLDEST_PYTHON))
        module.fail_json(
            msg=f"{sys.executable} is Python {platform.python_version()}, but activemq.fleet requires "
            f"{needed} or later "
            "on its hosts: install one there, and set ansible_python_interpreter to its path"
        )
    try:
        result = act(module.params, module.check_mode)
    except (NodeError, OSError, ParseError) as error:
        module.fail_json(msg=failure.format(error=error, **module.params))
    module.exit_json(**{"changed": False, **result})
