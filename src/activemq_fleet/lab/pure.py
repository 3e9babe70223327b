"""Refuse to start a pure pair whose stores may differ: they are equal only while both nodes run."""

from __future__ import annotations

from activemq_fleet.errors import LabError
from activemq_fleet.lab.hosts import Hosts
from activemq_fleet.topology import Broker, Pair


def check_pair(hosts: Hosts, pair: Pair) -> None:
    """Raise LabError for a pure pair of which one node runs alone or took over: its stores may differ."""
    if not pair.in_order[0].profile.replicates:
        return
    alive = [broker for broker in pair.in_order if hosts.is_alive(broker)]
    if len(alive) == len(pair.brokers):
        return
    stories = [hosts.broker_run(broker) for broker in pair.in_order]
    if alive or any(story.promoted or story.lost_slave for story in stories):
        raise LabError(
            f"pair {pair.name} has had a failover, and its nodes' stores differ: "
            "resync them, or begin with empty stores (lab down, lab up --fresh)"
        )


def check_start(hosts: Hosts, broker: Broker) -> None:
    """Raise LabError if a pure master starts beside its running slave, or a slave without its master."""
    if not broker.profile.replicates or broker.peer is None:
        return
    peer = hosts.fleet.broker(broker.peer)
    alive = hosts.is_alive(peer)
    if broker.role == "master" and alive:
        raise LabError(f"{broker.host}: its slave {peer.host} runs: stop it first, a master goes before its slave")
    if broker.role == "slave" and not (alive and hosts.listens(peer, peer.ports["replication"])):
        raise LabError(
            f"{broker.host}: its master {peer.host} does not listen: start that first, "
            "a slave without its master becomes a second one"
        )
