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
    yield from _index_lines(report)
    if end["is_last_batch_cut"]:
        yield from _incomplete_batch_lines(report)
    elif end["unfinished"]:
        yield f"  {end['file']} ends with an incomplete write, as a killed broker leaves it. {_unfinished_note(report)}"
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
        if not report["is_damaged"]:
            yield "no damage was found"
        elif not report["cut_off"] and not end["is_last_batch_cut"]:
            yield "the store journal is not damaged"
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


def _index_lines(report: dict[str, Any]) -> Iterator[str]:
    if report["index_state"] == "damaged":
        yield f"DAMAGED: the store's index db.data cannot be read ({escape_unprintable(report['index_problem'])})"
        yield (
            "  Stop both nodes, and move db.data and db.redo to another directory: at its next start the broker "
            "builds a new index from the store journal. Brokers up to 5.13.0 then lose messages of durable "
            "subscriptions: see activemq-fleet help shared-stores Durable subscriptions"
        )
    if report["index_state"] == "changing":
        yield "  a broker changed the index db.data while it was read, so it was not compared with the store journal"
    if report["index_lacks_files"]:
        yield (
            "DAMAGED: the store's index db.data requires these data files, which do not exist: "
            f"{', '.join(report['index_lacks_files'])}"
        )
        yield (
            "  Brokers up to 5.13 do not start with this index. Stop both nodes, and move db.data and db.redo "
            "to another directory: at its next start the broker builds a new index from the store journal"
        )
    if cut_off := report["cut_off"]:
        yield (
            f"DAMAGED: the end of the store journal is missing: the index db.data refers to a record at byte "
            f"{cut_off['index_offset']} of {cut_off['file']}, but the records of this file end at byte {cut_off['end']}"
        )
        for row in cut_off["messages"]:
            number = count_with_noun(row["messages"], "message")
            yield f"    lost: {escape_unprintable(row['destination'])}  {number} in the index"
        yield (
            "  Later messages, which the index does not have yet, may also be lost. Restore the data files from a copy "
            "or a backup before a broker opens the store, because the broker removes the lost messages from the index"
        )


def _incomplete_batch_lines(report: dict[str, Any]) -> Iterator[str]:
    end = report["end"]
    size = next(file["size"] for file in report["files"] if file["name"] == end["file"])
    yield (
        f"DAMAGED: {end['file']} ends at byte {size}, inside of its last batch of records, which begins at byte "
        f"{end['offset']} and has no checksum"
    )
    yield (
        "  A killed broker does not leave such a file. Brokers up to 5.11 do not start with it (java.io.EOFException), "
        "and later brokers ignore the incomplete batch. Restore the data file from a copy or a backup. If none exists, "
        "stop the broker and, in a pair, the broker of the other node, and remove the incomplete batch: "
        f"truncate --size={end['offset']} {end['file']}"
    )


def _unfinished_note(report: dict[str, Any]) -> str:
    """Return what an incomplete write at the end of the journal means; only the index shows whether more is missing."""
    if report["index_state"] != "read":
        return "Without the index, the command does not detect whether complete records after it are missing"
    if report["cut_off"]:
        return "Complete records after it are missing"
    return (
        "The index refers to no record after it. If only a kill caused it, no acknowledged message is lost, because "
        "the broker acknowledges a message only after the complete write"
    )


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
