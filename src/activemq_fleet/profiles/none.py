"""The profile ``none``: a single broker; the nodes of a pair do not stand in for each other."""

from activemq_fleet.profiles.profile import Profile

NONE = Profile(
    name="none",
    plural="single nodes",
    reason="a single broker: no other takes over from it",
)
