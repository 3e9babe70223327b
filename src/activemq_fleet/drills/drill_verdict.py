"""Determine the verdict of a drill, and the reasons for it as sentences."""

from __future__ import annotations

from collections.abc import Sequence

from activemq_fleet.drills.model import DrillResult, DrillVerdict, Fault, PairEventCounts
from activemq_fleet.node.printable import count_with_noun

LOWEST_RATE = 50.0
"""Rate in events per second below which a fault does not count."""
ATTEMPTS = 3
"""Largest number of attempts to inject a fault with enough events in flight."""


def minimum_event_rate(intended_rate: float) -> float:
    """Return the lowest rate of a drill's test load, in events per second, at which an injected fault is a valid test.

    It is 50, or half of the intended rate if that is lower.
    """
    return min(LOWEST_RATE, intended_rate / 2)


def fault_void_reason(accepted: float, handled: float, rate: float) -> str | None:
    """Return the reason why a fault is no valid test: the load before it was too low; None if it was sufficient.

    Such a fault is void: too few events flowed in the second before it.
    """
    required_rate, lower_rate = minimum_event_rate(rate), min(accepted, handled)
    if lower_rate >= required_rate:
        return None
    return (
        f"the test load was {lower_rate:.0f} events per second before the fault, but the drill requires "
        f"{required_rate:.0f}"
    )


def drill_verdict_and_reasons(
    faults: Sequence[Fault],
    accounts: Sequence[PairEventCounts],
    planned_count: int,
    load_problem: str | None = None,
) -> tuple[DrillVerdict, tuple[str, ...]]:
    """Return the verdict of a drill, such as ``clean``, and the reasons for the verdict.

    The most severe reason comes first, such as lost events. ``findings``: events were lost, duplicated or stuck,
    or a fault failed. ``incomplete``: a journal has a gap, so that nothing is certain, or the load ended too early, for
    the reason ``load_problem``. ``void``: too few faults, or too little load, to prove anything. ``clean``: none of
    these.
    """
    failures = [*_loss_sentences(accounts), *_failed_fault_sentences(faults)]
    missing = [f"incomplete: {load_problem}"] if load_problem else []
    missing += [f"incomplete: {gap}" for account in accounts for gap in account.gaps]
    missing += [
        f"it is not known whether {count_with_noun(account.indeterminate, 'event')} of pair {account.pair} arrived"
        for account in accounts
        if account.indeterminate and not account.gaps
    ]
    weaknesses = _weakness_sentences(faults, accounts, planned_count)
    reasons = (*failures, *missing, *weaknesses)
    if failures:
        return "findings", reasons
    if missing:
        return "incomplete", reasons
    return ("void", reasons) if weaknesses else ("clean", ())


def drill_headline(result: DrillResult) -> str:
    """Return the headline of a drill: one sentence that summarizes its result."""
    faults = len(result.faults_under_sufficient_load)
    summary = f"{faults} fault{_plural_suffix(faults)}, {result.event_count_of_all_pairs('accepted'):,} events accepted"
    if result.verdict == "clean":
        return f"Nothing was lost: {summary}, each event handled once."
    if result.verdict == "void":
        return f"This drill is inconclusive: {result.reasons[0]}. Check the logs of the brokers, and repeat the drill."
    if result.verdict == "incomplete":
        reason = result.reasons[0].removeprefix("incomplete: ")
        return f"It is not known whether events were lost: {reason}. Repeat the drill."
    if lost := result.event_count_of_all_pairs("lost"):
        return f"{lost:,} event{_plural_suffix(lost)} lost: {summary}."
    return f"The fleet did not pass the drill: {result.reasons[0]}."


def loss_probability_upper_bound(faults: int) -> float:
    """Return an upper bound of the probability that a fault loses events, after a number of faults without loss.

    The bound (0 to 1) is that of 95 % confidence. ``faults`` is the number of faults without a loss.
    """
    return float(1 - 0.05 ** (1 / faults)) if faults else 1.0


def _loss_sentences(accounts: Sequence[PairEventCounts]) -> list[str]:
    sentences = []
    for name, words in (
        ("lost", "lost"),
        ("stuck", "not yet delivered at the end of the drill"),
        ("duplicate", "handled more than once"),
    ):
        for account in accounts:
            count = getattr(account, name)
            if count:
                first_event = next((unit for unit in account.units if unit.verdict == name), None)
                example = f" (event {first_event.event_id}: {first_event.reason})" if first_event else ""
                verb = "was" if count == 1 else "were"
                sentences.append(f"{count} of {account.accepted} events of pair {account.pair} {verb} {words}{example}")
    return sentences


def _failed_fault_sentences(faults: Sequence[Fault]) -> list[str]:
    return [f"fault {fault.number} at host {fault.host}: {fault.problem}" for fault in faults if fault.problem]


def _weakness_sentences(faults: Sequence[Fault], accounts: Sequence[PairEventCounts], planned_count: int) -> list[str]:
    counted_faults = [fault for fault in faults if fault.void is None]
    sentences = []
    if len(counted_faults) < planned_count:
        last = next((fault.void for fault in reversed(faults) if fault.void), None)
        sentences.append(
            f"only {len(counted_faults)} of {planned_count} planned faults were measured"
            + (f": {last}" if last else "")
        )
    sentences += [
        f"no broker accepted an event of the test load on pair {account.pair}"
        for account in accounts
        if not account.accepted
    ]
    return sentences


def _plural_suffix(count: int) -> str:
    return "" if count == 1 else "s"
