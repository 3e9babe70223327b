"""``activemq_usage``: how much memory, store and temporary store a broker may use, as sizes or in percent."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from activemq_fleet.settings.variable_types import Milliseconds, Percent, Size
from activemq_fleet.settings.xml_beans import XmlBean

_PERCENT = re.compile(r"(\d{1,3}) ?%")


class _Usage(XmlBean):
    """A limit that is a size or a percentage.

    ``70 %`` and ``20 gb`` are short forms of a single key.
    """

    IN_PERCENT: ClassVar[str] = ""
    limit: Size | None = None

    @model_validator(mode="before")
    @classmethod
    def _text_alone(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        percent = _PERCENT.fullmatch(value)
        if percent and not cls.IN_PERCENT:
            raise ValueError(f"the limit {value!r} cannot be a percentage: write a size such as 1 gb")
        return {cls.IN_PERCENT: percent[1]} if percent else {"limit": value}

    @model_validator(mode="after")
    def _one_limit(self) -> Self:
        percent = getattr(self, self.IN_PERCENT) if self.IN_PERCENT else None
        if (self.limit is None) == (percent is None):
            if not self.IN_PERCENT:
                raise ValueError("the key 'limit' is not set: set it to a size such as 1 gb")
            if percent is not None:
                raise ValueError(
                    f"the keys limit and {self.IN_PERCENT} are both set, but {self.ELEMENT} has only one limit: "
                    "remove one of the two keys"
                )
            raise ValueError(
                f"neither limit nor {self.IN_PERCENT} is set: set limit to a size such as 1 gb, or "
                f"{self.IN_PERCENT} to a percentage from 1 to 100"
            )
        return self


class MemoryUsage(_Usage):
    """The memory limit of a broker (memoryUsage): a size in bytes, or a percentage of the heap."""

    ELEMENT: ClassVar[str] = "memoryUsage"
    IN_PERCENT: ClassVar[str] = "percent_of_jvm_heap"
    percent_of_jvm_heap: Percent | None = None


class StoreUsage(_Usage):
    """The disk limit for persistent messages (storeUsage): a size, or a percentage of a total.

    The total is ``total``, or else the size of the store's file system.
    """

    ELEMENT: ClassVar[str] = "storeUsage"
    IN_PERCENT: ClassVar[str] = "percent_limit"
    percent_limit: Percent | None = None
    total: Size | None = None


class TempUsage(StoreUsage):
    """The disk limit for non-persistent messages (tempUsage): a size, or a percentage of a total.

    The total is ``total``, or else the size of the file system.
    """

    ELEMENT: ClassVar[str] = "tempUsage"


class JobSchedulerUsage(_Usage):
    """The disk limit for scheduled (delayed) messages (jobSchedulerUsage): a size."""

    ELEMENT: ClassVar[str] = "jobSchedulerUsage"


class UsageSettings(XmlBean):
    """The resource limits of a broker (systemUsage): the value of ``activemq_usage``.

    An omitted limit has its default.
    """

    ELEMENT: ClassVar[str] = "systemUsage"
    PROPERTIES: ClassVar[Mapping[str, str]] = {
        "memory": "memoryUsage",
        "store": "storeUsage",
        "temp": "tempUsage",
        "job_scheduler": "jobSchedulerUsage",
    }
    memory: MemoryUsage | None = None
    store: StoreUsage | None = None
    temp: TempUsage | None = None
    job_scheduler: JobSchedulerUsage | None = None
    send_fail_if_no_space: bool | None = None
    send_fail_if_no_space_after_timeout: Milliseconds | None = Field(default=None)
    check_limits_log_level: Literal["error", "warn", "info", "debug"] | None = None
