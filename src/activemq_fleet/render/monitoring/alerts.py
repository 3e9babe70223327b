"""The alerts of a fleet, each with its PromQL, severity, patience, meaning and what to do; docs/alerts.md lists them.

A standby has no values but those of its JVM and a few of its own: every expression about messages, bridges and stores
joins with ``activemq:broker_active``. Durations stand in angle brackets, so that a lab can have them shorter.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

_DURATION = re.compile(r"<(\d+)(s|m|h|)>")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "": 1}
_MUTE = " unless on (group, pair) activemq:operation"


@dataclass(frozen=True, slots=True)
class Record:
    """A Prometheus recording rule: the name of the new series, and the PromQL that computes it."""

    name: str
    expr: str


@dataclass(frozen=True, slots=True)
class Alert:
    """A Prometheus alert; ``wait`` is how long its cause must last, ``planned`` whether planned work on the pair mutes
    it.

    ``meaning`` and ``todo`` are for docs/alerts.md, ``summary`` is the line that people are sent.
    """

    name: str
    severity: Literal["critical", "warning", "info"]
    wait: str
    expr: str
    summary: str
    meaning: str
    todo: str
    planned: bool = False

    @property
    def anchor(self) -> str:
        """The link anchor of the alert in the page docs/alerts.md."""
        return self.name.lower()

    def promql(self, pace: float = 1) -> str:
        """Return the alert's PromQL, with durations multiplied by ``pace`` (1: unchanged)."""
        return paced(self.expr + (_MUTE if self.planned else ""), pace)


RECORDS = (
    Record("activemq:broker_active", "activemq_broker_messages * 0 + 1 unless on (host) activemq_broker_standby == 1"),
    Record(
        "activemq:operation",
        "max by (group, pair) (activemq_operation_running == 1"
        " and time() - activemq_operation_changed_timestamp_seconds < 7200"
        " or activemq_operation_running == 0"
        " and time() - activemq_operation_changed_timestamp_seconds < <360>)",
    ),
    Record(
        "activemq:store_seconds_to_full",
        "(1 - activemq_broker_store_used_ratio) / (deriv(activemq_broker_store_used_ratio[<30m>]) > 0)",
    ),
)

_DEAD_LETTERS = 'destination=~"(ActiveMQ[.])?DLQ([.].*)?"'
_STATUS = "`activemq-fleet status` says what each broker is, and why"

