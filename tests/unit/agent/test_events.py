"""Events go out once, and stay until the gateway has them."""

from __future__ import annotations

from edgewright.agent.events import MAX_SENT, MAX_WAITING, Events


def test_the_same_problem_is_told_once_until_it_is_over() -> None:
    events = Events()
    assert events.problem("podman", reason="PodmanUnavailable", message="no\n answer") is True
    assert events.problem("podman", reason="PodmanUnavailable", message="no answer") is False
    assert events.problems == {"podman": "no answer"}
    assert events.problem("podman", reason="PodmanUnavailable", message="another") is True
    assert events.solved("podman", reason="PodmanAvailable", message="back") is True
    assert events.solved("podman") is False
    assert events.problems == {}
    assert [(each.type, each.message) for each in events.to_send()] == [
        ("warn", "no answer"),
        ("warn", "another"),
        ("info", "back"),
    ]


def test_an_event_waits_until_the_gateway_has_it_and_the_oldest_go_where_there_are_too_many() -> None:
    events = Events()
    for number in range(MAX_WAITING + 5):
        events.info(reason="N", message=str(number))
    first = events.to_send()
    assert len(first) == MAX_SENT
    assert first[0].message == "5"
    assert events.to_send() == first
    events.sent(first)
    assert events.to_send()[0].message == str(5 + MAX_SENT)
    events.sent(first)  # an answer that comes late takes nothing away
    assert events.to_send()[0].message == str(5 + MAX_SENT)


def test_what_is_solved_without_words_is_not_told() -> None:
    events = Events()
    events.problem("x", reason="R", message="m")
    events.sent(events.to_send())
    assert events.solved("x") is True
    assert events.to_send() == ()
