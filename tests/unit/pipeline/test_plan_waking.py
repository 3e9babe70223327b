"""Workers are woken where they are this machine's, and what goes wrong with it is left to the job."""

from __future__ import annotations

from typing import Any

import pytest

from activemq_fleet.spark.plan.waking import waking


class Session:
    """Of Spark's what is asked for; it fails as a session without Python would."""

    def __init__(self, master: str) -> None:
        self.conf = {"spark.master": master}
        self.asked: list[int] = []

    def range(self, start: int, end: int, **_: Any) -> Session:
        self.asked.append(end - start)
        return self

    def mapInArrow(self, *_: Any) -> Session:  # noqa: N802 -- as Spark calls it
        return self

    def collect(self) -> None:
        self.asked.append(0)
        raise RuntimeError("no Python here")


@pytest.mark.parametrize(("master", "asked"), [("local[3]", [3, 0]), ("spark://far:7077", [])])
def test_as_many_are_woken_as_this_machine_runs_at_once(master: str, asked: list[int]) -> None:
    session: Any = Session(master)

    with waking(session):
        pass

    assert session.asked == asked


def test_what_the_block_raises_comes_out_of_it() -> None:
    session: Any = Session("local[1]")

    with pytest.raises(KeyError), waking(session):
        raise KeyError
    assert session.asked == [1, 0]
