"""A disk that takes no more: what was not written is refused, what was is there."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

from activemq_agent.store import Store, StoreLimits

# A file that may not grow stands for the disk: the kernel refuses the write, and SQLite cannot tell why.
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


def test_a_full_disk_refuses_events_and_keeps_those_that_were_accepted(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", FILLER, str(tmp_path)], capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode == 0, run.stderr
    lines = [line.split(" ", 1) for line in run.stdout.splitlines()]
    accepted = [text for kind, text in lines if kind in ("accepted", "after")]
    assert len(accepted) > 5
    assert any("cannot be written" in text for kind, text in lines if kind == "refused")

    store = Store.open(tmp_path, agent="a", limits=StoreLimits())
    try:
        there = [row.event_id for row in store.outgoing_events(1000)]
    finally:
        store.close()
    assert there == accepted
