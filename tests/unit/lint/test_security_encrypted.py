"""Tests with values that the command line of jasypt 1.9.3 encrypted: with DES, its default, and with AES."""

from __future__ import annotations

import pytest

from tests.support.security_findings import security_findings

LINK = '<networkConnector name="south" uri="static:(tcp://south:61616)" userName="net" password="{}"/>'
DES = {
    6: "Gv7I4xB0na81GA88XYoq/Q==",
    24: "EqOPhz4eXZanJrm5ZoQ1KJKOgfGWopppgeUKXQmX2yEygbyVBdRA+g==",
    40: "8frEAd3byot1BdZyTc7XvLkmp5MSGKeo04KlcBKWY0ZdJP8F4hAE5ApKoW5bY2NFcmNyz0cnKec=",
}
AES = {
    6: "jCE0B0XoN2B/Fjy64FbZ6GY8xUrhRD6yyKJq2VC+59zrBiGkpXnvCSR9Pc1c6xy7",
    24: "jAqI1dmaaVfJ3hNtmmFyPUPnuJUfWDnn+NM6qYXjNKju1n5iUrZiDpJmYmHOseUkVd2HbO4i26XzgtAJnps3TA==",
    40: "wzPyddA9YLGtGodRN1kGmgu1tgrw0u+Oo7fd3bvZQyBEEMZZI1ZFLbrUMqOP1B/JEnopV93dnSzSFM6w8jtBku0ioUrAJO8fvKP8SWeOh+g=",
}


@pytest.mark.parametrize("value", DES.values(), ids=map(str, DES))
def test_password_encrypted_with_des_is_reported_in_xml_and_properties(value: str) -> None:
    (finding,) = security_findings("S021", LINK.format(f"ENC({value})"))
    assert "the password of link south" in finding.message
    (finding_in_properties,) = security_findings(
        "S021", LINK.format("${p}"), credentials_properties=f"a=b\np=ENC({value})\n"
    )
    assert (finding_in_properties.file, finding_in_properties.line) == ("conf/credentials.properties", 2)


@pytest.mark.parametrize("value", AES.values(), ids=map(str, AES))
def test_password_encrypted_with_aes_is_not_reported(value: str) -> None:
    assert security_findings("S021", LINK.format(f"ENC({value})")) == []


@pytest.mark.parametrize("value", ["ENC()", "ENC(abc)", "ENC(not base64 at all)", "${p}", "ENC(AAAA=AAAAAAAAAAAA)"])
def test_password_without_encrypted_text_is_not_reported(value: str) -> None:
    assert security_findings("S021", LINK.format(value)) == []
