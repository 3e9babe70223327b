"""Vaulted values that stay encrypted because no password for them is given."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class EncryptedValue:
    """A placeholder for a vaulted value that was not decrypted, because its vault password is not known.

    Two are equal when their ciphertexts are equal; the ciphertext is never shown.
    """

    ciphertext: str = field(repr=False)


def may_equal(first: object, second: object) -> bool:
    """Return False only for two values that are known to differ; an encrypted value may equal any value.

    A password that was encrypted twice has two ciphertexts.
    """
    return first == second or isinstance(first, EncryptedValue) or isinstance(second, EncryptedValue)
