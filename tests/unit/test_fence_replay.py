"""Messages in the two OpenWire formats of a store, and the event id that an agent wrote into them."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from click.testing import CliRunner

from activemq_fleet.cli.store import store_command
from activemq_fleet.node.fence.shared_store import SharedStore
from activemq_fleet.node.kahadb.openwire_message import event_id_of_message, parse_openwire_message


def openwire_string(content: str) -> bytes:
    return b"\1" + struct.pack(">H", len(content)) + content.encode()


def stored_message(version: int, body: bytes) -> bytes:
    """Return a message of a producer's transaction in the format of a store of an OpenWire version."""
    producer = b"\1\x7b" + openwire_string("ID:p") + struct.pack(">qq", 1, 1)
    queue = b"\1\x64" + openwire_string("orders")
    transaction = b"\1\x6f" + struct.pack(">q", 7) + b"\1\x78" + openwire_string("ID:p")
    message_id = b"\1\x6e" + (b"\0" if version >= 10 else b"") + producer + struct.pack(">qq", 5, 0)
    message_content = b"\1" + struct.pack(">i", len(body)) + body
    fields_before = (
        producer + queue + transaction + b"\0" + message_id + b"\0" + b"\0" + bytes(4) + b"\0" + b"\1" + bytes(9)
    )
    fields_after = (
        message_content
        + b"\0" * 3
        + bytes(5)
        + b"\0"
        + bytes(8)
        + openwire_string("user")
        + bytes(2)
        + b"\0"
        + bytes(16)
    )
    version_tail = b"\0" if version >= 10 else b""
    inner = struct.pack(">BiB", 24, 3, 0) + fields_before + b"\0" + bytes(8) + b"\0" + fields_after + version_tail
    return struct.pack(">i", len(inner)) + inner


@pytest.mark.parametrize("version", [6, 11])
def test_parsed_openwire_message_has_version_positions_of_fields_and_event_id(version: int) -> None:
    frame = stored_message(version, b'{"eventId": "agent:1", "x": 2}')
    message = parse_openwire_message(frame)
    assert message.version == version
    assert frame[message.destination : message.transaction].endswith(b"orders")
    assert frame[message.message_id : message.message_id + 2] == b"\1\x6e"
    assert event_id_of_message(frame) == "agent:1"


@pytest.mark.parametrize("body", [b"plain", b'["eventId"]', b'{"eventId": 3}', b'{"eventId'])
def test_event_id_of_body_without_event_id_is_empty(body: bytes) -> None:
    assert event_id_of_message(stored_message(11, body)) == ""


def test_openwire_frame_of_unknown_format_is_refused() -> None:
    with pytest.raises(ValueError, match="neither the format of OpenWire 6 nor that of OpenWire 11"):
        parse_openwire_message(stored_message(11, b"x")[:-2])


def test_store_behind_reports_no_uncopied_messages_and_refuses_unfenced_directory(tmp_path: Path) -> None:
    refused = CliRunner().invoke(store_command, ["behind", str(tmp_path)])
    assert "is not the store of a pair with activemq_fence: guard" in str(refused.exception)
    SharedStore(str(tmp_path)).make_directories()
    shown = CliRunner().invoke(store_command, ["behind", str(tmp_path)])
    assert "the store's newest copy (generation) has all messages of its older copies" in shown.output
