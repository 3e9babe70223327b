"""Render the configuration files of brokers, agents and balancers as {path: bytes}.

The same input gives the same bytes; Ansible, the command line and Spark call the same functions.
"""

from __future__ import annotations

from collections.abc import Mapping

from activemq_fleet.errors import SettingsError
from activemq_fleet.node.host_paths import ACTIVEMQ_XML
from activemq_fleet.render import console, fence, jmx_access, jmx_exporter
from activemq_fleet.render.activemq_xml import render_activemq_xml_bytes
from activemq_fleet.render.agent import CONFIGURATION, PASSWORD, agent_files, java_client_files
from activemq_fleet.render.broker_paths import METRICS
from activemq_fleet.render.credentials import PATH as CREDENTIALS
from activemq_fleet.render.credentials import credentials_file_content
from activemq_fleet.render.fleet_json_file import fleet_json
from activemq_fleet.render.load_balancer import HAPROXY, balancer_files
from activemq_fleet.render.secrets import SecretRenderer
from activemq_fleet.render.systemd_units import unit_environment_and_log_configuration
from activemq_fleet.schema import XmlDocument
from activemq_fleet.topology import Agent, Balancer, Broker, Fleet

__all__ = [
    "SECRET_FILES",
    "activemq_xml_documents_of_rendered_files",
    "file_mode_of",
    "render_activemq_xml_document",
    "render_activemq_xml_documents_by_host",
    "render_agent",
    "render_balancer",
    "render_broker",
    "render_broker_masked_and_revealed",
    "render_fleet",
    "render_hosts",
    "render_java_client_files",
]

SECRET_FILES = frozenset(
    {
        CREDENTIALS,
        HAPROXY,
        PASSWORD,
        CONFIGURATION,
        fence.SECRETS,
        jmx_access.PASSWORDS,
        METRICS,
        *console.SECRET_FILES,
    }
)
"""Paths of files that contain secrets, or that belong to a file that does."""
_PUBLIC_PREFIXES = ("systemd/", "jndi.properties")


def render_activemq_xml_document(broker: Broker) -> XmlDocument:
    """Return a broker's activemq.xml as an XML document.

    Raises SettingsError for fragments or extra files that cannot be used.
    """
    if broker.settings.extra_files:
        return XmlDocument(render_broker(broker)[ACTIVEMQ_XML])
    return XmlDocument(render_activemq_xml_bytes(broker))


def render_activemq_xml_documents_by_host(fleet: Fleet) -> dict[str, XmlDocument]:
    """Render the activemq.xml of each broker of a fleet, and return the XML documents by host.

    Raises SettingsError for fragments that cannot be used.
    """
    return {broker.host: XmlDocument(render_activemq_xml_bytes(broker)) for broker in fleet.brokers}


def activemq_xml_documents_of_rendered_files(
    fleet: Fleet, files_by_host: Mapping[str, Mapping[str, bytes]]
) -> dict[str, XmlDocument]:
    """Return the activemq.xml of each broker as an XML document, by host, parsed from files that are already rendered.

    ``files_by_host`` has the content of each host's files by path.
    """
    return {broker.host: XmlDocument(files_by_host[broker.host][ACTIVEMQ_XML]) for broker in fleet.brokers}


def render_broker(broker: Broker, *, reveal: bool = False) -> dict[str, bytes]:
    """Return the rendered files of a broker's host, by relative path.

    They are bytes, and sorted. Secrets are ``@variable@`` unless ``reveal``. Raises SettingsError for fragments or
    extra files that cannot be used, or for a secret that is to be revealed and cannot be opened.
    """
    masked, revealed = _render_broker(broker, reveal=reveal)
    return revealed or masked


def render_broker_masked_and_revealed(broker: Broker) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """Return the rendered files of a broker as (masked, revealed): without and with the values of secrets."""
    return _render_broker(broker, reveal=True)


def _render_broker(broker: Broker, *, reveal: bool) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """Return the files of a broker with secrets hidden, and with their values; the second is empty unless ``reveal``.

    Files without secrets are rendered once.
    """
    plain = {ACTIVEMQ_XML: render_activemq_xml_bytes(broker), **unit_environment_and_log_configuration(broker)}
    hidden = SecretRenderer(broker.host)
    masked = _with_extra_files(broker, {**_files_with_secrets(broker, hidden), **plain})
    revealed: dict[str, bytes] = {}
    if reveal:
        shown = SecretRenderer(broker.host, reveal=True)
        # The fingerprint among the metrics is that of the files with secrets hidden.
        revealed = (
            masked
            | _files_with_secrets(broker, shown)
            | jmx_exporter.exporter_configuration_files(broker, shown, masked)
        )
    masked |= jmx_exporter.exporter_configuration_files(broker, hidden, masked)
    return dict(sorted(masked.items())), dict(sorted(revealed.items()))


def _files_with_secrets(broker: Broker, secrets: SecretRenderer) -> dict[str, bytes]:
    return {
        CREDENTIALS: credentials_file_content(broker, secrets),
        **console.console_files(broker, secrets),
        **fence.fence_command_files(broker, secrets),
        **jmx_access.jmx_files(broker, secrets),
    }


