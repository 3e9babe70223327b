"""Host names and lists of addresses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activemq_fleet.addresses import (
    format_mb_urls_value_of_agent_conf,
    parse_address_and_tls,
    parse_host_port,
    validated_host_name,
)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("h:1883", ("h", 1883)),
        (" h.example.com:1 ", ("h.example.com", 1)),
        ("[::1]:1883", ("::1", 1883)),
        ("127.0.0.1:65535", ("127.0.0.1", 65535)),
    ],
)
def test_address_text_is_parsed_to_host_and_port(text: str, address: tuple[str, int]) -> None:
    assert parse_host_port(text) == address


@pytest.mark.parametrize("text", ["h", "h:", ":1", "h:0", "h:65536", "::1:1883", "h:1x", "h:١", "a b:1", "vm://x:1"])
def test_address_without_valid_host_and_port_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"host|port"):
        parse_host_port(text)


@pytest.mark.parametrize("name", ["a_b", "1host", "host.01", "-a", "a-", "a..b", "", "a" * 64, "é", "a/b", "${x}"])
def test_host_names_that_java_cannot_resolve_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"the host name|the label|the last label"):
        validated_host_name(name)


@given(
    st.lists(
        st.tuples(
            st.one_of(
                st.from_regex(r"[a-z][a-z0-9]{0,8}(\.[a-z][a-z0-9]{0,8}){0,2}", fullmatch=True),
                st.ip_addresses().map(str),
            ),
            st.integers(1, 65535),
        ),
        min_size=1,
    )
)
def test_formatted_mb_urls_are_parsed_to_same_addresses(addresses: list[tuple[str, int]]) -> None:
    assert [
        parse_host_port(address) for address in format_mb_urls_value_of_agent_conf(addresses).split(",")
    ] == addresses


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.example.com:1883", (("a.example.com", 1883), False)),
        (" ssl://a.example.com:8883 ", (("a.example.com", 8883), True)),
        ("SSL://[::1]:8883/", (("::1", 8883), True)),
    ],
)
def test_scheme_of_address_selects_tls(text: str, expected: object) -> None:
    assert parse_address_and_tls(text) == expected


def test_address_with_unsupported_scheme_is_refused_with_supported_forms() -> None:
    with pytest.raises(ValueError, match=r"has the scheme mqtt://, which is not supported: write HOST:PORT"):
        parse_address_and_tls("mqtt://a.example.com:1883")
