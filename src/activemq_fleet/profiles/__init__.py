"""Profiles: the values of ``activemq_ha``, each an object with the capabilities of that value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from activemq_fleet.profiles.none import NONE
from activemq_fleet.profiles.profile import HighAvailabilityProfile
from activemq_fleet.profiles.pure import PURE
from activemq_fleet.profiles.shared_file import SHARED_FILE
from activemq_fleet.profiles.shared_jdbc import SHARED_JDBC

ProfileName = Literal["pure", "shared-file", "shared-jdbc", "none"]
DEFAULT_PROFILE: ProfileName = "shared-file"
PROFILES: Mapping[str, HighAvailabilityProfile] = {
    profile.name: profile for profile in (SHARED_FILE, SHARED_JDBC, PURE, NONE)
}
"""The profiles by name, in the order of a diagram's legend."""

__all__ = [
    "DEFAULT_PROFILE",
    "NONE",
    "PROFILES",
    "PURE",
    "SHARED_FILE",
    "SHARED_JDBC",
    "HighAvailabilityProfile",
    "ProfileName",
]
