"""Event ids and their position in payloads."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activemq_agent.agent_errors import RequestRefusedError
from activemq_agent.payload_envelope import add_event_id, event_id_in, validated_event_id

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), JSON, max_size=5))
def test_event_id_is_added_to_json_payload_and_other_members_are_kept(content: dict[str, object]) -> None:
    content.pop("eventId", None)
    sent = add_event_id(json.dumps(content).encode(), 'i"d', envelope=False)
    assert json.loads(sent) == {"eventId": 'i"d', **content}
    assert event_id_in(sent) == 'i"d'


def test_bytes_of_json_payload_stay_unchanged_when_event_id_is_added() -> None:
    payload = b' {\n "n": 1.10000000000000000000001, "n": 12345678901234567890123456789, "e":"\\u00e9" }\n'
    assert add_event_id(payload, "i", envelope=True) == b' {\n "eventId":"i",' + payload[4:]


@pytest.mark.parametrize("payload", [b'{"eventId":"own"}', b'{"\\u0065ventId":"own"}', b'{"eventId":7}'])
def test_event_id_set_by_caller_is_kept(payload: bytes) -> None:
    assert add_event_id(payload, "other", envelope=True) == payload


def test_event_id_with_escaped_key_is_read() -> None:
    assert event_id_in(b'{"a":1,"\\u0065ventId":"own"}') == "own"


@pytest.mark.parametrize("payload", [b'{"eventId":7}', b'{"eventId":""}', b'["eventId"]', b'{"x":{"eventId":"no"}}'])
def test_event_id_that_is_no_text_or_not_at_top_level_is_ignored(payload: bytes) -> None:
    assert event_id_in(payload) is None


@pytest.mark.parametrize(
    "payload", [b"", b"text", b"[1]", b"{", b'{"a":NaN}', b"\xff\x00", b'"eventId"', b"{" * 100_000]
)
def test_payload_that_is_no_json_object_stays_unchanged_without_envelope(payload: bytes) -> None:
    assert add_event_id(payload, "i", envelope=False) == payload
    assert event_id_in(payload) is None


@given(st.binary(max_size=50))
def test_envelope_contains_payload_and_event_id(payload: bytes) -> None:
    if not payload.lstrip().startswith(b"{"):
        sent = json.loads(add_event_id(payload, "i", envelope=True))
        assert sent.pop("eventId") == "i"
        assert list(sent) in (["payload"], ["payload_base64"])
        assert "payload" not in sent or sent["payload"].encode() == payload


@pytest.mark.parametrize("text", ["", "x" * 513, "a\nb", "\ud800"])
def test_event_id_that_is_empty_too_long_or_unprintable_is_refused(text: str) -> None:
    with pytest.raises(RequestRefusedError, match="printable"):
        validated_event_id(text)
