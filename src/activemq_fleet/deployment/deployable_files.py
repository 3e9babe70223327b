"""Compute the files that are deployed to each host, with their modes.

Each file of ``render`` is returned with and without its secrets, so that a deployment can show every change
without a secret.
"""

from __future__ import annotations

from activemq_fleet.node.config.configuration_archive import ConfigurationFile
from activemq_fleet.render import (
    SECRET_FILES,
    file_mode_of,
    render_agent,
    render_balancer,
    render_broker_masked_and_revealed,
)
from activemq_fleet.topology import Agent, Balancer, Broker

_PERMISSIONS_OF_OTHERS = 0o007


def files_to_deploy(component: Broker | Agent | Balancer) -> dict[str, ConfigurationFile]:
    """Return the configuration files to deploy for a broker, an agent or a load balancer, in a dictionary by path.

    Secrets are in clear text. Raises SettingsError for a secret that is not set or cannot be opened.
    """
    hidden: set[str] = set()
    if isinstance(component, Broker):
        masked, revealed = render_broker_masked_and_revealed(component)
        hidden = {extra.path for extra in component.settings.extra_files}
    elif isinstance(component, Agent):
        masked, revealed = render_agent(component), render_agent(component, reveal=True)
    else:
        masked, revealed = render_balancer(component), render_balancer(component, reveal=True)
    return {path: _deployable_file(path, content, masked[path], path in hidden) for path, content in revealed.items()}


def _deployable_file(path: str, content: bytes, masked: bytes, hidden: bool) -> ConfigurationFile:
    mode = file_mode_of(path)
    if content != masked:
        # The file contains a secret although it is not in SECRET_FILES.
        mode &= ~_PERMISSIONS_OF_OTHERS
    is_secret = content != masked or path in SECRET_FILES
    return ConfigurationFile(content, mode, masked.decode() if is_secret else None, hidden)
