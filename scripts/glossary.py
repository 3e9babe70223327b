"""Write docs/glossary.md: the project's terms, their meanings and the files that define them.

With --check, return 1 if the page is out of date. A term without an existing definition is an error.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from scripts.generated_page import DOCS, write_or_check

ROOT = DOCS.parent
PAGE = DOCS / "glossary.md"


class Term(NamedTuple):
    """A term, with its name, its meaning, and ``module:name`` of its definition in the code."""

    name: str
    meaning: str
    defined: str


_LIBRARY = "activemq_fleet."
_AGENT = "activemq_agent."
CHAPTERS: dict[str, tuple[Term, ...]] = {
    "A fleet": (
        Term("fleet", "all brokers, agents and load balancers of an inventory", "topology:Fleet"),
        Term("group", "the pairs with the same group name; their brokers form one network", "topology:Group"),
        Term("pair", "two brokers, one of which takes over when the other one fails", "topology:Pair"),
        Term("broker", "one ActiveMQ Classic process with its own host name", "topology:Broker"),
        Term("node", "one of the two brokers of a pair: a or b, by host name", "naming:Identity"),
        Term("peer", "the other node of a pair", "topology:Pair"),
        Term(
            "preferred master", "the node that the host names select as the master; it never changes", "naming:Naming"
        ),
        Term(
            "profile",
            "the method of takeover between the nodes of a pair: a value of `activemq_ha`",
            "profiles.profile:HighAvailabilityProfile",
        ),
        Term("release", "a version of ActiveMQ Classic, with its differences to other versions", "releases:Release"),
        Term(
            "protocol", "the protocol of client connections: openwire, stomp, mqtt, amqp, ws", "node.protocols:Protocol"
        ),
        Term("link", "a configured connection between groups or pairs: an entry of `activemq_links`", "topology:Link"),
        Term("virtual address", "an IP address that a load balancer holds for a group", "topology:VirtualIpAddress"),
        Term("default credentials", "a password that a release ships; it is refused", "settings.default_credentials:*"),
        Term(
            "encrypted value",
            "a variable that is encrypted with Ansible Vault and was not decrypted",
            "settings.encrypted:UndecryptedVaultValue",
        ),
    ),
    "Checks": (
        Term("finding", "a problem that a rule reports", "findings:Finding"),
        Term("rule", "a check for one kind of configuration error, with its reason and its remedy", "lint:Rule"),
        Term(
            "waiver",
            "the acceptance of a finding, with a reason: an entry of `activemq_waivers`",
            "settings.host_settings:WaiverSettings",
        ),
        Term("bridge", "a running connection over which one broker forwards messages to another", "routes.bridges:*"),
        Term("route", "the path of a message across bridges", "routes:Routes"),
        Term("drift", "the difference between the planned files of a host and the files on it", "drift.host_drift:*"),
    ),
    "A running broker": (
        Term("evidence", "observations of a broker: responses, ports, log lines, locks", "node.judge:Evidence"),
        Term(
            "state",
            "active, unhealthy, standby, starting, stopped or hung, determined from evidence",
            "node.judge:BrokerState",
        ),
        Term("active", "the state of the node that serves clients", "node.judge:conclude_state"),
        Term(
            "unhealthy",
            "the state of a node that accepts clients, but completes no round trip of a message",
            "node.judge:conclude_state",
        ),
        Term(
            "standby",
            "the state of a node that waits for its peer's lock or replicates from its peer",
            "node.judge:conclude_state",
        ),
        Term("hung", "the state of a node that holds its lock and does not respond", "node.judge:conclude_state"),
        Term("backlog", "messages that wait in a store", "node.state.backlog:*"),
        Term("store journal", "the files `db-N.log` of a kahaDB store", "node.kahadb.journal:*"),
        Term("store marker", "the file that assigns a store to its pair", "node.kahadb.store_marker:*"),
        Term("guard", "the process that starts a broker and fences its shared store", "node.fence.guard:Guard"),
        Term(
            "fence",
            "the protection of a shared store against a node that was replaced: a value of `activemq_fence`",
            "node.fence.decision:StoreCopyingGuardState",
        ),
        Term(
            "claim",
            "the record in a shared store that names the node that took over as its only writer",
            "node.fence.decision:StoreClaim",
        ),
        Term(
            "generation",
            "the set of store files that one takeover of a fenced store created",
            "node.fence.generation:GenerationCopyResult",
        ),
        Term(
            "uncopied message",
            "a message that only an old generation of a fenced store holds; `store behind` lists it",
            "node.fence.old_generations:UncopiedMessage",
        ),
        Term(
            "pending restart",
            "files that changed while their broker was running",
            "node.config.pending_restart:PendingRestartRecord",
        ),
    ),
    "Operations and drills": (
        Term(
            "step",
            "the next action of an operation, determined again from evidence each time",
            "operations.restart_and_switchover:*",
        ),
        Term("fault", "a failure that a drill causes: a kill, a stop or a freeze of a broker", "drills.model:Fault"),
        Term("load generator", "a publisher and a subscriber under steady load", "lab.load_process:LoadGenerator"),
        Term("drill", "a test with repeated faults under load that accounts for every event", "lab.drill_run:DrillRun"),
    ),
    "Events": (
        Term("event", "a message of an agent, with a unique id", "audit.event_records:EventWithJournalRecords"),
        Term("event journal", "an agent's record of accepted, published and handled events", "audit.journals:*"),
        Term(
            "epoch",
            "the lifetime of one store of an agent, part of event ids: AGENT:EPOCH:SEQ",
            "audit.journals:JournalEpoch",
        ),
        Term("jseq", "the number of a record in the event journal of one epoch", "audit.journals:EventJournalLine"),
        Term(
            "barrier",
            "a message that an agent sends after earlier events, to prove that they arrived",
            "agent_topics:barrier_topic",
        ),
        Term("outbox", "the events of an agent that no broker has acknowledged", f"{_AGENT}store.outbox:*"),
        Term(
            "transaction",
            "the writes to an agent's store that one commit makes durable",
            f"{_AGENT}store.transaction:Transaction",
        ),
        Term(
            "canary",
            "a message that an agent sends to itself to prove that its connection works",
            f"{_AGENT}agent_connection:AgentMqttConnection",
        ),
        Term(
            "delivery",
            "an event together with one subscriber that is expected to receive it",
            "audit.deliveries:Delivery",
        ),
        Term(
            "verdict",
            "the result of an audit for one event: delivered, duplicate, stuck, lost or indeterminate",
            "audit.verdict_words:Verdict",
        ),
    ),
    "Audits": (
        Term("log record", "one entry of a broker's log, with its stack trace", "node.log.log_records:*"),
        Term("chunk", "a part of a log that is read in one operation", "logs.chunks:*"),
        Term("broker run", "the lifetime of a broker process in its log, from start to stop", "audit.broker_runs:*"),
        Term(
            "incident", "a takeover, a split brain or a failed start, determined from logs", "audit.evidence:Incident"
        ),
        Term(
            "component",
            "hosts whose files depend on each other; they are planned together",
            "planning.components:FleetDivision",
        ),
        Term(
            "fingerprint",
            "a hash of all inputs of a result; a result with an equal hash is not computed again",
            "planning.compute:component_fingerprint",
        ),
    ),
}
_HEAD = """\
<!-- Made by `make rules` from scripts/glossary.py. -->
# Glossary

