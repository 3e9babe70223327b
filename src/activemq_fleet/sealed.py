"""An encrypted value that nobody opened: present, unreadable, comparable."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Sealed:
    """Stands for a vaulted value without its password.

    Two are equal when their ciphertexts are; the ciphertext never shows.
    """

    ciphertext: str = field(repr=False)


def may_equal(one: object, other: object) -> bool:
    """False only for two values that are known to differ: behind a closed one may be any.

    The same password that was encrypted twice has two ciphertexts.
    """
    return one == other or isinstance(one, Sealed) or isinstance(other, Sealed)
