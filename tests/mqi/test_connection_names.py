"""Connection names, as CONNAME, MQSERVER and MQCD have them."""

from __future__ import annotations

import pytest

from mayfly.mqi.channel_names import Place, places_of


def test_a_place_is_a_host_and_perhaps_a_port() -> None:
    assert places_of("host") == [Place("host", None)]
    assert places_of("a.b-c_1(1414), [::1] ( 65535 ),2001:db8::1(1)") == [
        Place("a.b-c_1", 1414),
        Place("::1", 65535),
        Place("2001:db8::1", 1),
    ]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "'' is not host or host(port)"),
        ("host()", "'host()' is not host or host(port)"),
        ("host(0)", "port 0 is not 1 to 65535"),
        ("host(65536)", "port 65536 is not 1 to 65535"),
        ("host(1)x", "'host(1)x' is not host or host(port)"),
        ("a(1), ", "'' is not host or host(port)"),
        ("[::1", "'[::1' is not host or host(port)"),
        ("host(\u0661)", "'host(\u0661)' is not host or host(port)"),
        ("mq://host", "'mq://host' is not host or host(port)"),
    ],
)
def test_a_name_that_is_none_is_refused_with_the_part_that_is_wrong(name: str, said: str) -> None:
    with pytest.raises(ValueError, match="is not") as raised:
        places_of(name)
    assert str(raised.value) == said
