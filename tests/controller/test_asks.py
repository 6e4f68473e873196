"""How a controller asks for claims: under which nonce, dated by which call, and what becomes of claims that nobody takes."""

from __future__ import annotations

import asyncio

from atf.controller.asks import FRESH_S
from atf.controller.losses import parse_death
from atf.errors import DeadlineExceeded, InvalidArgument, Unavailable
from atf.rpc import hsc_pb2 as h
from atf.rpc.lambda_sets import digest_of
from atf.task import US
from tests.virtual import virtual

from .fakes import AGAIN, DIGEST, UNKNOWN_SET, Script, claims, scripted

GONE = Unavailable("connection refused")


def ids(reply: object) -> list[str]:
    return [each.task_id for each in reply.claims]  # type: ignore[attr-defined]


@virtual(scripted(pool="blue"))
async def test_an_ask_says_in_whose_name_for_what_and_under_which_nonce(s: Script) -> None:
    s.hsc.put(claims("a"), after=0.5)
    reply = await s.ask("e1", nonce="of-this-call", most=7, wait=30)
    assert ids(reply) == ["a"]
    (request,) = s.hsc.asked
    assert (request.executor_id, request.nonce, request.max_tasks) == ("e1", "of-this-call", 7)
    assert (request.pool, request.host, request.heartbeat_timeout_us) == ("blue", "host-1", 16 * US)
    assert (request.wait_us, request.waited_us, request.repeated) == (30 * US, 0, False)
    assert request.lambda_set == digest_of({"shop/mail": DIGEST, "shop/bill": DIGEST})
    assert list(request.lambdas) == [], "a set is named by its digest"


@virtual(scripted())
async def test_the_lease_counts_from_the_sending_of_the_call_that_brought_the_claims(s: Script) -> None:
    s.hsc.put(AGAIN, after=20)
    s.hsc.put(claims("a"), after=1)
    began_us = s.runtime.boottime_us()
    reply = await s.ask()
    assert reply.claim_sent_us == began_us + 20 * US
    assert [(each.waited_us, each.repeated, each.nonce) for each in s.hsc.asked] == [
        (0, False, "n1"),
        (20 * US, False, "n1"),
    ]


@virtual(scripted())
async def test_a_set_that_the_hsc_does_not_know_is_named_at_once(s: Script) -> None:
    s.hsc.put(UNKNOWN_SET, claims("a"))
    began = asyncio.get_running_loop().time()
    assert ids(await s.ask()) == ["a"]
    assert asyncio.get_running_loop().time() == began
    first, second = s.hsc.asked
    assert (list(first.lambdas), list(second.lambdas)) == ([], ["shop/mail", "shop/bill"])
    assert list(second.signatures) == [DIGEST, DIGEST]
    assert not second.repeated, "nothing was claimed"


@virtual(scripted())
async def test_an_hsc_that_never_knows_a_set_is_not_asked_all_the_time(s: Script) -> None:
    s.hsc.put(*[UNKNOWN_SET] * 100)
    assert ids(await s.ask(wait=10)) == []
    assert len(s.hsc.asked) < 25


@virtual(scripted())
async def test_a_call_that_broke_is_repeated_with_its_nonce_until_it_is_answered(s: Script) -> None:
    s.hsc.put(GONE, DeadlineExceeded("no answer"), claims("a"))
    assert ids(await s.ask()) == ["a"]
    assert [(each.nonce, each.repeated) for each in s.hsc.asked] == [("n1", False), ("n1", True), ("n1", True)]
    await s.settle()
    assert s.hsc.given_up == []


@virtual(scripted())
async def test_once_an_answer_has_come_the_next_call_is_no_repeat(s: Script) -> None:
    s.hsc.put(GONE, AGAIN, claims("a"))
    await s.ask()
    assert [each.repeated for each in s.hsc.asked] == [False, True, False]


@virtual(scripted())
async def test_claims_that_come_late_are_asked_for_again_and_dated_anew(s: Script) -> None:
    s.hsc.put(claims("a"), after=FRESH_S + 0.01)
    s.hsc.put(claims("a"), after=0.5)
    began_us = s.runtime.boottime_us()
    reply = await s.ask()
    assert (ids(reply), reply.claim_sent_us) == (["a"], began_us + round((FRESH_S + 0.01) * US))
    assert [each.repeated for each in s.hsc.asked] == [False, True]


