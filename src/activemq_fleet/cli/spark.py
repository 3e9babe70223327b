"""Define the options of commands that run on Spark: where Spark runs, and with which settings.

A command takes them as one argument::

    @click.command()
    @spark_options
    def command(spark: SessionOptions) -> int:
        with session("audit", spark) as running: ...
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

Function = Callable[..., Any]


def spark_options(function: Function) -> Function:
    """Add the options ``--master``, ``--remote``, ``--conf`` and the like; the command gets them as ``spark``."""

    @functools.wraps(function)
    def wrapper(
        *args: Any,
        master: str | None,
        remote: str | None,
        conf: tuple[str, ...],
        archives: tuple[str, ...],
        progress: bool | None,
        **kwargs: Any,
    ) -> Any:
        from activemq_fleet.spark.options import SessionOptions

        if master and remote:
            raise click.UsageError("--master and --remote exclude each other: a cluster, or a Spark Connect server")
        options = SessionOptions(master, remote, dict(map(_setting, conf)), archives, progress)
        return function(*args, spark=options, **kwargs)

    decorated: Function = wrapper
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise click.UsageError(f"--conf {text}: is not NAME=VALUE, such as spark.executor.memory=4g")
    return name.strip(), value


_OPTIONS = (
    click.option(
        "--master",
        metavar="URL",
        help="Where Spark runs: local[*] (the default, this machine), spark://HOST:7077, yarn, k8s://URL.",
    ),
    click.option("--remote", metavar="URL", help="A Spark Connect server instead: sc://HOST:15002."),
    click.option(
        "--conf",
        metavar="K=V",
        multiple=True,
        help="A setting of Spark, such as spark.executor.memory=4g. May be repeated.",
    ),
    click.option(
        "--archives",
        metavar="FILE#NAME",
        multiple=True,
        help="What executors unpack: the environment made by `activemq-fleet pack`, as env.tar.gz#environment. "
        "May be repeated.",
    ),
    click.option(
        "--progress/--no-progress",
        default=None,
        help="Tell on stderr what the job is at. Without either: only on a terminal.",
    ),
)
