"""How an audit is divided for Spark, by how much there is to read."""

from __future__ import annotations

from typing import Any, cast

from activemq_fleet.spark.audit_job import shuffle_settings
from activemq_fleet.spark.inputs import AuditInputs, InputFile

MEGABYTE = 1 << 20
NUMBER, ADAPTIVE = "spark.sql.shuffle.partitions", "spark.sql.adaptive.enabled"


class Session:
    """What is asked of a session: its settings."""

    def __init__(self, master: str = "local[2]", number: str = "200") -> None:
        self.conf = {"spark.master": master, NUMBER: number}


def divided(session: Session, megabytes: int) -> dict[str, str]:
    file = InputFile("file:/logs/a/activemq.log", "a", "activemq.log", "log", megabytes * MEGABYTE, compressed=False)
    return shuffle_settings(cast("Any", session), AuditInputs("file:/logs", (file,), {}, ()))


def test_a_small_input_of_this_machine_is_one_partition_without_plans_in_steps() -> None:
    found = divided(Session(), 2)

    assert found[NUMBER] == "1"
    assert found[ADAPTIVE] == "false"


def test_a_larger_one_has_a_partition_for_each_16_megabytes() -> None:
    assert divided(Session(), 160) == {NUMBER: "14"}


def test_a_cluster_is_given_work_for_several_however_little_it_is() -> None:
    assert divided(Session(master="spark://head:7077"), 2) == {NUMBER: "4"}


def test_what_the_user_said_stays() -> None:
    assert divided(Session(number="7"), 2) == {}
