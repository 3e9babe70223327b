"""What a rule says about a fleet or a file."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal

Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One finding. ``waived`` holds the reason when ``activemq_waivers`` lets it pass.

    ``line`` and ``column`` are 1-based positions in ``file`` and null for findings about the
    inventory, whose message names the variable instead.
    """

    rule: str
    severity: Severity
    host: str
    message: str
    fix: str
    why: str = ""
    file: str | None = None
    line: int | None = None
    column: int | None = None
    waived: str | None = None

    @property
    def blocks(self) -> bool:
        """True for an error that nothing waives: it stops ``render`` and fails ``check``."""
        return self.severity == "error" and self.waived is None

    def to_line(self) -> str:
        """The finding in one line, for whoever has no more room."""
        waived = f" (waived: {self.waived})" if self.waived else ""
        return f"{self.rule} {self.host}: {self.message}: {self.fix}{waived}"

    def to_dict(self) -> dict[str, Any]:
        """The finding as it stands in JSON output and in the dataset ``findings``."""
        return {name: getattr(self, name) for name in _COLUMNS}


_COLUMNS = tuple(field.name for field in fields(Finding))  # all are text or numbers: nothing to copy


def error(rule: str, host: str, message: str, fix: str, why: str = "") -> Finding:
    """An error about the inventory: what nearly every rule of the topology says."""
    return Finding(rule=rule, severity="error", host=host, message=message, fix=fix, why=why)
