"""Distinguished names of certificates, and the patterns of SSLPEER."""

import pytest

from mayfly.mqi.distinguished_names import attributes_of, is_matched, spelled

NAME = "CN=app.shop,OU=Orders,OU=Sales,O=Example,C=DE"


@pytest.mark.parametrize(
    ("pattern", "is_expected"),
    [
        ("", True),
        ("CN=app.shop", True),
        ("cn=app.shop", True),
        ("CN=APP.SHOP", False),
        ("CN=app*", True),
        ("CN=*shop", True),
        ("CN=*", True),
        ("CN=other", False),
        ("O=Example,CN=app.shop", True),
        ("CN=app.shop, OU=Sales", True),
        ("OU=Orders,OU=Sales", True),
        ("OU=Sales,OU=Orders", False),
        ("OU=*,OU=*,OU=*", False),
        ("L=*", False),
        ('CN="app.shop";O="Ex*"', True),
    ],
)
def test_a_pattern_gives_some_attributes_those_of_one_key_in_order(
    pattern: str, is_expected: bool
) -> None:
    assert is_matched(NAME, pattern) is is_expected
    assert is_matched("", pattern) is (not pattern)


@pytest.mark.parametrize("text", ["app", "CN", "CN=a,b", "=a", 'CN="a', "CN=a\\", ",CN=a"])
def test_what_is_no_name_is_refused_with_its_text(text: str) -> None:
    with pytest.raises(ValueError, match="is no attribute of a distinguished name"):
        attributes_of(text)


def test_a_certificate_of_pythons_ssl_is_spelled_as_MQ_does() -> None:
    subject = (
        (("countryName", "DE"),),
        (("organizationName", 'Smith, "Sons" & Co'),),
        (("organizationalUnitName", "Sales"),),
        (("commonName", "app"), ("emailAddress", "app@example.org")),
    )
    text = spelled(subject)
    said = 'MAIL=app@example.org,CN=app,OU=Sales,O="Smith, \\"Sons\\" & Co",C=DE'
    assert text == said
    assert attributes_of(text) == [
        ("MAIL", "app@example.org"),
        ("CN", "app"),
        ("OU", "Sales"),
        ("O", 'Smith, "Sons" & Co'),
        ("C", "DE"),
    ]
    assert is_matched(text, "O=Smith*,E=app@*")
    assert spelled(()) == ""