def _with_extra_files(broker: Broker, files: dict[str, bytes]) -> dict[str, bytes]:
    """Return the files with those of ``activemq_extra_files``. Raises SettingsError for a path that is taken."""
    reserved = (METRICS,) if broker.settings.metrics else ()
    for position, extra in enumerate(broker.settings.extra_files):
        for path in (*files, *reserved):
            if f"{path}/".startswith(f"{extra.path}/") or extra.path.startswith(f"{path}/"):
                fix = (
                    "change activemq.xml with activemq_broker_attributes or activemq_xml_fragments instead"
                    if extra.path == ACTIVEMQ_XML
                    else "set another path"
                )
                raise SettingsError.of_host(
                    broker.host,
                    f"activemq_extra_files[{position}].path is {extra.path!r}, but the broker already has the file "
                    f"{path!r}: {fix}",
                )
        files[extra.path] = extra.content.encode()
    return files


def render_agent(agent: Agent, *, reveal: bool = False) -> dict[str, bytes]:
    """Return the rendered files of the host of an agent, a program that sends events to brokers, by relative path.

    They are bytes, and sorted; secrets are hidden unless ``reveal``.
    """
    return dict(sorted(agent_files(agent, SecretRenderer(agent.host, reveal)).items()))


def render_balancer(balancer: Balancer, *, reveal: bool = False) -> dict[str, bytes]:
    """Return the rendered files of a load balancer's host, by relative path.

    They are bytes, and sorted; secrets are hidden unless ``reveal``.
    """
    return dict(sorted(balancer_files(balancer, SecretRenderer(balancer.host, reveal)).items()))


def render_java_client_files(fleet: Fleet) -> dict[str, bytes]:
    """Return the file ``clients/GROUP/jndi.properties`` for Java clients of each group of brokers, by path.

    It has the addresses of the group's brokers.
    """
    return {
        f"clients/{group.name}/{path}": content
        for group in fleet.groups
        for path, content in java_client_files(group).items()
    }


def render_hosts(fleet: Fleet) -> dict[str, dict[str, bytes]]:
    """Return the rendered files of every host, by host and relative path.

    A host that is broker and agent has the files of both. Secrets are rendered as ``@VARIABLE@``.
    """
    shared: dict[bytes, bytes] = {}  # More than half of the content of a host's files is the same on other hosts.

    def deduplicate(tree: dict[str, bytes]) -> dict[str, bytes]:
        return {path: shared.setdefault(content, content) for path, content in tree.items()}

    trees = {broker.host: deduplicate(render_broker(broker)) for broker in fleet.brokers}
    for agent in fleet.agents:
        trees[agent.host] = trees.get(agent.host, {}) | deduplicate(render_agent(agent))
    for balancer in fleet.balancers:
        trees[balancer.host] = trees.get(balancer.host, {}) | deduplicate(render_balancer(balancer))
    return trees


def render_fleet(fleet: Fleet, trees: Mapping[str, Mapping[str, bytes]] | None = None) -> dict[str, bytes]:
    """Return all rendered files of a fleet, those of its hosts included, as a dictionary of bytes by relative path.

    The dictionary is sorted and contains all files that ``activemq-fleet render`` writes, except the diagram. The paths
    begin with ``hosts/HOST/``, ``clients/GROUP/`` or ``prometheus/``; ``fleet.json`` lists brokers, files and the
    fleet's findings. Secrets are rendered as ``@VARIABLE@``. The same fleet results in the same bytes. ``trees`` are
    the hosts' files if ``render_hosts`` has already rendered them; without it this function renders them.

    Raises SettingsError, which names host and variable, for settings that cannot be rendered.

    >>> from activemq_fleet import build_fleet, render_fleet
    >>> variables = {"activemq_release": "5.18.3", "activemq_ha": "none"}
    >>> files = render_fleet(build_fleet({"orders-mq01-a": variables}))
    >>> [path for path in files if path.endswith((".xml", ".json"))]
    ['fleet.json', 'hosts/orders-mq01-a/conf/activemq.xml', 'hosts/orders-mq01-a/conf/jetty.xml']
    >>> files["hosts/orders-mq01-a/conf/activemq.xml"].partition(b"\\n")[0]
    b'<?xml version="1.0" encoding="UTF-8"?>'
    """
    trees = render_hosts(fleet) if trees is None else trees
    files = {f"hosts/{host}/{path}": content for host, tree in trees.items() for path, content in tree.items()}
    files |= render_java_client_files(fleet)
    files |= _render_monitoring(fleet, trees)
    return dict(sorted({**files, "fleet.json": fleet_json(fleet, files)}.items()))


def _render_monitoring(fleet: Fleet, trees: Mapping[str, Mapping[str, bytes]]) -> dict[str, bytes]:
    """Return the files of ``prometheus/``, empty where no broker has metrics; ``trees`` are the files of every host."""
    measured = [broker for broker in fleet.brokers if broker.settings.metrics]
    if not measured:
        return {}
    from activemq_fleet.render.monitoring import prometheus_and_grafana_files

    # The tree of a host that is also an agent or a balancer contains more than the broker's files.
    shared = {agent.host for agent in fleet.agents} | {balancer.host for balancer in fleet.balancers}
    return prometheus_and_grafana_files(
        fleet,
        {
            broker.host: jmx_exporter.broker_configuration_fingerprint(
                render_broker(broker) if broker.host in shared else trees[broker.host]
            )
            for broker in measured
        },
    )


def file_mode_of(path: str) -> int:
    """Return the file mode (permissions) that a rendered file gets on a host, given its relative path.

    It is 0644 for units and files that local clients read, else 0640. A password can come into any other file by a
    variable: an option of Java, a fragment, an attribute, a URL.
    """
    return 0o644 if path.startswith(_PUBLIC_PREFIXES) else 0o640
