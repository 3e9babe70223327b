"""Write what ``activemq-fleet store inspect`` has found as text for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from activemq_fleet.errors import names_to_text
from activemq_fleet.node.printable import count_with_noun, escape_unprintable

_SHOWN = 20


def store_report_lines(report: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of a report on a kahaDB message store, about its contents and damage.

    ``report`` is from ``inspect_store_as_dict``.
    """
    yield escape_unprintable(report["directory"])
    for generation in report["generations"]:
        yield (
            f"  generation {generation['number']} (a copy of the store, made at a takeover): "
            f"{_generation_state_text(generation)}"
        )
    end = report["end"]
    records = count_with_noun(sum(file["records"] for file in report["files"]), "record")
    files = count_with_noun(len(report["files"]), "file")
    last = f"; the last record ends at byte {end['offset']} of {end['file']}" if end["file"] else ""
    yield f"store journal: {files}, {records}{last}"
    for file in report["files"]:
        yield f"  {file['name']}  {count_with_noun(file['size'], 'byte')}, {count_with_noun(file['records'], 'record')}"
    if report["missing_files"]:
        names = names_to_text([f"db-{number}.log" for number in report["missing_files"]], most=_SHOWN)
        yield (
            f"  {names}: these data files do not exist. This is not an error: a broker removes data files "
            "that it no longer needs"
        )
    if report["index_lacks_files"]:
        yield (
            "DAMAGED: the store's index db.data requires these data files, which do not exist: "
            f"{', '.join(report['index_lacks_files'])}"
        )
        yield (
            "  Brokers up to 5.13 do not start with this index. Stop both nodes, and move db.data and db.redo "
            "to another directory: at its next start the broker builds a new index from the store journal"
        )
    if end["unfinished"]:
        yield (
            f"  {end['file']} ends with an incomplete write of a killed broker. No acknowledged message is lost, "
            "because the broker acknowledges a message only after the complete write"
        )
    unchecked = report["batches"] - report["checked_batches"]
    if unchecked:
        number = f"{unchecked:,} of {report['batches']:,} batches of records"
        yield (
            f"  {number} in the store journal have no checksum, so the command does not detect damage inside their "
            "messages"
        )
    yield "messages:"
    yield from _content_lines(report) or ("  none",)
    if not report["damaged_places"]:
        yield "the store journal is not damaged" if report["index_lacks_files"] else "no damage was found"
        return
    repair = "activemq-fleet help shared-stores Repair a damaged store"
    yield (
        f"DAMAGED: the store journal is damaged at {count_with_noun(report['damaged_places'], 'place')}. To "
        f"repair the store, see {repair}"
    )
    for damage in report["damages"]:
        yield from _damage_lines(damage)


def _generation_state_text(generation: dict[str, Any]) -> str:
    if generation["in_force"]:
        return "the pair uses this copy, which the following lines describe"
    broker_note = "the broker of this copy " + ("has stopped" if generation["ended"] else "may still run")
    kept_note = ", and only this copy holds some messages (activemq-fleet store behind lists them)"
    kept_note = kept_note if generation["kept"] else ""
    return f"{broker_note}{kept_note}"


def _content_lines(report: dict[str, Any]) -> list[str]:
    lines = [f"  queue://{escape_unprintable(queue['name'])}  {queue['messages']:,}" for queue in report["queues"]]
    lines += [
        f"  topic://{escape_unprintable(row['topic'])}  {row['messages']:,} for {escape_unprintable(row['key'])}"
        for row in report["subscriptions"]
    ]
    if report["prepared_transactions"]:
        prepared = count_with_noun(report["prepared_transactions"], "XA transaction")
        lines.append(f"  {prepared} prepared, but neither committed nor rolled back")
    return lines


def _damage_lines(damage: dict[str, Any]) -> Iterator[str]:
    location = f"{damage['file']}, byte {damage['start']} to {damage['stop']}"
    yield f"  {location}: the store journal is damaged here ({damage['reason']})"
    for message in damage["messages"][:_SHOWN]:
        yield f"    lost: {escape_unprintable(message['destination'])}  {escape_unprintable(message['message'])}"
    if len(damage["messages"]) > _SHOWN:
        yield f"    lost: {count_with_noun(len(damage['messages']) - _SHOWN, 'more message', 'more messages')}"
    if damage["acknowledgements"]:
        acknowledgements = count_with_noun(damage["acknowledgements"], "acknowledgement")
        yield f"    lost: {acknowledgements} of consumers: the broker delivers at most this number of messages again"
    if not damage["is_known"]:
        yield (
            f"    lost: {count_with_noun(damage['stop'] - damage['start'], 'byte')} of the store journal, "
            "whose content cannot be read"
        )
