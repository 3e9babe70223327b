"""Writes docs/glossary.md: the project's words, what each means and where it is defined.

With --check it returns 1 when the page is not the one that would be written. A word whose definition has moved or is
gone stops either.
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


class Word(NamedTuple):
    """A word, its meaning in a sentence, and ``module:name`` of what defines it in the code."""

    word: str
    meaning: str
    defined: str


_LIBRARY = "activemq_fleet."
_AGENT = "activemq_agent."
CHAPTERS: dict[str, tuple[Word, ...]] = {
    "A fleet": (
        Word("fleet", "all brokers, agents and load balancers of an inventory", "topology:Fleet"),
        Word("group", "the pairs that share a name; they form one network of brokers", "topology:Group"),
        Word("pair", "two brokers of which one takes over when the other dies", "topology:Pair"),
        Word("broker", "one ActiveMQ Classic process with its own host name", "topology:Broker"),
        Word("node", "one of the two brokers of a pair: a or b, by host name", "naming:Identity"),
        Word("peer", "the other node of a pair", "topology:Pair"),
        Word("preferred master", "the node that the host names choose; it never changes", "naming:Naming"),
        Word("profile", "how one node takes over from the other: a value of `activemq_ha`", "profiles.profile:Profile"),
        Word("release", "a version of ActiveMQ Classic and what differs in it from others", "releases:Release"),
        Word("protocol", "what clients speak: openwire, stomp, mqtt, amqp, ws", "node.protocols:Protocol"),
        Word("link", "what `activemq_links` asks for between groups or pairs", "topology:Link"),
        Word("virtual address", "an IP address that a load balancer holds for a group", "topology:VirtualAddress"),
        Word("default credentials", "a password that a release ships; refused", "settings.default_credentials:*"),
        Word("encrypted value", "a vaulted variable that nobody opened", "settings.encrypted:EncryptedValue"),
    ),
    "Checks": (
        Word("finding", "what a rule reports", "findings:Finding"),
        Word("rule", "a mistake that `check` looks for, with its reason and its remedy", "lint:Rule"),
        Word("bridge", "a running connection over which one broker forwards messages to another", "routes.bridges:*"),
        Word("route", "the path of a message over bridges", "routes:Routes"),
        Word("drift", "the difference between the files planned for a host and those on it", "drift.host_drift:*"),
    ),
    "A running broker": (
        Word("evidence", "what was observed: answers, ports, log lines, locks", "node.judge:Evidence"),
        Word(
            "state",
            "active, unhealthy, standby, starting, stopped or hung: concluded from evidence",
            "node.judge:BrokerState",
        ),
        Word("active", "the state of the node that serves clients", "node.judge:judge"),
        Word(
            "unhealthy",
            "the state of a node that accepts clients, and at which no message completes a round trip",
            "node.judge:judge",
        ),
        Word(
            "standby",
            "the state of a node that waits for its peer's lock or replicates from it",
            "node.judge:judge",
        ),
        Word("hung", "the state of a node that holds its lock and answers nobody", "node.judge:judge"),
        Word("backlog", "messages that wait in a store", "node.state.backlog:*"),
        Word("store journal", "the files `db-N.log` of a kahaDB store", "node.kahadb.journal:*"),
        Word("store marker", "the file that ties a store to its pair", "node.kahadb.store_marker:*"),
        Word("guard", "the process that starts a broker and fences its shared store", "node.fence.guard:Guard"),
        Word(
            "claim",
            "the record in a shared store that a node took over as its only writer",
            "node.fence.decision:Claim",
        ),
        Word("generation", "a copy of a fenced store that one take-over made", "node.fence.generation:Generation"),
        Word(
            "uncopied message",
            "a message that only an old generation of a fenced store holds; `store behind` lists it",
            "node.fence.old_generations:UncopiedMessage",
        ),
        Word(
            "pending restart",
            "files that changed under a broker that runs",
            "node.config.pending_restart:PendingRestart",
        ),
    ),
    "Operations and drills": (
        Word("step", "what an operation does next, decided afresh from evidence", "operations.rolling:*"),
        Word("fault", "what a drill does to a broker: a kill, a freeze", "drills.model:Fault"),
        Word("load generator", "a publisher and a subscriber under steady load", "lab.load_process:LoadGenerator"),
        Word("drill", "repeated faults under load, with an account of every event", "lab.drill_run:DrillRun"),
    ),
    "Events": (
        Word("event", "a message of an agent, with an identity of its own", "audit.event_records:Event"),
        Word("journal", "an agent's record of what it accepted, published and handled", "audit.journals:*"),
        Word(
            "epoch",
            "the lifetime of one store of an agent, named in event ids: AGENT:EPOCH:SEQ",
            "audit.journals:Epoch",
        ),
        Word("jseq", "the number of a record in the journal of one epoch", "audit.journals:JournalLine"),
        Word(
            "barrier",
            "a message that an agent sends after earlier events, to prove that they arrived",
            "agent_topics:barrier_topic",
        ),
        Word("outbox", "the events of an agent that no broker has acknowledged", f"{_AGENT}store.outbox:*"),
        Word(
            "transaction",
            "the writes to an agent's store that one commit makes durable",
            f"{_AGENT}store.transaction:Transaction",
        ),
        Word(
            "canary",
            "a message that an agent sends to itself to prove that its link works",
            f"{_AGENT}link:AgentConnection",
        ),
        Word("verdict", "delivered, duplicate, stuck, lost or indeterminate: of one event", "audit.deliveries:Verdict"),
    ),
    "Audits": (
        Word("log record", "one entry of a broker's log, with its stack trace", "node.log.log_records:*"),
        Word("chunk", "a piece of a log that is read at once", "logs.chunks:*"),
        Word("broker run", "a broker's process as its log tells it, from start to end", "audit.broker_runs:*"),
        Word("incident", "a take-over, a split brain, a failing start: concluded from logs", "audit.evidence:Incident"),
        Word("component", "hosts whose files depend on one another, planned together", "planning.components:Division"),
        Word(
            "fingerprint",
            "a hash of what a result depends on; equal ones need no new work",
            "planning.compute:fingerprint",
        ),
    ),
}
_HEAD = """\
<!-- Made by `make rules` from scripts/glossary.py. -->
# Glossary

