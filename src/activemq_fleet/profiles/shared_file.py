"""The profile ``shared-file``: one kahaDB store on a file system that both nodes mount."""

from activemq_fleet.profiles.profile import HighAvailabilityProfile

SHARED_FILE = HighAvailabilityProfile(
    name="shared-file",
    shares_store_directory=True,
    plural="shared file stores",
    reason="both nodes use one kahaDB store; the node that holds its lock is active",
    legend="One store that both nodes share. The node that holds its lock is active.",
)
