# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Runs a function as an Ansible module: parameters in, the result or one line of failure out.

Ansible also runs modules on Python 3.8. So each module can be imported there, and reports that it requires a later
version. For this reason the type aliases in module_utils are those of ``typing``.
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
"""The first version with ``os.pidfd_open``, with which a signal cannot reach another process than the broker."""


def run_module(
    argument_spec: Mapping[str, Mapping[str, Any]],
    act: Callable[[dict[str, Any], bool], Mapping[str, Any]],
    failure: str = "{error}",
    **restrictions: Any,
) -> None:
    """Run an Ansible module: call its function ``act``, and exit with its result or fail with its error.

    ``act`` is called as ``act(parameters, check_mode)``. ``changed`` is False if the result does not contain it.

    For a NodeError, OSError or ParseError (of XML) the module fails with the text ``failure``, in which ``{error}`` and
    the names of parameters are replaced. ``restrictions`` are further arguments of AnsibleModule.
    """
    module = AnsibleModule(argument_spec=argument_spec, **{"supports_check_mode": True, **restrictions})
    if sys.version_info < OLDEST_PYTHON:
        required_version = ".".join(map(str, OLDEST_PYTHON))
        module.fail_json(
            msg=f"{sys.executable} on this host is Python {platform.python_version()}, but activemq.fleet requires "
            f"Python {required_version} or later. Install it, and set ansible_python_interpreter to its path"
        )
    try:
        result = act(module.params, module.check_mode)
    except (NodeError, OSError, ParseError) as error:
        module.fail_json(msg=failure.format(error=error, **module.params))
    module.exit_json(**{"changed": False, **result})
