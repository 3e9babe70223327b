"""Define the type of command-line parameters that are paths of files or directories, and check vault identities."""

from __future__ import annotations

import os

import click


class NonEmptyPath(click.Path):
    """The type of a command-line parameter that is a path. An empty path is wrong usage.

    An unset variable of a shell script gives an empty path, and ``Path("")`` is the working directory.
    """

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> str | bytes | os.PathLike[str]:
        """Return the path that a command-line parameter names. Raises click.BadParameter for an empty path."""
        if value == "":
            self.fail("the path is empty: write a path, or check the shell variable that contains it", param, ctx)
        return super().convert(value, param, ctx)


def require_files_in_vault_ids(
    _context: click.Context, _parameter: click.Parameter, identities: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the values of the option ``--vault-id``, of the form ``[LABEL@]FILE`` or ``[LABEL@]prompt``, unchanged.

    Raises click.BadParameter for a value with an empty file.
    """
    for identity in identities:
        if not identity.rpartition("@")[2]:
            raise click.BadParameter(
                f"the identity {identity!r} has no file: write LABEL@FILE, FILE or prompt, or check the shell variable "
                "that contains it"
            )
    return identities