One thing has one word, in code, documents and messages; one word means one thing.
"""


def main(arguments: list[str]) -> int:
    """Write the page, or with --check return 1 when it is not the one that would be written."""
    try:
        page = "".join(_page())
    except (ImportError, AttributeError) as error:
        print(f"scripts/glossary.py: a definition is not where it is said to be: {error}", file=sys.stderr)
        return 1
    return write_or_check(PAGE, page, "scripts/glossary.py says", arguments)


def _page() -> Iterator[str]:
    yield _HEAD
    for chapter, words in CHAPTERS.items():
        yield f"\n## {chapter}\n\n| word | means | defined in |\n|---|---|---|\n"
        for word in words:
            yield f"| {word.word} | {word.meaning} | {_link(word.defined)} |\n"


def _link(defined: str) -> str:
    """Return a link to the file that defines ``module:name``; the name ``*`` stands for the module as a whole."""
    module_name, _, name = defined.partition(":")
    module = importlib.import_module(module_name if module_name.startswith(_AGENT) else _LIBRARY + module_name)
    shown, source = module_name.rpartition(".")[2], module.__file__
    if name != "*":
        shown, source = name, _source_of(getattr(module, name), module.__file__)
    return f"[`{shown}`](../{Path(source or '').resolve().relative_to(ROOT)})"


def _source_of(definition: Any, otherwise: str | None) -> str | None:
    """Return the file of a class or function, which may come from another module than the one that offers it."""
    is_class_or_function = inspect.isclass(definition) or inspect.isfunction(definition)
    return inspect.getsourcefile(definition) if is_class_or_function else otherwise


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
