"""Ids of events, and where they stand in payloads."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activemq_agent.agent_errors import RequestRefusedError
from activemq_agent.identity import add_event_id, event_id_in, validated_event_id

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), JSON, max_size=5))
def test_an_object_gets_the_id_and_keeps_its_members(content: dict[str, object]) -> None:
    content.pop("eventId", None)
    sent = add_event_id(json.dumps(content).encode(), 'i"d', envelope=False)
    assert json.loads(sent) == {"eventId": 'i"d', **content}
    assert event_id_in(sent) == 'i"d'


def test_the_bytes_of_an_object_stay_as_the_caller_wrote_them() -> None:
    payload = b' {\n "n": 1.10000000000000000000001, "n": 12345678901234567890123456789, "e":"\\u00e9" }\n'
    assert add_event_id(payload, "i", envelope=True) == b' {\n "eventId":"i",' + payload[4:]


@pytest.mark.parametrize("payload", [b'{"eventId":"own"}', b'{"\\u0065ventId":"own"}', b'{"eventId":7}'])
def test_an_id_that_the_caller_set_is_kept(payload: bytes) -> None:
    assert add_event_id(payload, "other", envelope=True) == payload


def test_a_callers_id_is_found_however_it_is_spelled() -> None:
    assert event_id_in(b'{"a":1,"\\u0065ventId":"own"}') == "own"


@pytest.mark.parametrize("payload", [b'{"eventId":7}', b'{"eventId":""}', b'["eventId"]', b'{"x":{"eventId":"no"}}'])
def test_what_is_no_text_or_elsewhere_is_no_id(payload: bytes) -> None:
    assert event_id_in(payload) is None


@pytest.mark.parametrize(
    "payload", [b"", b"text", b"[1]", b"{", b'{"a":NaN}', b"\xff\x00", b'"eventId"', b"{" * 100_000]
)
def test_any_other_payload_goes_out_unchanged_without_envelope(payload: bytes) -> None:
    assert add_event_id(payload, "i", envelope=False) == payload
    assert event_id_in(payload) is None


@given(st.binary(max_size=50))
def test_an_envelope_carries_any_payload_and_the_id(payload: bytes) -> None:
    if not payload.lstrip().startswith(b"{"):
        sent = json.loads(add_event_id(payload, "i", envelope=True))
        assert sent.pop("eventId") == "i"
        assert list(sent) in (["payload"], ["payload_base64"])
        assert "payload" not in sent or sent["payload"].encode() == payload


@pytest.mark.parametrize("text", ["", "x" * 513, "a\nb", "\ud800"])
def test_an_id_that_cannot_be_written_is_refused(text: str) -> None:
    with pytest.raises(RequestRefusedError, match="printable"):
        validated_event_id(text)
