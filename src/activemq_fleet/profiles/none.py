"""``none``: a single broker; where a pair has two, they have nothing to do with each other."""

from activemq_fleet.profiles.profile import Profile

NONE = Profile(
    name="none",
    plural="single nodes",
    reason="a single broker: no other takes over from it",
)