@virtual(scripted())
async def test_a_call_whose_nonce_is_given_nothing_any_more_ends_at_once(s: Script) -> None:
    s.hsc.put(GONE, h.NextClaimsReply(over=True))
    began = asyncio.get_running_loop().time()
    assert ids(await s.ask(wait=30)) == []
    assert asyncio.get_running_loop().time() - began < 0.1
    await s.settle()
    assert s.hsc.given_up == [], "there is nothing to give up"


@virtual(scripted())
async def test_a_nonce_of_which_nothing_is_known_at_the_end_of_the_wait_is_given_up(s: Script) -> None:
    s.hsc.put(*[GONE] * 100)
    assert ids(await s.ask(wait=5)) == []
    await s.settle()
    assert s.hsc.given_up == [("e1", "n1")]


@virtual(scripted())
async def test_a_wait_that_ends_without_claims_gives_up_nothing(s: Script) -> None:
    assert ids(await s.ask(wait=5)) == []
    assert s.hsc.asked[0].wait_us == 5 * US
    await s.settle()
    assert s.hsc.given_up == []


@virtual(scripted())
async def test_a_request_that_the_hsc_refuses_is_not_repeated_all_the_time(s: Script) -> None:
    s.hsc.put(*[InvalidArgument("pool: no")] * 100)
    assert ids(await s.ask(wait=10)) == []
    assert len(s.hsc.asked) < 25


# --- withdrawn --------------------------------------------------------------------------------------------------------


@virtual(scripted())
async def test_a_call_that_takes_the_place_of_another_withdraws_it_and_leaves_its_nonce_to_the_executor(
    s: Script,
) -> None:
    first = s.asking(call=1)
    await asyncio.sleep(1)
    s.asking(call=2)
    await s.settle()
    assert ids(await first) == []
    assert [each.nonce for each in s.hsc.asked] == ["n1", "n2"]
    assert s.hsc.given_up == [], "the executor may have been answered by another controller, and only it knows"


@virtual(scripted())
async def test_a_late_copy_of_a_call_asks_for_nothing(s: Script) -> None:
    s.hsc.put(claims("a"))
    await s.ask(call=1, nonce="x")
    assert ids(await s.ask(call=1, nonce="x")) == []
    assert len(s.hsc.asked) == 1


@virtual(scripted())
async def test_what_an_executor_did_not_acknowledge_is_handed_back_with_its_next_call(s: Script) -> None:
    s.hsc.put(claims("a", "b"))
    assert (await s.ask(call=1)).number == 1
    s.asking(call=2, ack=0)
    await s.settle()
    assert s.hsc.handed_back == ["a", "b"]


@virtual(scripted())
async def test_a_drain_withdraws_all_asks_and_gives_their_nonces_up(s: Script) -> None:
    asking = [s.asking(f"e{number}") for number in (1, 2)]
    await asyncio.sleep(1)
    await s.controller.drain()
    assert [(await each).draining for each in asking] == [True, True]
    await s.settle()
    assert sorted(s.hsc.given_up) == [("e1", "n1"), ("e2", "n2")]
    assert s.hsc.hosts[-1].leaves


@virtual(scripted())
async def test_after_the_death_of_an_executor_what_it_was_never_given_is_free(s: Script) -> None:
    s.hsc.put(claims("never-arrived", "held"))
    await s.ask(stream="def")
    asking = s.asking(stream="async")  # whose answer would be the other's
    await s.settle()
    s.controller.executor_died(
        parse_death({"executor": "e1", "code": 137, "held": [["held", 1, "n"]], "started": [], "why": "killed"})
    )
    await asking
    await s.settle()
    assert s.hsc.given_up == [("e1", "n2")], "not n1, whose claims its table may list"
    assert sorted(s.hsc.handed_back) == ["held", "never-arrived"]


@virtual(scripted())
async def test_claims_that_come_at_the_moment_of_a_withdrawal_are_handed_back(s: Script) -> None:
    s.hsc.put(claims("a"), after=1)
    asking = s.asking()
    await asyncio.sleep(1)  # begun later than the answer's second, so the answer is there, and not yet taken
    s.controller.executor_died(parse_death({"executor": "e1", "code": 137, "why": "killed"}))
    assert ids(await asking) == []
    await s.settle()
    assert s.hsc.handed_back == ["a"]


# --- what a host may be given -----------------------------------------------------------------------------------------


def dies(s: Script, executor_id: str, *started: str) -> None:
    s.controller.executor_died(
        parse_death(
            {"executor": executor_id, "code": 137, "why": "killed", "started": [[each, 1, "n"] for each in started]}
        )
    )


