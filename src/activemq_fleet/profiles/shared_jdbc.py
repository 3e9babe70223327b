"""The profile ``shared-jdbc``: one database for both nodes, with a lease."""

from activemq_fleet.profiles.profile import HighAvailabilityProfile, ReleaseRequirement

SHARED_JDBC = HighAvailabilityProfile(
    name="shared-jdbc",
    has_database_lease=True,
    required_variables=("jdbc",),
    release_requirement=ReleaseRequirement(
        is_met_by=lambda release: release.has_lockers,
        rule="T011",
        message="activemq_ha is shared-jdbc, but release {release} has no lease lock (5.7 and later have it)",
        fix="upgrade the broker to 5.7 or later, or set activemq_ha: shared-file",
    ),
    plural="shared databases",
    reason="both nodes use one database; the node that holds the lease is active",
    legend="One database that both nodes share. The node that holds the lease is active.",
)
