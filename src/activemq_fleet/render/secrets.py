"""Write secrets into rendered files: as ``@variable@``, unless the files are rendered for deployment.

Source: design.md, "Public interface": in an output directory a secret is written as its
variable's name between at signs, and hashed so; the real bytes exist only on the hosts.
"""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import SecretStr

from activemq_fleet.errors import SettingsError
from activemq_fleet.settings.encrypted import UndecryptedVaultValue


@dataclass(frozen=True, slots=True)
class SecretRenderer:
    """Renders passwords and other secrets in one host's files: as their values, or as placeholders ``@variable@``.

    It gives the values with ``reveal``, else ``@variable@``. Errors name ``host``.
    """

    host: str
    reveal: bool = False

    def secret_text(self, variable: str, value: SecretStr | UndecryptedVaultValue | None) -> str:
        """Return a secret as the text for a rendered file: its value, or the placeholder ``@variable@``.

        The result is the value if ``reveal`` is set.

        Raises SettingsError when the value is to be deployed and cannot be opened or is absent.
        """
        if not self.reveal:
            return f"@{variable}@"
        if isinstance(value, SecretStr):
            return value.get_secret_value()
        if value is None:
            raise SettingsError.of_host(
                self.host,
                f"the variable {variable} is not set, but files of this host must contain its value: set "
                f"{variable} in the inventory",
            )
        raise SettingsError.of_host(
            self.host,
            f"the variable {variable} is encrypted, and no vault password decrypts it: run the command with "
            "--vault-password-file or --vault-id",
        )
