"""Distinguished names of certificates, and the patterns of SSLPEER."""

import pytest

from mayfly.mqi.channel_names import attributes_of, check_pattern, is_matched, spelled

NAME = "CN=app.shop,OU=Orders,OU=Sales,O=Example,C=DE"


@pytest.mark.parametrize(
    ("pattern", "is_expected"),
    [
        ("", True),
        ("CN=app.shop", True),
        ("cn=app.shop", True),
        ("CN=APP.SHOP", True),
        ("CN=*SHOP,O=EXAMPLE", True),
        ("CN=app*shop", False),
        ("CN=*p.s*", True),
        ("CN=*", True),
        (r"CN=app\*", False),
        ("CN=app.shop,CN=app.shop", False),
        ("CN=app*", True),
        ("CN=*shop", True),
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


@pytest.mark.parametrize(
    ("name", "pattern", "is_expected"),
    [
        ("O=Evil,O=Example,CN=x,CN=app", "CN=app,O=Example", False),
        ("CN=app,CN=x,O=Example,O=Evil", "CN=app,O=Example", False),
        ("CN=app,O=Example,O=Evil", "CN=app,O=Example", False),
        ("CN=app,CN=app,O=Example", "CN=app,O=Example", False),
        ("CN=app,CN=app,O=Example", "CN=*", False),
        ("CN=app,O=Example,O=Evil", "CN=app", True),
        ("CN=app,E=a@b,MAIL=c@d,O=Example", "E=a@b", False),
        ("CN=app,OU=Sales,OU=Orders,O=Example", "CN=app,OU=Sales,O=Example", True),
        ("CN=app,OU=Sales,OU=Orders,O=Example", "OU=Sales,OU=Orders", True),
        ("DC=org,DC=example,CN=app", "DC=org,DC=example", True),
        ("CN=app,1.2.3.4=x,O=Example", "O=Example", True),
    ],
)
def test_an_attribute_that_stands_twice_is_matched_by_no_pattern_but_OU_and_DC(
    name: str, pattern: str, is_expected: bool
) -> None:
    assert is_matched(name, pattern) is is_expected


def test_a_pattern_that_no_name_can_match_is_refused() -> None:
    check_pattern("OU=a,OU=b,DC=x,DC=y,CN=app")
    check_pattern("")
    for text in ("CN=a,O=b,CN=c", "E=a,MAIL=b", "S=a,ST=a"):
        with pytest.raises(ValueError, match="stands there twice"):
            check_pattern(text)


def test_the_name_of_a_certificate_has_the_highest_unit_first() -> None:
    """As in the order of a certificate, and as IBM MQ wants it in SSLPEER."""
    subject = (
        (("domainComponent", "org"),),
        (("domainComponent", "example"),),
        (("organizationName", "Example"),),
        (("organizationalUnitName", "Software"),),
        (("organizationalUnitName", "MQ"),),
        (("1.2.3.4", "x"),),
        (("commonName", "a*"),),
    )
    text = spelled(subject)
    assert text == "CN=a*,1.2.3.4=x,OU=Software,OU=MQ,O=Example,DC=org,DC=example"
    assert is_matched(text, r"CN=a\*,OU=Software,OU=MQ")
    assert not is_matched(text, "OU=MQ,OU=Software")


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
