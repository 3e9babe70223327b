"""A full disk: the store refuses events that it cannot write, and keeps accepted events."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

from activemq_agent.store import Store, StoreLimits

# A limit of the file size simulates a full disk: the kernel refuses the write, and SQLite does not know the reason.
FILLER = textwrap.dedent(
    """
    import resource, signal, sys
    from pathlib import Path
    from activemq_agent.agent_errors import AgentError
    from activemq_agent.store import StoreLimits, Store

    store = Store.open(Path(sys.argv[1]), agent="a", limits=StoreLimits())
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, resource.RLIM_INFINITY))
    refused = 0
    for number in range(400):
        try:
            print("accepted", store.accept_event("a/b", b"x" * 10_000), flush=True)
        except AgentError as error:
            refused += 1
            if refused == 5:
                print("refused", error, flush=True)
                break
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    print("after", store.accept_event("a/b", b"later"), flush=True)
    store.close()
    """
)


def test_agent_store_on_full_disk_refuses_events_and_keeps_accepted_events(tmp_path: Path) -> None:
    process = subprocess.run(
        [sys.executable, "-c", FILLER, str(tmp_path)], capture_output=True, text=True, timeout=120, check=False
    )
    assert process.returncode == 0, process.stderr
    lines = [line.split(" ", 1) for line in process.stdout.splitlines()]
    accepted_ids = [text for kind, text in lines if kind in ("accepted", "after")]
    assert len(accepted_ids) > 5
    assert any("cannot be written" in text for kind, text in lines if kind == "refused")

    store = Store.open(tmp_path, agent="a", limits=StoreLimits())
    try:
        outgoing_ids = [event.event_id for event in store.outgoing_events(1000)]
    finally:
        store.close()
    assert outgoing_ids == accepted_ids