These terms have the same meaning in code, documentation and messages.
"""


def main(arguments: list[str]) -> int:
    """Write the page, or with --check return 1 if it is out of date."""
    try:
        page = "".join(_page())
    except (ImportError, AttributeError) as error:
        print(
            f"scripts/glossary.py: error: the definition of a term does not exist: {error}. "
            "Correct the module and the name of the definition",
            file=sys.stderr,
        )
        return 1
    return write_or_check(PAGE, page, "scripts/glossary.py", arguments)


def _page() -> Iterator[str]:
    yield _HEAD
    for chapter, terms in CHAPTERS.items():
        yield f"\n## {chapter}\n\n| term | meaning | defined in |\n|---|---|---|\n"
        for term in terms:
            yield f"| {term.name} | {term.meaning} | {_link(term.defined)} |\n"


def _link(defined: str) -> str:
    """Return a link to the file that defines ``module:name``; the name ``*`` means the module."""
    module_name, _, name = defined.partition(":")
    module = importlib.import_module(module_name if module_name.startswith(_AGENT) else _LIBRARY + module_name)
    shown, source = module_name.rpartition(".")[2], module.__file__
    if name != "*":
        shown, source = name, _source_of(getattr(module, name), module.__file__)
    return f"[`{shown}`](../{Path(source or '').resolve().relative_to(ROOT)})"


def _source_of(definition: Any, otherwise: str | None) -> str | None:
    """Return the file of a class or function, which can be defined in a different module, or the file ``otherwise``."""
    is_class_or_function = inspect.isclass(definition) or inspect.isfunction(definition)
    return inspect.getsourcefile(definition) if is_class_or_function else otherwise


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
