"""The profile ``pure``: pure master/slave, which releases before 5.8.0 have."""

from activemq_fleet.profiles.profile import HighAvailabilityProfile, ReleaseRequirement

PURE = HighAvailabilityProfile(
    name="pure",
    replicates=True,
    needs_resync=True,
    default_discovery="multicast",
    release_requirement=ReleaseRequirement(
        is_met_by=lambda release: release.has_pure_master_slave,
        rule="T005",
        message="activemq_ha is pure, but release {release} has no pure master/slave: 5.8.0 removed it (AMQ-4165)",
        fix="set activemq_ha: shared-file",
        why="the release ignores the attributes of pure master/slave, so the broker would start without failover",
    ),
    plural="pure master/slave",
    reason="the master copies each message to its slave before it answers",
    legend="The master replicates each message to its slave. The slave starts its connectors only if the master fails.",
)
