"""Find the collection ``activemq.fleet`` that belongs to the running library."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
_FLEET = Path("ansible_collections", "activemq", "fleet", "meta", "runtime.yml")


def collections_path() -> list[str]:
    """Return the directory that holds ``ansible_collections``, as a list for Ansible's plugin loader.

    The directory is site-packages for an installed wheel and ``.ansible/collections`` for a checkout that
    ``make setup`` has prepared. Empty where there is neither: then Ansible's own search decides.
    """
    candidates = (_PACKAGE.parent, _PACKAGE.parents[1] / ".ansible" / "collections")
    return [str(path) for path in candidates if (path / _FLEET).is_file()]
