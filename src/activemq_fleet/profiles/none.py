"""The profile ``none``: a single broker; no node takes over from another."""

from activemq_fleet.profiles.profile import HighAvailabilityProfile

NONE = HighAvailabilityProfile(
    name="none",
    plural="single nodes",
    reason="a single broker: no other broker takes over from it",
)
