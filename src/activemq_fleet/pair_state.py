"""Judge the nodes of a pair from evidence: which of them serve clients, and which can write to the shared store.

The status of a fleet, operations and drills use these judgements, so that they cannot contradict each other. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from activemq_fleet.node.fence.store_writers import (
    WritableAndNewestGenerationNumbers,
    newest_generation_number,
    two_masters_message,
)
from activemq_fleet.node.judge import SERVING
from activemq_fleet.profiles import PROFILES


class JudgedNode(Protocol):
    """A node of a pair, or a single broker, with the observed facts from which the state of its pair is concluded.

    ``store`` is the directory of its shared store, ``store_marker`` has the lines of the marker in this directory; both
    are None if unknown. ``generation`` is the generation (numbered copy) of a fenced store that its broker uses,
    ``generation_in_force`` the newest one that its host can see.
    """

    @property
    def host(self) -> str: ...
    @property
    def pair(self) -> str: ...
    @property
    def ha(self) -> str: ...
    @property
    def state(self) -> str: ...
    @property
    def guard(self) -> int | None: ...
    @property
    def store(self) -> str | None: ...
    @property
    def store_marker(self) -> tuple[str, ...] | None: ...
    @property
    def generation(self) -> int | None: ...
    @property
    def generation_in_force(self) -> int | None: ...


_Node = TypeVar("_Node", bound=JudgedNode)


@dataclass(frozen=True, slots=True)
class PairState(Generic[_Node]):
    """The state of a pair, or of a single broker, concluded from the evidence of its nodes."""

    nodes: Sequence[_Node]

    @property
    def serving(self) -> list[_Node]:
        """The nodes of the pair that serve clients.

        An unhealthy node counts, because it holds the store, and a restart can repair it. Only drills require an active
        node.
        """
        return [node for node in self.nodes if node.state in SERVING]

    @property
    def is_guarded(self) -> bool:
        """Whether a guard (a process that fences the shared store) runs on a node of the pair.

        In this case only the newest generation (numbered copy) of the store matters.
        """
        return any(node.guard for node in self.nodes)

    @property
    def uses_different_stores(self) -> bool:
        """Whether the nodes of the pair use different stores: their directories or the marker files in them differ.

        The generations of different stores cannot be compared. An unknown directory or marker is not compared.
        """
        directories = {node.store for node in self.nodes if node.store is not None}
        markers = {node.store_marker for node in self.nodes if node.store_marker is not None}
        return len(directories) > 1 or len(markers) > 1

    def newest_generation_of(self, node: _Node) -> int | None:
        """Return the number of the newest generation (numbered copy) of a node's store; None if it is unknown."""
        return newest_generation_number(_accesses([node] if self.uses_different_stores else self.nodes))

    @property
    def two_masters(self) -> str:
        """A sentence that states that both nodes of the pair can write to their fenced store; empty if at most one can.

        It is empty if they use different stores, because each then writes to its own.

        A node counts whatever its state is: a frozen broker that resumes also writes.
        """
        return two_masters_message(_accesses(self.nodes)) if self.is_guarded and not self.uses_different_stores else ""

    @property
    def nodes_with_outdated_generation(self) -> list[_Node]:
        """The nodes whose broker uses an old generation (numbered copy) of the store, which a takeover has replaced."""
        return [node for node in self.nodes if self._is_outdated(node)]

    def _is_outdated(self, node: _Node) -> bool:
        newest = self.newest_generation_of(node)
        return None not in (node.generation, newest) and node.generation != newest

    @property
    def unknown_writer_reason(self) -> str:
        """The reason why it is unknown which serving node writes to the fenced store, as a clause; empty if known.

        Two serving nodes without a guard both write, and so do two that use different stores.
        """
        if not self.is_guarded or len(self.serving) < 2 or self.uses_different_stores:
            return ""
        if self.newest_generation_of(self.nodes[0]) is None:
            return "the newest generation (numbered copy) of the store cannot be read"
        hosts = " and ".join(node.host for node in self.serving if node.generation is None)
        return (
            f"the generation (numbered copy) of the store that the broker of {hosts} uses is not known" if hosts else ""
        )


def _accesses(nodes: Iterable[JudgedNode]) -> dict[str, WritableAndNewestGenerationNumbers]:
    return {node.host: WritableAndNewestGenerationNumbers(node.generation, node.generation_in_force) for node in nodes}


def pair_or_host(node: JudgedNode) -> str:
    """Return the name of the pair to which a node belongs, or the name of the node's host if it has no peer.

    Two brokers without a common store cannot replace each other, even if their names form a pair.
    """
    return node.pair if PROFILES[node.ha].has_peer else node.host


def nodes_by_pair(nodes: Iterable[_Node]) -> dict[str, list[_Node]]:
    """Return a dictionary from the name of each pair, or of the host of a node without a peer, to its nodes."""
    pairs: dict[str, list[_Node]] = {}
    for node in nodes:
        pairs.setdefault(pair_or_host(node), []).append(node)
    return pairs


def is_not_installed(state: str, version: str | None) -> bool:
    """Return whether the playbook ``site`` has not installed a broker yet: it has no process and no configuration."""
    return state == "stopped" and version is None
