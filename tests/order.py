"""How the tests with brokers, hosts and Spark are dealt out to the processes that run them at once."""

from __future__ import annotations

# Longest first: none is left for the end, when the other processes have nothing to do.
LONGEST = (
    "pipeline/test_follow.py",
    "pipeline/test_cluster.py",
    "pipeline/test_verdicts.py",
    "pipeline/test_plan.py",
    "integration/test_agent_failover.py",
    "integration/test_demo.py",
    "integration/test_silent_failures.py",
    "integration/test_resync.py",
    "integration/test_lab.py",
    "integration/test_agent_connecting.py",
    "integration/test_site.py",
    "integration/test_drill.py",
    "integration/test_agent_restarts.py",
    "integration/test_every_release.py",
    "integration/test_agent_demo.py",
    "integration/test_bridged_pairs.py",
    "integration/test_ha_network.py",
    "integration/test_routes.py",
    "integration/test_real_logs.py",
    "integration/test_refusals.py",
    "integration/test_bridge_facts.py",
    "hosts/test_restart.py",
    "hosts/test_upgrade.py",
    "hosts/test_resync.py",
    "hosts/test_wrong_release.py",
    "hosts/test_broker_unit.py",
    "hosts/test_agent_unit.py",
    "hosts/test_watchdog.py",
    "hosts/test_drill.py",
    "hosts/test_broker_installs.py",
    "hosts/test_loadbalancer.py",
    "hosts/test_unhealthy.py",
)
