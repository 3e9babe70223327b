# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""The command line of the watchdog's program, which a separate systemd unit runs next to the broker.

    activemq-watchdog --base DIRECTORY --unit UNIT --ha PROFILE kill

It imports only the standard library and the modules that ``watchdog_installation`` packs with it.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from ..process.systemd_notification import notify_systemd
from ..timeouts import WATCH_INTERVAL
from .watchdog import Watchdog, WatchdogOptions


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the watchdog program, which checks a broker at a fixed interval.

    It runs until systemd stops it.
    """
    options = parse_options(sys.argv[1:] if arguments is None else arguments)
    directory = os.environ.get("RUNTIME_DIRECTORY", "").split(":")[0]
    watchdog = Watchdog(options, f"{directory}/kills" if directory else None)
    notify_systemd("READY=1")
    watchdog.check_broker_periodically()


def parse_options(arguments: Sequence[str]) -> WatchdogOptions:
    """Parse the options of the watchdog's program. Exits for an invalid option."""
    parser = argparse.ArgumentParser(
        prog="activemq-watchdog",
        description=(
            "Report or kill a broker that hangs (activemq_watchdog). A systemd unit of activemq.fleet starts "
            "this program."
        ),
    )
    parser.add_argument(
        "--base", required=True, help="watch the broker in this directory, activemq_base/activemq_instance"
    )
    parser.add_argument("--unit", required=True, help="show UNIT as the service unit of the broker in log lines")
    parser.add_argument("--ha", required=True, choices=("pure", "shared-file", "shared-jdbc", "none"))
    parser.add_argument(
        "--every",
        type=float,
        default=WATCH_INTERVAL,
        metavar="SECONDS",
        help="check the broker at this interval, in seconds (default: %(default)s)",
    )
    parser.add_argument(
        "--metrics",
        help="write the metrics of the watchdog to this file, for the textfile collector of the host's node exporter",
    )
    parser.add_argument(
        "--label", action="append", default=[], help="add the label NAME=VALUE to each metric of --metrics"
    )
    parser.add_argument("action", choices=("warn", "kill"))
    return WatchdogOptions(**vars(parser.parse_args(arguments)))


if __name__ == "__main__":
    main()