ALERTS = (
    Alert(
        "ActiveMQNoActiveNode",
        "critical",
        "<1m>",
        'count by (group, pair) (up{job="activemq-brokers"}) unless on (group, pair) activemq:broker_active',
        "No node of {{ $labels.pair }} is active",
        "No broker of the pair serves clients. Both are down, hang, wait for the store, or Prometheus reaches neither. "
        "A take-over by itself ends within the alert's minute.",
        f"{_STATUS}. Is a node frozen, it keeps the store's lock: end it. Does the store's share or database answer? "
        "The last lines of both logs name what they wait for.",
        planned=True,
    ),
    Alert(
        "ActiveMQTwoActiveNodes",
        "critical",
        "<30s>",
        "count by (group, pair) (activemq:broker_active) > 1",
        "Both nodes of {{ $labels.pair }} are active",
        "Both nodes serve: with a shared store both write to it and damage it, with a pure pair messages are in one "
        "store or the other.",
        "Stop the node that became active later, at once. Then look at the store's marker, mount and lock "
        "(docs/shared-stores.md); a pure pair comes back by the playbook `resync`.",
    ),
    Alert(
        "ActiveMQStandbyMissing",
        "warning",
        "<2m>",
        'up{job="activemq-brokers"} == 0 and on (group, pair) activemq:broker_active',
        "{{ $labels.host }} is down: nobody stands in for the active node of {{ $labels.pair }}",
        "One node serves, the other cannot be scraped: the next failure is an outage.",
        "Start the broker (playbook `restart` with activemq_target), or see by its log why it ended. A pure pair needs "
        "`resync`.",
        planned=True,
    ),
    Alert(
        "ActiveMQTakeOver",
        "info",
        "<0s>",
        "count by (group, pair) (count by (group, pair, host) (max_over_time(activemq:broker_active[<5m>]))) > 1",
        "{{ $labels.pair }} changed its active node",
        "Within five minutes both nodes were active, one after the other, and no playbook was at work. It ends by "
        "itself.",
        "`activemq-fleet audit` on the collected logs says when, why, and what became of every event.",
        planned=True,
    ),
    Alert(
        "ActiveMQBridgeDown",
        "warning",
        "<2m>",
        "activemq_link_duplex and on (host) activemq:broker_active unless on (host, link) activemq_bridge_responder",
        "Link {{ $labels.link }} of {{ $labels.host }} has no bridge",
        "The active broker is configured to forward messages over this link, and no bridge is up. Messages for "
        "consumers behind it wait.",
        f"{_STATUS}, with the reason from the log: the other pair is down, refuses the login, or cannot be reached.",
        planned=True,
    ),
    Alert(
        "ActiveMQHalfDuplexLink",
        "warning",
        "<5m>",
        "count((activemq_bridge_responder == 0) and on (host, link) activemq_link_duplex == 1)"
        " > (count(activemq_bridge_responder == 1) or vector(0))",
        "A duplex link carries messages one way only",
        "More brokers dial a duplex bridge than answer with its other half. Seen on 5.5.1 after reconnections: nothing "
        "comes back over such a link until its dialler is restarted.",
        f"{_STATUS}: the link is marked as half. Restart the broker that dials it.",
    ),
    Alert(
        "ActiveMQStoreFilling",
        "warning",
        "<5m>",
        "activemq_broker_store_used_ratio > 0.8"
        " or activemq_broker_store_used_ratio > 0.5 and activemq:store_seconds_to_full < 14400",
        "The store of {{ $labels.host }} is {{ $value | humanizePercentage }} full"
        '{{ with printf "activemq:store_seconds_to_full{host=%q}" $labels.host | query }}'
        ", and full in {{ . | first | value | humanizeDuration }}{{ end }}",
        "More than 80 % of the store's limit is used, or more than half and at this pace it is full within four hours. "
        "A full store holds producers back.",
        "Find the queue that grows (dashboard *broker*): has it consumers? Dead letters and durable subscribers that "
        "stay away fill stores, too. activemq_store_limit can be raised where the disk has room.",
    ),
    Alert(
        "ActiveMQStoreFull",
        "critical",
        "<1m>",
        "activemq_broker_store_used_ratio >= 0.98",
        "The store of {{ $labels.host }} is full: producers wait",
        "The store has reached its limit. Producers are held back, clients with a time-out fail.",
        "As for ActiveMQStoreFilling, at once: consume, purge what nobody wants, or raise activemq_store_limit and "
        "restart.",
    ),
    Alert(
        "ActiveMQMemoryFilling",
        "warning",
        "<10m>",
        "activemq_broker_memory_used_ratio > 0.9",
        "{{ $labels.host }} uses {{ $value | humanizePercentage }} of its memory for messages",
        "Messages in memory are near activemq_memory_limit. Beyond it producers of topics and of non-persistent "
        "messages are held back.",
        "Slow consumers hold messages in memory: see in-flight messages of destinations. Raise activemq_heap only when "
        "consumers keep pace.",
    ),
    Alert(
        "ActiveMQBacklogWithoutConsumers",
        "warning",
        "<10m>",
        f'delta(activemq_destination_messages{{kind="Queue",{_DEAD_LETTERS.replace("=~", "!~")}}}[<10m>]) > 0'
        " and activemq_destination_consumers == 0",
        "{{ $labels.destination }} on {{ $labels.host }} grows, and nobody consumes",
        "A queue of activemq_metrics_destinations grows and has no consumer, neither a client nor a bridge.",
        "Start its consumers; over bridges see that the link includes the queue (`activemq-fleet explain HOST --to`).",
    ),
    Alert(
        "ActiveMQDeadLetters",
        "warning",
        "<0s>",
        f"activemq_destination_messages{{{_DEAD_LETTERS}}} > 0",
        "{{ $value }} dead letters in {{ $labels.destination }} of {{ $labels.host }}",
        "Messages were given up: redelivered too often, or expired where the policy keeps those.",
        "Read one in the web console: its headers name the queue it came from and why. Move or purge them when that is "
        "mended; the alert ends when the queue is empty.",
    ),
    Alert(
        "ActiveMQMessagesExpired",
        "warning",
        "<0s>",
        "increase(activemq_destination_expired_messages_total[<10m>]) > 0",
        "Messages of {{ $labels.destination }} on {{ $labels.host }} expired",
        "Messages waited longer than their producer allowed and were not delivered, within the last ten minutes.",
        "Are there enough consumers? Does the clock of producers agree with the broker's?",
    ),
    Alert(
        "ActiveMQConnectionsNearLimit",
        "warning",
        "<5m>",
        "activemq_broker_connections / on (host, group, pair, node) activemq_broker_connections_limit > 0.8"
        ' or process_open_fds{job="activemq-brokers"} / process_max_fds > 0.8',
        "{{ $labels.host }} has {{ $value | humanizePercentage }} of the connections or files that it may have",
        "All connections together come near maximumConnections of the connector with the smallest (from 5.9 on), or "
        "open files near the limit of the process (all releases). Beyond it clients are refused.",
        "Look for clients that open a connection a message. Raise maximumConnections of the connector, and LimitNOFILE "
        "of the unit with it.",
    ),
    Alert(
        "ActiveMQAgentOutboxAging",
        "warning",
        "<2m>",
        "activemq_agent_outbox_oldest_age_seconds > <300>",
        "The oldest event of the agent on {{ $labels.host }} has waited {{ $value | humanizeDuration }}",
        "Events wait on the agent's disk: no broker of its pair takes them, or not as fast as they come.",
        "`activemq-agent status` there says which broker it is connected to, and why not (docs/agent.md). Events older "
        "than activemq_agent_publisher_timeout expire.",
    ),
    Alert(
        "ActiveMQAgentSilent",
        "critical",
        "<2m>",
        'up{job="activemq-agents"} == 0',
        "The agent on {{ $labels.host }} does not answer",
        "The agent's process is down or hangs, its host is, or activemq_agent_metrics_address cannot be reached.",
        "`systemctl status activemq-agent` there. Its events are on its disk and go out when it runs.",
    ),
    Alert(
        "ActiveMQBrokerHung",
        "critical",
        "<0s>",
        "activemq_watchdog_hung == 1",
        "The watchdog of {{ $labels.host }} sees its broker hang",
        "Three looks in a row got no answer, and the broker listens or says that it serves. It keeps its lock: nobody "
        "takes over while it hangs.",
        "With activemq_watchdog: kill it is ended by itself. Else take a thread dump and end it; its journal "
        "has the command (docs/watchdog.md).",
    ),
    Alert(
        "ActiveMQConfigurationDrift",
        "warning",
        "<15m>",
        "activemq:planned_configuration unless on (host, fingerprint) activemq_configuration_info"
        " and on (host) activemq_configuration_info",
        "{{ $labels.host }} does not have the configuration that was rendered last",
        "The configuration in force on the host is not the one of the inventory from which the rules of Prometheus "
        "were rendered: it was not deployed there yet, or another inventory was.",
        "Run the playbook `site` for the host, or render prometheus/ anew from the inventory that was deployed.",
        planned=True,
    ),
    Alert(
        "ActiveMQCertificateEnds",
        "warning",
        "<10m>",
        "activemq_certificate_expiry_timestamp_seconds - time() < 14 * 86400",
        "Certificate of {{ $labels.connector }} on {{ $labels.host }} ends in {{ $value | humanizeDuration }}",
        "The certificate that a connector shows, as the watchdog sees it, is valid for less than 14 days. After that "
        "clients and bridges refuse the broker.",
        "Renew it, put it into the keystore, and restart the pair (playbook `restart`). `activemq-fleet status` knows "
        "the certificates of agents, too.",
    ),
    Alert(
        "ActiveMQMetricsFailing",
        "warning",
        "<5m>",
        'jmx_scrape_error{job="activemq-brokers"} == 1',
        "The metrics of {{ $labels.host }} cannot be read",
        "The exporter answers, and reading the broker's MBeans fails: other alerts about this broker do not see it.",
        "The broker's output in the journal has the reason.",
    ),
)


def paced(text: str, pace: float) -> str:
    """Return a text with its durations in angle brackets, such as ``<5m>`` and ``<300>``, multiplied by ``pace``.

    A number without a unit stays one, in seconds; no duration becomes shorter than a second.
    """

    def replaced(match: re.Match[str]) -> str:
        number, unit = int(match[1]), match[2]
        if pace == 1:
            return f"{number}{unit}"
        seconds = max(1, round(number * _SECONDS[unit] * pace)) if number else 0
        return f"{seconds}s" if unit else str(seconds)

    return _DURATION.sub(replaced, text)
