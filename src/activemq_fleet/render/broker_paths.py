"""Define the paths of a broker's files and directories on its host."""

from __future__ import annotations

from dataclasses import dataclass

from activemq_fleet.render.debian_package import PACKAGE_HOME
from activemq_fleet.topology import Broker

METRICS = "conf/metrics.yml"
"""The path, in a broker's tree, of the configuration of the metrics exporter."""
FENCE_COMMAND = "conf/fence-command.json"
"""The path, in a broker's tree, of the call that its guard makes for ``activemq_fence: command``."""


@dataclass(frozen=True, slots=True)
class BrokerPaths:
    """The absolute paths of a broker's directories on its host.

    ``home`` is the directory of the release and not the link to it: after a rollback, the earlier configuration
    starts with its own jars, and installing a new release changes no file of a running broker.
    ``base`` is the instance; ``current`` links to the version of the configuration that is in
    force, ``conf`` lies below it; ``data`` holds logs.
    """

    home: str
    base: str
    current: str
    conf: str
    data: str


def paths_of_broker(broker: Broker) -> BrokerPaths:
    """Return the absolute paths of a broker's directories on its host.

    Two brokers on one machine share only ``home``.
    """
    settings = broker.settings
    base = f"{settings.base.rstrip('/')}/{settings.instance}"
    current = f"{base}/current"
    home = settings.home
    if settings.install in ("archive", "jars"):
        home = f"{home}-{broker.release.text}"
    elif settings.install == "package" and "home" not in settings.model_fields_set:
        home = PACKAGE_HOME
    return BrokerPaths(home, base, current, f"{current}/conf", f"{base}/data")


def guard_state_directory(broker: Broker) -> str:
    """Return the directory in which a broker's guard, the process that fences its store, keeps its state.

    It is on the host's own disk. It also contains the symbolic link to the store that activemq.xml names.
    """
    return f"{paths_of_broker(broker).data}/fence"


def kahadb_directory_in_xml(broker: Broker) -> str:
    """Return the path of a broker's KahaDB store in activemq.xml.

    It is the store itself, or with a guard the symbolic link that the guard sets.
    """
    return f"{guard_state_directory(broker)}/store" if broker.has_guard else broker.store_directory
