"""One native API: a session, a client and its asynchronous twin have the same verbs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from mayfly import QueueManager, connect
from mayfly.client import Client, arguments
from mayfly.client.aio.client import AsyncClient, AsyncSchedule
from mayfly.client.connection import Schedule
from mayfly.engine import Session
from mayfly.testing import VirtualClock

#: The function that takes the keywords of a TypedDict.
_TAKERS: dict[str, Callable[..., object]] = {
    "MessageOptions": arguments.put_options,
    "PutOptions": arguments.put_options,
    "SubscribeOptions": arguments.subscribed,
}
#: What only one of them can have, and why.
_OF_CLIENT_ALONE = {"admin": "run() does what an operator does, on the client's thread"}
_OF_TWIN_ALONE = {
    "messages": "an asynchronous for loop",
    "run": "whatever has no coroutine",
}


def verbs(kind: type) -> dict[str, Mapping[str, inspect.Parameter]]:
    return {
        name: dict(expanded(inspect.signature(verb).parameters))
        for name, verb in vars(kind).items()
        if inspect.isfunction(verb) and not name.startswith("_")
    }


def expanded(
    parameters: Mapping[str, inspect.Parameter],
) -> Iterator[tuple[str, inspect.Parameter]]:
    """Yield parameters, with those that stand in a TypedDict one by one."""
    for name, each in parameters.items():
        if each.kind is inspect.Parameter.VAR_KEYWORD:
            options = each.annotation.removeprefix("Unpack[").rstrip("]")
            keywords = inspect.signature(_TAKERS[options]).parameters
            names = getattr(arguments, options).__annotations__
            yield from ((option, keywords[option]) for option in names)
        else:
            yield name, each


def test_a_put_has_all_keywords_of_a_message() -> None:
    keywords = inspect.signature(arguments.put_options).parameters
    options: dict[str, Any] = arguments.PutOptions.__annotations__
    given = {name: kind.__forward_arg__ for name, kind in options.items()}
    assert given == {name: each.annotation for name, each in keywords.items()}


def test_a_subscription_has_all_keywords_of_its_options() -> None:
    _connection, _topic, *keywords = inspect.signature(arguments.subscribed).parameters.values()
    options: dict[str, Any] = arguments.SubscribeOptions.__annotations__
    given = {name: kind.__forward_arg__ for name, kind in options.items()}
    assert given == {each.name: each.annotation for each in keywords}
    said = inspect.getdoc(Client.subscribe) or ""
    assert [name for name in given if f"``{name}``" not in said] == []


def test_help_names_the_keywords_of_a_put_and_an_error_the_wrong_one() -> None:
    said = inspect.getdoc(Client.put) or ""
    names = arguments.PutOptions.__annotations__
    assert [name for name in names if f"``{name}``" not in said] == []
    with QueueManager("QM1", clock=VirtualClock()) as manager:
        manager.mqsc("DEFINE QLOCAL(Q1)")
        wrong = pytest.raises(TypeError, match=r"put_options\(\) .* argument 'ttl_ms'")
        with connect("QM1") as client, wrong:
            client.put("Q1", b"", ttl_ms=5)  # type: ignore[call-arg]  # wrong on purpose
        assert manager.curdepth("Q1") == 0


def names(kind: type) -> set[str]:
    return {name for name in vars(kind) if not name.startswith("_")}


def test_the_asynchronous_twin_has_the_verbs_of_a_client() -> None:
    assert names(Client) - names(AsyncClient) == set(_OF_CLIENT_ALONE)
    assert names(AsyncClient) - names(Client) == set(_OF_TWIN_ALONE)


@pytest.mark.parametrize("name", sorted(verbs(Client)))
def test_a_verb_has_the_same_parameters_in_the_twin(name: str) -> None:
    """Names, order, defaults and types."""
    assert dict(verbs(Client)[name]) == dict(verbs(AsyncClient)[name])


@pytest.mark.parametrize("name", sorted(verbs(Client).keys() & verbs(Session).keys()))
def test_a_session_takes_what_a_client_takes(name: str) -> None:
    """A session of this process may take more; its defaults are the same."""
    taken, asked = verbs(Session)[name], verbs(Client)[name]
    assert asked.keys() <= taken.keys()
    assert {each: asked[each].kind for each in asked} == {each: taken[each].kind for each in asked}
    differing = {each for each in asked if asked[each].default != taken[each].default}
    # A session has no CorrelId of its own for None, a client has the publisher's.
    assert differing <= {"correl_id"}


def test_the_schedule_of_the_twin_has_the_same_operations_and_parameters() -> None:
    taken, asked = verbs(Schedule), verbs(AsyncSchedule)
    assert {name: dict(each) for name, each in taken.items()} == {
        name: dict(each) for name, each in asked.items()
    }
