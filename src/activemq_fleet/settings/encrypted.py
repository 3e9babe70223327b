"""Vaulted values that stay encrypted because no password for them is given."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class UndecryptedVaultValue:
    """A value encrypted with Ansible Vault that was not decrypted, because the vault password is missing.

    It takes the place of the value. Two are equal when their ciphertexts are equal; the ciphertext is never shown.
    """

    ciphertext: str = field(repr=False)


def may_equal(first: object, second: object) -> bool:
    """Return whether two values of a setting may be equal, where Ansible Vault may have encrypted one or both.

    The result is False only for two values that are known to differ. A password that was encrypted twice has two
    ciphertexts.
    """
    return first == second or isinstance(first, UndecryptedVaultValue) or isinstance(second, UndecryptedVaultValue)
