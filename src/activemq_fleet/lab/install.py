"""Install the rendered files of a lab's broker by the code of ``activemq.fleet.configure``, into the same tree."""

from __future__ import annotations

from activemq_fleet.deployment import files_of
from activemq_fleet.errors import LabError
from activemq_fleet.lab.loopback_overlay import Software
from activemq_fleet.node.config.configuration_archive import File
from activemq_fleet.node.config.vendor_files import vendor_files
from activemq_fleet.node.errors import NodeError
from activemq_fleet.node.install import configuration_install
from activemq_fleet.render import service
from activemq_fleet.topology import Broker


def install(broker: Broker, software: Software) -> str:
    """Install a broker's rendered files unless they are current; return the name of the installed version.

    Raises LabError when the files cannot be written.
    """
    tree: dict[str, File] = vendor_files(software.home) if software.whole else {}
    for path, file in files_of(broker).items():
        tree[path] = File(file.content, file.mode, file.masked, file.hidden)
    base = service.paths(broker).base
    try:
        return configuration_install.install(base, tree, configuration_install.Owners()).version
    except NodeError as error:
        raise LabError(f"{broker.host}: its files cannot be installed: {error}") from None
    except OSError as error:
        where = error.filename or base
        raise LabError(f"{broker.host}: its files cannot be installed: {where}: {error.strerror or error}") from None