async def quarantine(s: Script, *names: str) -> None:
    """Three executors die in a row, each of which ran a task of each of these lambdas."""
    for number in range(3):
        for name in names:
            s.hsc.put(claims(f"0-{number}-{name}", name=name))
            await s.ask(f"bad{number}", stream=name[-1])
        dies(s, f"bad{number}", *[f"0-{number}-{name}" for name in names])
        await asyncio.sleep(1.5)


@virtual(scripted())
async def test_an_open_ask_goes_on_without_a_lambda_that_is_quarantined_meanwhile(s: Script) -> None:
    s.asking("good")
    await s.settle()
    await quarantine(s, "shop/mail")
    mine = [each for each in s.hsc.asked if each.executor_id == "good"]
    assert [(list(each.without), each.repeated) for each in mine][:2] == [([], False), (["shop/mail"], True)]
    assert any(each.quarantined for each in s.hsc.hosts), "others are told"


@virtual(scripted())
async def test_a_quarantined_host_asks_for_nothing_and_then_for_a_single_task_by_one_call(s: Script) -> None:
    await quarantine(s, "shop/mail", "shop/bill")
    before = len(s.hsc.asked)
    for number in (1, 2):
        s.asking(f"e{number}", most=10)
    await asyncio.sleep(0.3)
    assert len(s.hsc.asked) == before
    await asyncio.sleep(3)
    (request,) = s.hsc.asked[before:]
    assert request.max_tasks == 1


@virtual(scripted())
async def test_of_a_lambda_on_trial_one_task_is_kept_and_the_others_are_handed_back(s: Script) -> None:
    await quarantine(s, "shop/mail")
    await asyncio.sleep(3)  # its time is over
    s.hsc.put(h.NextClaimsReply(claims=[*claims("m1", "m2").claims, *claims("b1", "b2", name="shop/bill").claims]))
    assert ids(await s.ask("e1")) == ["m1", "b1", "b2"]
    await s.settle()
    assert s.hsc.handed_back[-1:] == ["m2"]
    s.asking("e2")
    await s.settle()
    assert list(s.hsc.asked[-1].without) == ["shop/mail"], "while it is tried"
    await asyncio.sleep(6)
    assert list(s.hsc.asked[-1].without) == [], "the executor lives"


# --- what the host says of itself --------------------------------------------------------------------------------------


@virtual(scripted(pool="blue"))
async def test_the_host_says_who_is_here_and_names_a_set_once_it_is_asked_to(s: Script) -> None:
    s.asking("e1")
    await s.settle()
    digest = digest_of({"shop/mail": DIGEST, "shop/bill": DIGEST})
    said = s.hsc.hosts[-1]
    assert (said.pool, said.host, said.why_not) == ("blue", "host-1", "")
    assert [(each.executor_id, list(each.lambda_sets)) for each in said.executors] == [("e1", [digest])]
    assert not said.sets
    s.hsc.say(h.ReportHostReply(everywhere=True, unknown_sets=[digest]))
    await s.settle()
    assert [(each.digest, list(each.lambdas)) for each in s.hsc.hosts[-1].sets] == [
        (digest, ["shop/mail", "shop/bill"])
    ]


@virtual(scripted())
async def test_what_is_new_is_said_at_once_and_the_rest_again_before_it_is_forgotten(s: Script) -> None:
    count = len(s.hsc.hosts)
    s.asking("e1")
    await s.settle()
    assert len(s.hsc.hosts) == count + 1
    await asyncio.sleep(61)
    assert 3 <= len(s.hsc.hosts) - count <= 4


@virtual(scripted())
async def test_a_host_that_an_operator_has_drain_takes_back_what_it_asked_and_goes_on_later(s: Script) -> None:
    told: list[bool] = []
    s.controller.state.on_drain = told.append
    s.asking("e1")
    await s.settle()
    s.hsc.say(h.ReportHostReply(drains=True, everywhere=True))
    await s.settle()
    assert told == [True]
    before = len(s.hsc.asked)
    await asyncio.sleep(5)
    assert len(s.hsc.asked) == before
    assert s.hsc.hosts[-1].drains
    s.hsc.say(h.ReportHostReply(drains=False, everywhere=True))
    await s.settle()
    assert told == [True, False]
    assert (s.hsc.asked[-1].nonce, s.hsc.asked[-1].repeated) == ("n1", True)


@virtual(scripted())
async def test_while_the_hsc_is_away_a_host_says_it_again_and_again(s: Script) -> None:
    for _ in range(20):
        s.hsc.host_steps.append(GONE)
    s.controller.state.tell()
    count = len(s.hsc.hosts)
    await asyncio.sleep(10)
    assert 6 <= len(s.hsc.hosts) - count <= 14
    assert s.controller.state.why_away == "connection refused"
