"""Find the mistakes in an inventory, other than those in the variables of its hosts, without building its fleet."""

from __future__ import annotations

from collections import Counter

from activemq_fleet.errors import FleetError, InputError
from activemq_fleet.findings import Finding
from activemq_fleet.inventory import InventoryData
from activemq_fleet.topology.brokers import build_brokers_without_links_or_accounts
from activemq_fleet.topology.hosts_by_role import (
    HostsByRole,
    classify_hosts_by_role,
    read_settings_by_host_and_broker_hosts,
)


def findings_about_inventory_files_and_hosts(data: InventoryData) -> tuple[Finding, ...]:
    """Return the findings about an inventory's files, its hosts without a role, and brokers that share a machine.

    ``fleet_from_inventory_data`` adds them to those of the fleet. Only the brokers
    that may share a machine are built. Raises InputError for errors in the files.
    """
    if data.inventory_file_error_lines:
        raise InputError(*data.inventory_file_error_lines)
    machines = Counter(data.machines.values())
    try:
        hosts_by_role, _ = classify_hosts_by_role(data.hosts, data.groups, None)
        sharing_brokers = {
            host: hosts_by_role.roles[host]
            for host in hosts_by_role.identities
            if machines[data.machines.get(host, ())] > 1
        }
        _, members = read_settings_by_host_and_broker_hosts(
            data.hosts, HostsByRole(hosts_by_role.pattern, sharing_brokers, (), ())
        )
        brokers, _ = build_brokers_without_links_or_accounts(members)
    except FleetError:
        return data.findings  # the plan reports the errors of all hosts
    return data.all_inventory_findings(hosts_by_role.unread, brokers)
