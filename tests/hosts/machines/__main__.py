"""Command line of the machines: ``python -m tests.hosts.machines --help``.

Exit 0: success. 1: a machine failed. 3: this system does not support machines (one line on stderr contains the
reason).
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from . import base, kernel
from .errors import MachinesError, UnsupportedError
from .rack import Rack, base_directory

UNSUPPORTED = 3


def _probe(_: argparse.Namespace) -> None:
    kernel.require()


def _base(_: argparse.Namespace) -> None:
    kernel.require()
    print(base.find_or_build(base_directory()))


def _up(options: argparse.Namespace) -> None:
    machines = {}
    for pair in options.machine:
        name, separator, address = pair.partition("=")
        if not separator:
            raise MachinesError(f"{pair} is not NAME=ADDRESS: give the name and the address of a machine")
        machines[name] = address
    Rack(options.state).up(machines, shares=options.share, owner=options.owner)


def _down(options: argparse.Namespace) -> None:
    Rack(options.state).down()


def _run(options: argparse.Namespace) -> int:
    completed = Rack(options.state)[options.name].attempt(*options.command, timeout=600)
    sys.stdout.write(completed.stdout)
    sys.stderr.write(completed.stderr)
    return completed.returncode


def _inside(options: argparse.Namespace) -> None:
    argv = Rack(options.state).lan.inside(*options.command)
    os.execvp(argv[0], argv)  # noqa: S606 -- the command of the caller, without a shell


def _power_on(options: argparse.Namespace) -> None:
    machine = Rack(options.state)[options.name]
    machine.power_on()
    machine.wait_until_ready()


def _each(method: str) -> Callable[[argparse.Namespace], None]:
    def act(options: argparse.Namespace) -> None:
        getattr(Rack(options.state)[options.name], method)()

    return act


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="machines", description="systemd hosts for tests")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, act: Callable[..., int | None], text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(act=act)
        return sub

    command("probe", _probe, "check whether this system supports machines")
    command("base", _base, "build the root file system of the machines; print its path")
    up = command("up", _up, "start machines and wait until they are ready")
    up.add_argument("--share", action="append", default=[], metavar="MOUNTPOINT")
    up.add_argument("--owner", type=int, metavar="PID", help="the next `up` removes the machines if PID has exited")
    up.add_argument("state", type=Path, metavar="STATE")
    up.add_argument("machine", nargs="+", metavar="NAME=ADDRESS")
    down = command("down", _down, "stop all machines of a state directory, and remove them")
    down.add_argument("state", type=Path, metavar="STATE")
    inside = command("inside", _inside, "run a command of this system in the machines' network")
    inside.add_argument("state", type=Path, metavar="STATE")
    inside.add_argument("command", nargs="+", metavar="COMMAND")
    for name, act, text in (
        ("run", _run, "run a command as root on a machine"),
        ("power-on", _power_on, "start a machine again, with its disk"),
        ("power-off", _each("power_off"), "cut the power of a machine"),
        ("freeze", _each("freeze"), "freeze every process of a machine"),
        ("thaw", _each("thaw"), "resume a frozen machine"),
        ("isolate", _each("isolate"), "disconnect a machine from the network"),
        ("reconnect", _each("reconnect"), "reconnect a machine to the network"),
    ):
        sub = command(name, act, text)
        sub.add_argument("state", type=Path, metavar="STATE")
        sub.add_argument("name", metavar="NAME")
        if act is _run:
            sub.add_argument("command", nargs="+", metavar="COMMAND")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(argv)
    try:
        return options.act(options) or 0
    except UnsupportedError as error:
        print(f"machines: error: {error}", file=sys.stderr)
        return UNSUPPORTED
    except MachinesError as error:
        print(f"machines: error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
