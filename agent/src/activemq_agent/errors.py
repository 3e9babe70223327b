"""The agent's errors: each says in one line what is wrong and what to do."""

from __future__ import annotations


class AgentError(Exception):
    """Base class of every error whose text a user is meant to read.

    ``exit_code`` is the exit code of the command, ``code`` the word for the error on the control socket.
    """

    exit_code = 1
    code = "failed"

    def __str__(self) -> str:
        return " ".join(super().__str__().split())


class ConfigError(AgentError):
    """A configuration that cannot be read or used. ``problems`` holds one line per problem, with file, line and key."""

    exit_code = 2

    def __init__(self, *problems: str) -> None:
        self.problems = problems
        super().__init__("; ".join(problems))


class Refused(AgentError):
    """A request that the agent does not take: nothing was stored, and asking again changes nothing."""

    code = "refused"


class Full(AgentError):
    """The outbox holds as many rows or bytes as it may: nothing was stored; try again later."""

    code = "full"
