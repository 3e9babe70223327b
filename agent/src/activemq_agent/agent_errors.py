"""Define the agent's errors. The text of each error is one line with the problem and its remedy."""

from __future__ import annotations


class AgentError(Exception):
    """The base class of the agent's errors.

    The text of each error is meant for users. ``exit_code`` is the exit code of the command, ``code`` the word for the
    error on the control socket.
    """

    exit_code = 1
    code = "failed"

    def __str__(self) -> str:
        return " ".join(super().__str__().split())


class ConfigError(AgentError):
    """An error in the agent's configuration, which cannot be read or used.

    ``problems`` has one line for each problem, with file, line and key.
    """

    exit_code = 2

    def __init__(self, *problems: str) -> None:
        self.problems = problems
        super().__init__("; ".join(problems))


class TlsFileError(ConfigError):
    """An error of a file that the agent's configuration names for TLS, which cannot be read or used.

    The exit code is that of errors after which systemd starts the agent again: the file can become usable without a
    change of the configuration, such as at the end of a renewal or when its file system is mounted.
    """

    exit_code = 1


class RequestRefusedError(AgentError):
    """An error for a request that the agent refused.

    Nothing was stored, and repeating the request does not help.
    """

    code = "refused"


class OutboxFullError(AgentError):
    """An error for an event that an agent does not accept, because its outbox of unsent events is full.

    The outbox has its largest number of rows or bytes. Nothing was stored; try again later.
    """

    code = "full"


def error_with_type(error: BaseException) -> str:
    """Return the class and the text of an error that unknown code raised; its text may be unreadable."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 -- the method __str__ of an error can raise any error
        return f"{type(error).__name__} (the text of this error cannot be read)"
