"""Render haproxy.cfg and keepalived.conf of a balancer, and the drop-ins of the distribution's units."""

from __future__ import annotations

from typing import NamedTuple

from activemq_fleet.addresses import join
from activemq_fleet.render import shapes
from activemq_fleet.render.checks import Step, steps_of
from activemq_fleet.render.memory import haproxy_memory, keepalived_memory
from activemq_fleet.render.placeholders import Placeholder
from activemq_fleet.render.secrets import Secrets
from activemq_fleet.render.shapes import Shape, Values
from activemq_fleet.topology.balancers import haproxy_name
from activemq_fleet.topology.model import Backend, Balancer, Server, VirtualAddress, VirtualPort

HAPROXY, KEEPALIVED = "haproxy.cfg", "keepalived.conf"
ENVIRONMENT = "systemd/environment"
DROP_INS = {"haproxy": "systemd/haproxy.conf", "keepalived": "systemd/keepalived.conf"}
"""Systemd unit -> the path of its drop-in file in the tree."""

_ANY_NUMBER = 10_000
"""The limit of clients for a connector without ``maximumConnections``."""
_SPARE = 100


class _Step(NamedTuple):
    what: str
    value: Placeholder


class _Server(NamedTuple):
    name: Placeholder
    address: Placeholder
    tls: bool
    ca: Placeholder | None
    name_in_certificate: Placeholder
    certificate: Placeholder | None
    connections: Placeholder | None


class _Backend(NamedTuple):
    name: Placeholder
    steps: tuple[_Step, ...]
    servers: tuple[_Server, ...]


class _Choice(NamedTuple):
    name: Placeholder
    number: Placeholder


class _Front(NamedTuple):
    name: Placeholder
    bind: Placeholder
    connections: Placeholder
    several: bool
    by_client: bool
    modulus: Placeholder
    choices: tuple[_Choice, ...]
    fallback: Placeholder
    backends: tuple[_Backend, ...]


class _Group(NamedTuple):
    name: Placeholder
    masters_only: bool
    fronts: tuple[_Front, ...]


class _Address(NamedTuple):
    group: Placeholder
    instance: Placeholder
    interface: Placeholder
    router_id: Placeholder
    priority: Placeholder
    source: Placeholder | None
    unicast: bool
    peers: tuple[Placeholder, ...]
    address: Placeholder


def balancer_files(balancer: Balancer, secrets: Secrets) -> dict[str, bytes]:
    """Return the files of a balancer's host by path; the login of its health checks is in haproxy.cfg only."""
    config = balancer.settings.vip_config
    values = Values()
    files = {
        HAPROXY: _haproxy(balancer, secrets),
        KEEPALIVED: _keepalived(balancer),
        ENVIRONMENT: shapes.render(
            "loadbalancer/environment.j2",
            values,
            haproxy=values(f"{config}/{HAPROXY}"),
            keepalived=values(f"{config}/{KEEPALIVED}"),
        ),
    }
    memory = {"haproxy": haproxy_memory(_all_connections(balancer)), "keepalived": keepalived_memory()}
    return files | {path: _drop_in(unit, config, memory[unit]) for unit, path in DROP_INS.items()}


def _drop_in(unit: str, config: str, memory: str) -> bytes:
    v = Values()
    return shapes.render(
        "loadbalancer/dropin.conf.j2",
        v,
        service=v(unit),
        # Debian's unit does not start without the file in its usual place.
        condition=v(f"{config}/{KEEPALIVED}") if unit == "keepalived" else None,
        environment=v(f"{config}/{ENVIRONMENT}"),
        memory=v(memory),
    )


def _all_connections(balancer: Balancer) -> int:
    return _SPARE + sum(_connections(one, front) for one in balancer.addresses for front in one.fronts)


def _haproxy(balancer: Balancer, secrets: Secrets) -> bytes:
    v = Values()
    return shapes.render(
        "loadbalancer/haproxy.cfg.j2",
        v,
        host=v(balancer.host),
        connections=v(str(_all_connections(balancer))),
        check_port=v(str(balancer.settings.vip_check_port)),
        groups=tuple([_group(balancer, one, secrets, v) for one in balancer.addresses]),
    )


def _group(balancer: Balancer, one: VirtualAddress, secrets: Secrets, v: Values) -> _Group:
    fronts = tuple([_front(balancer, one, front, secrets, v) for front in one.fronts])
    return _Group(v(one.group), one.masters_only, fronts)


def _front(balancer: Balancer, one: VirtualAddress, front: VirtualPort, secrets: Secrets, v: Values) -> _Front:
    several = len(front.backends) > 1
    steps = steps_of(balancer, front, secrets)
    return _Front(
        name=v(haproxy_name(f"{one.group}.{front.connector}")),
        bind=v(join(one.address, front.port)),
        connections=v(str(_connections(one, front))),
        several=several,
        # The id is not to be seen through TLS.
        by_client=several and front.protocol == "mqtt" and not front.tls,
        modulus=v(str(len(front.backends))),
        choices=tuple([_Choice(v(b.name), v(str(n))) for n, b in enumerate(front.backends)][1:]),
        fallback=v(front.backends[0].name),
        backends=tuple([_backend(balancer, front, backend, steps, v) for backend in front.backends]),
    )


def _connections(one: VirtualAddress, front: VirtualPort) -> int:
    """Return the most clients of a port: the sum over brokers that can be active at once, one of each shared store."""
    together = sum if one.masters_only else max
    return sum(together([server.limit or _ANY_NUMBER for server in backend.servers]) for backend in front.backends)


def _backend(balancer: Balancer, front: VirtualPort, backend: Backend, steps: tuple[Step, ...], v: Values) -> _Backend:
    ca = balancer.settings.vip_broker_ca if front.tls else None
    certificate = balancer.settings.vip_certificate if front.tls else None

    def server_of(server: Server) -> _Server:
        return _Server(
            name=v(server.name),
            address=v(join(*server.address)),
            tls=front.tls,
            ca=v(ca) if ca else None,
            name_in_certificate=v(server.name_in_certificate),
            certificate=v(certificate) if certificate else None,
            connections=v(str(server.limit)) if server.limit else None,
        )

    return _Backend(
        v(backend.name),
        tuple([_Step(step.what, v(step.value)) for step in steps]),
        tuple([server_of(server) for server in backend.servers]),
    )


def _keepalived(balancer: Balancer) -> bytes:
    v = Values()
    addresses: tuple[Shape, ...] = tuple([_virtual(one, v) for one in balancer.addresses])
    return shapes.render(
        "loadbalancer/keepalived.conf.j2",
        v,
        host=v(balancer.host),
        check_port=v(str(balancer.settings.vip_check_port)),
        addresses=addresses,
    )


def _virtual(one: VirtualAddress, v: Values) -> _Address:
    return _Address(
        group=v(one.group),
        instance=v(haproxy_name(one.group)),
        interface=v(one.interface or ""),
        router_id=v(str(one.router_id)),
        priority=v(str(one.priority)),
        source=v(one.source) if one.source else None,
        unicast=bool(one.peers),
        peers=tuple([v(peer) for peer in one.peers]),
        address=v(one.address),
    )
