"""The profile ``pure``: pure master/slave, which releases before 5.8.0 have."""

from activemq_fleet.profiles.profile import Profile, ReleaseRequirement

PURE = Profile(
    name="pure",
    replicates=True,
    needs_resync=True,
    default_discovery="multicast",
    release_requirement=ReleaseRequirement(
        is_met_by=lambda release: release.has_pure_master_slave,
        rule="T005",
        message="activemq_ha is pure, which release {release} no longer has: it was removed in 5.8.0 (AMQ-4165)",
        fix="use activemq_ha: shared-file, whose links are masterslave:",
        why="five of its attributes still pass the schema and do nothing, so that no error would tell",
    ),
    plural="pure master/slave",
    reason="the master copies each message to its slave before it answers",
    legend="The master replicates each message to its slave, which listens only once it is promoted.",
)
