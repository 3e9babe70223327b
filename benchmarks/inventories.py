"""Write inventories for measurements: plain host lines, and group variables."""

from __future__ import annotations

from pathlib import Path

ACCOUNT = {"name": "bench", "password": "only-measured-with", "groups": ["admins"]}


def write_inventory(directory: Path, brokers: int, *, pairs: int = 4) -> Path:
    """Write an inventory of ``brokers`` brokers in groups of ``pairs`` pairs, and return its directory."""
    directory.mkdir(parents=True, exist_ok=True)
    lines = [
        f"fleet{group:05d}-mq{pair:02d}-{node}.example.com"
        for group in range(brokers // (2 * pairs))
        for pair in range(1, pairs + 1)
        for node in "ab"
    ]
    (directory / "hosts.ini").write_text("\n".join(lines) + "\n")
    variables = [
        "activemq_release: 5.18.3",
        "activemq_network_username: network",
        "activemq_network_password: only-measured-with",
        f"activemq_users: [{{name: {ACCOUNT['name']}, password: {ACCOUNT['password']}, groups: [admins]}}]",
    ]
    (directory / "group_vars").mkdir(exist_ok=True)
    (directory / "group_vars" / "all.yml").write_text("\n".join(variables) + "\n")
    return directory
