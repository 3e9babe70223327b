"""The one hierarchy of errors: each says what, where, and what to do, in one line."""

from __future__ import annotations


class FleetError(Exception):
    """Base of every error that a user is meant to read.

    ``str(error)`` is one line. ``exit_code`` is what the command line returns:
    2 for input that cannot be used, 1 for a run that failed.
    """

    exit_code = 2

    def __str__(self) -> str:
        return " ".join(super().__str__().split())


class InputError(FleetError):
    """An inventory, file or option that cannot be read or used."""


class SettingsError(FleetError):
    """One or more ``activemq_*`` variables that are unknown, mistyped or contradict each other.

    ``problems`` holds one line a problem, each naming host and variable.
    """

    def __init__(self, *problems: str) -> None:
        self.problems = problems
        super().__init__("; ".join(problems))


class ReleaseError(FleetError):
    """A release of ActiveMQ that is not known."""


class SchemaUnavailable(FleetError):
    """The schema of a release cannot be had."""


class ArtifactError(FleetError):
    """Jars, an archive or Java cannot be had."""


class LabError(FleetError):
    """The lab could not do what it was asked to."""

    exit_code = 1


class LinksDownError(LabError):
    """Links of a lab that should be up and are not. ``problems`` holds one line a link."""

    def __init__(self, *problems: str) -> None:
        self.problems = problems
        super().__init__("; ".join(problems))
