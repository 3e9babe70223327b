# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Writes metrics as a file for the textfile collector of Prometheus' node exporter, in the text format 0.0.4."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

RUN = "/run"
DIRECTORY = "activemq-fleet"
"""The directory below ``/run`` for files of planned operations; node exporters search directories with this prefix."""


@dataclass(frozen=True)
class MetricSample:
    """A sample of a Prometheus metric: name, type, meaning, value and labels.

    The type is gauge or counter.
    """

    name: str
    kind: str
    help: str
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)


def to_prometheus_text(samples: Iterable[MetricSample], labels: Mapping[str, str]) -> bytes:
    """Return metric samples in the text format of Prometheus.

    They are grouped by name; ``labels`` are added to each value's own labels.
    """
    lines: list[str] = []
    seen = set()
    for sample in samples:
        if sample.name not in seen:
            seen.add(sample.name)
            lines += [f"# HELP {sample.name} {sample.help}", f"# TYPE {sample.name} {sample.kind}"]
        # JSON escapes quotes, backslashes and line ends as the text format does.
        pairs = (
            f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in {**labels, **sample.labels}.items()
        )
        lines.append(f"{sample.name}{{{','.join(pairs)}}} {sample.value!r}")
    return ("\n".join(lines) + "\n").encode()
