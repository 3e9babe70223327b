"""Render haproxy.cfg and keepalived.conf of a balancer, and the drop-ins of the distribution's units."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from activemq_fleet.addresses import join_host_port
from activemq_fleet.render.engine import render_template
from activemq_fleet.render.haproxy_health_checks import HealthCheckStep, health_check_steps
from activemq_fleet.render.secrets import SecretRenderer
from activemq_fleet.render.systemd_memory import KEEPALIVED_MEMORY, haproxy_systemd_memory_max
from activemq_fleet.topology import Backend, Balancer, VirtualAddressPort, VirtualIpAddress
from activemq_fleet.topology.balancers import haproxy_name

HAPROXY, KEEPALIVED = "haproxy.cfg", "keepalived.conf"
ENVIRONMENT = "systemd/environment"
DROP_INS = {"haproxy": "systemd/haproxy.conf", "keepalived": "systemd/keepalived.conf"}
"""The path of the drop-in file in the rendered tree, by systemd unit."""

_DEFAULT_CONNECTION_LIMIT = 10_000
"""The limit of clients for a connector without ``maximumConnections``."""
_SPARE_CONNECTIONS = 100


class _Front(NamedTuple):
    """One frontend of haproxy.cfg and its backends."""

    name: str
    bind: str
    connections: int
    by_client: bool
    steps: tuple[HealthCheckStep, ...]
    backends: tuple[Backend, ...]
    tls: bool
    ca: str | None
    certificate: str | None


def balancer_files(balancer: Balancer, secrets: SecretRenderer) -> dict[str, bytes]:
    """Return the rendered files of a load balancer's host, by path.

    Only haproxy.cfg has the password of the health checks.
    """
    config = balancer.settings.vip_config
    files = {
        HAPROXY: _haproxy_config(balancer, secrets, haproxy_configuration_id(balancer)),
        KEEPALIVED: _keepalived_config(balancer),
        ENVIRONMENT: render_template(
            "loadbalancer/environment.j2", haproxy=f"{config}/{HAPROXY}", keepalived=f"{config}/{KEEPALIVED}"
        ),
    }
    memory = {"haproxy": haproxy_systemd_memory_max(_total_connection_count(balancer)), "keepalived": KEEPALIVED_MEMORY}
    return files | {path: _systemd_drop_in(unit, config, memory[unit]) for unit, path in DROP_INS.items()}


def _systemd_drop_in(service: str, config: str, memory: str) -> bytes:
    return render_template(
        "loadbalancer/dropin.conf.j2",
        service=service,
        # Debian's unit does not start without the file in its default place.
        condition=f"{config}/{KEEPALIVED}" if service == "keepalived" else None,
        environment=f"{config}/{ENVIRONMENT}",
        memory=memory,
    )


def _total_connection_count(balancer: Balancer) -> int:
    return _SPARE_CONNECTIONS + sum(
        _largest_connection_count(address, front) for address in balancer.addresses for front in address.fronts
    )


def haproxy_configuration_id(balancer: Balancer) -> str:
    """Return the id of a balancer's haproxy.cfg, 12 hexadecimal digits, which HAProxy returns on its check port.

    It does not depend on the password of the health checks, because every user of the host can read it.
    """
    return hashlib.sha256(_haproxy_config(balancer, SecretRenderer(balancer.host), "")).hexdigest()[:12]


def _haproxy_config(balancer: Balancer, secrets: SecretRenderer, configuration_id: str) -> bytes:
    return render_template(
        "loadbalancer/haproxy.cfg.j2",
        host=balancer.host,
        connections=_total_connection_count(balancer),
        check_port=balancer.settings.vip_check_port,
        configuration_id=configuration_id,
        groups=[
            (address, [_frontend(balancer, address, front, secrets) for front in address.fronts])
            for address in balancer.addresses
        ],
    )


def _frontend(
    balancer: Balancer, address: VirtualIpAddress, front: VirtualAddressPort, secrets: SecretRenderer
) -> _Front:
    return _Front(
        name=haproxy_name(f"{address.group}.{front.connector}"),
        bind=join_host_port(address.address, front.port),
        connections=_largest_connection_count(address, front),
        # The client id is not visible in a TLS connection.
        by_client=len(front.backends) > 1 and front.protocol == "mqtt" and not front.tls,
        steps=health_check_steps(balancer, front, secrets),
        backends=front.backends,
        tls=front.tls,
        ca=balancer.settings.vip_broker_ca if front.tls else None,
        certificate=balancer.settings.vip_certificate if front.tls else None,
    )


def _largest_connection_count(address: VirtualIpAddress, front: VirtualAddressPort) -> int:
    """Return the most clients of a port: the sum over brokers that can be active at once, one of each shared store."""
    combine = sum if address.masters_only else max
    return sum(
        combine([server.limit or _DEFAULT_CONNECTION_LIMIT for server in backend.servers]) for backend in front.backends
    )


def _keepalived_config(balancer: Balancer) -> bytes:
    return render_template(
        "loadbalancer/keepalived.conf.j2",
        host=balancer.host,
        check_port=balancer.settings.vip_check_port,
        addresses=[(address, haproxy_name(address.group)) for address in balancer.addresses],
    )
