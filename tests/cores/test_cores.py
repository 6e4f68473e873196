"""The cores of a pool: claims, turns, and what is known of them beforehand."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from atf.cores.pool import MAX_BEYOND, CorePool, CoreSettings
from atf.errors import InvalidArgument
from atf.task import US

NOW = 1_000 * US


def pool(cores: int = 4, members: int = 8, **settings: object) -> CorePool:
    made = CorePool.make(CoreSettings(cores=cores, **settings).check(), NOW)  # type: ignore[arg-type]
    made.staff(members, NOW)
    return made


def turns(of: CorePool) -> list[str | None]:
    return [turn.lambda_name if turn else None for turn in of.turns]


def hand_over(of: CorePool, core: int, now: int = NOW) -> int:
    turn = of.turns[core]
    assert turn is not None
    of.handed_over(core, turn.number, now)
    return turn.number


def conclude(of: CorePool, core: int, now: int = NOW) -> None:
    of.conclude(core, hand_over(of, core, now), now)


def test_claims_are_dealt_in_turn_and_a_lambda_has_one() -> None:
    of = pool(2, lookahead=2)
    for name in "aabbccdd":
        of.claim(name, NOW)
    assert turns(of) == ["a", "b"]
    assert [(each.lambda_name, each.core) for each in of.queue] == [("c", 0), ("d", 1)]


def test_the_queue_is_bounded_and_those_behind_it_come_in_the_order_of_their_claims() -> None:
    of = pool(2, lookahead=2)
    for name in "abcdefghi":
        of.claim(name, NOW)
    assert len(of.queue) == 4
    assert [each.lambda_name for each in of.beyond] == ["g", "h", "i"]
    conclude(of, 1)
    assert turns(of) == ["a", "d"]
    assert [(each.lambda_name, each.core) for each in of.queue] == [("c", 0), ("e", 0), ("f", 1), ("g", 1)]
    assert [each.lambda_name for each in of.beyond] == ["h", "i"]


def test_of_those_beyond_the_queue_there_are_so_many_and_no_more() -> None:
    of = pool(1, lookahead=1)
    for number in range(MAX_BEYOND + 10):
        of.claim(f"l{number}", NOW)
    assert len(of.beyond) == MAX_BEYOND


def test_a_lambda_alone_may_hold_all_multiplexed_cores_and_a_newcomer_gets_the_first_that_is_free() -> None:
    of = pool(3)
    for core in range(3):
        of.claim("flood", NOW)
        of.claim("flood", NOW)
        hand_over(of, core)
    assert turns(of) == ["flood"] * 3
    of.claim("flood", NOW)
    of.claim("quiet", NOW)
    of.pass_time(NOW + US)
    assert "quiet" in turns(of)
    assert turns(of).count("flood") == 1  # one claim that was not handed over, however many turns it had


def test_a_hand_over_that_fails_counts_and_a_time_out_does_not() -> None:
    of = pool(1, max_retries=2)
    of.claim("a", NOW)
    for failed in range(3):
        (turn,) = of.turns
        assert turn is not None
        assert turn.retries == failed
        if failed == 1:  # handed over, and timed out
            hand_over(of, 0, of.turns[0].since_us)  # type: ignore[union-attr]
            of.pass_time(turn.since_us + US)
            assert of.turns[0].retries == 1  # type: ignore[union-attr]
        of.pass_time(of.turns[0].since_us + US)  # type: ignore[union-attr]
    assert turns(of) == [None]
    assert (of.dropped, of.timed_out) == (1, 1)
    of.claim("a", NOW)
    assert of.turns[0].retries == 0  # type: ignore[union-attr]


def test_reserved_cores_belong_to_their_lambda_and_time_out_by_a_time_of_their_own() -> None:
    of = pool(3, reserved={"vip": 2}, reserved_timeout_us=5 * US, multiplexed_timeout_us=US)
    of.claim("vip", NOW)
    assert turns(of) == ["vip", "vip", None]
    of.claim("a", NOW)
    before = hand_over(of, 0)
    other = hand_over(of, 2)
    of.pass_time(NOW + 2 * US)
    assert of.turns[0].number == before  # type: ignore[union-attr]
    assert of.turns[2].number != other  # type: ignore[union-attr]
    of.pass_time(NOW + 5 * US)
    assert turns(of)[0] == "vip"
    assert of.turns[0].number > before  # type: ignore[union-attr]
    assert not of.queue
    assert of.next_up_on_available(0, NOW) == of.next_up_on_time_out(0, NOW) == "vip"


def test_a_reserved_core_waits_for_its_lambda_however_long() -> None:
    of = pool(2, reserved={"vip": 1})
    number = of.turns[0].number  # type: ignore[union-attr]
    of.pass_time(NOW + 3600 * US)
    assert of.turns[0].number == number  # type: ignore[union-attr]
    assert of.due_us(0) is None
    assert of.lambda_for(0, NOW) == "vip"


def test_claims_of_unregistered_lambdas_are_pruned_and_what_runs_goes_on() -> None:
    of = pool(2, lookahead=2)
    for name in "abcdefg":
        of.claim(name, NOW)
    hand_over(of, 0)
    of.prune({"a", "b", "d", "g"}, NOW)
    assert turns(of) == ["a", "f"] or turns(of) == ["a", "c"]
    assert of.names() == {"a", "c", "e", "f"}


def test_a_core_that_would_stand_idle_takes_the_first_claim_of_another() -> None:
    of = pool(2)
    for name in "abcd":
        of.claim(name, NOW)
    conclude(of, 1)
    conclude(of, 1)
    assert turns(of) == ["a", "c"]
    conclude(of, 1)
    assert turns(of) == ["a", None]


def test_a_core_without_executors_is_given_none_while_others_have_some() -> None:
    of = pool(4, members=2)
    for name in "abcde":
        of.claim(name, NOW)
    assert turns(of) == ["a", "b", None, None]
    later = NOW + of.settings.rotation_us  # groups 0 and 1 are on cores 1 and 2 now
    for core in (0, 1):
        of.handed_over(core, of.turns[core].number, later)  # type: ignore[union-attr]
    of.pass_time(later)
    assert turns(of)[:3] == ["a", "b", "c"]
    assert [of.staffed(core, later) for core in range(4)] == [False, True, True, False]


def test_what_is_next_is_known_beforehand() -> None:
    chance = random.Random(7)
    of = pool(4, lookahead=3, max_retries=1)
    now, seen = NOW, Counter[str]()
    for _ in range(3_000):
        now += chance.randrange(US // 4)
        of.pass_time(now)
        core = chance.randrange(4)
        turn = of.turns[core]
        if chance.random() < 0.5:
            of.claim(chance.choice("abcdefghij"), now)
        elif turn is not None:
            expected = of.next_up_on_available(core, now)
            of.conclude(core, turn.number, now)
            assert turns(of)[core] == expected
            seen["available"] += expected is not None
        for each, held in enumerate(of.turns):
            if held is not None and not held.occupied and chance.random() < (0.7 if each else 0.02):
                of.handed_over(each, held.number, now)
        if (held := of.turns[core]) is not None:
            expected, due = of.next_up_on_time_out(core, of.due_us(core) or 0), of.due_us(core)
            alone = all(other is None or other is held or of.due_us(n) > due for n, other in enumerate(of.turns))  # type: ignore[operator]
            if alone and due is not None:
                now = max(now, due)
                of.pass_time(due)
                assert turns(of)[core] == expected
                seen["time out" if held.occupied else "failed hand-over"] += 1
        unclaimed = Counter(each.lambda_name for each in (*of.queue, *of.beyond))
        unclaimed.update(each.lambda_name for each in of.turns if each is not None and not each.occupied)
        assert max(unclaimed.values(), default=0) <= 1
        assert max(Counter(each.core for each in of.queue).values(), default=0) <= 3
    assert min(seen.values()) > 50
    assert len(seen) == 3


@pytest.mark.parametrize(("max_retries", "after"), [(0, None), (1, "a")])
def test_after_a_hand_over_that_fails_for_the_last_time_its_lambda_is_not_next(
    max_retries: int, after: str | None
) -> None:
    of = pool(1, max_retries=max_retries)
    of.claim("a", NOW)
    assert of.next_up_on_time_out(0, NOW) == after
    of.pass_time(NOW + US)
    assert turns(of) == [after]
    assert of.dropped == (after is None)


def test_one_flooding_of_ten_lambdas_leaves_each_its_turn_within_lookahead() -> None:
    of = pool(4, lookahead=3)
    now, wants = NOW, {f"l{number}": 0 for number in range(10)}  # lambda -> turns of its core since it claimed
    dealt: dict[str, int] = {}
    had, before = Counter[str](), [0] * 4
    for _ in range(3_000):
        now += US // 20
        of.pass_time(now)
        for name in wants:
            if name == "l0" or (name not in dealt and not of.has_turn(name)):
                of.claim(name, now)
        for core, turn in enumerate(of.turns):
            if turn is None or turn.number == before[core]:
                continue
            had[turn.lambda_name] += 1
            before[core] = turn.number
            dealt.pop(turn.lambda_name, None)
            for each in of.queue:
                if each.core == core:
                    dealt[each.lambda_name] = dealt.get(each.lambda_name, 0) + 1
                    assert dealt[each.lambda_name] <= of.settings.lookahead
            of.handed_over(core, turn.number, now)
        for core, turn in enumerate(of.turns):
            if turn is not None and turn.occupied and turn.lambda_name != "l0" and now - turn.since_us > US // 10:
                of.conclude(core, turn.number, now)
    assert set(had) == set(wants)
    assert min(had.values()) > 100


@pytest.mark.parametrize("cores", [1, 2, 3, 5, 8])
def test_a_changed_number_of_cores_keeps_every_claim_and_deals_them_evenly(cores: int) -> None:
    of = pool(4, lookahead=3)
    for number in range(14):
        of.claim(f"l{number}", NOW)
    hand_over(of, 3)
    before, kept = of.names(), [turn.number for turn in of.turns if turn is not None][:cores]
    last = of.number
    of.change(CoreSettings(cores=cores), NOW)
    assert of.names() == before
    assert [turn.number for turn in of.turns if turn is not None][: len(kept)] == kept
    dealt = Counter(each.core for each in of.queue)
    assert max(dealt.values(), default=0) <= 3
    dealt.update(core for core, turn in enumerate(of.turns) if turn is not None and turn.number > last)  # at once
    assert max(dealt.values()) - min(dealt[core] for core in range(cores)) <= 1


def test_a_core_that_becomes_reserved_gives_its_claim_back_and_the_new_owner_needs_none() -> None:
    of = pool(2)
    for name in "abc":
        of.claim(name, NOW)
    of.change(CoreSettings(cores=2, reserved={"c": 1}), NOW)
    assert turns(of) == ["c", "b"]
    assert [each.lambda_name for each in of.queue] == ["a"]
    of.change(CoreSettings(cores=2), NOW)
    assert turns(of) == ["a", "b"]


def test_with_a_turn_that_is_over_a_group_runs_nothing_though_nobody_has_ended_it() -> None:
    of = pool(1)
    of.claim("a", NOW)
    hand_over(of, 0)
    assert of.lambda_for(0, NOW + US - 1) == "a"
    assert of.lambda_for(0, NOW + US) is None


def test_a_group_finds_its_lambda_where_it_rotates_to() -> None:
    of = pool(3)
    for name in "abc":
        of.claim(name, NOW)
    for core in range(3):
        hand_over(of, core, NOW + of.settings.rotation_us)
    assert [of.lambda_for(group, NOW) for group in range(3)] == ["a", "b", "c"]
    assert [of.lambda_for(group, NOW + of.settings.rotation_us) for group in range(3)] == ["b", "c", "a"]


def test_what_happens_twice_changes_nothing() -> None:
    of = pool(2)
    for name in "abcd":
        of.claim(name, NOW)
    number = hand_over(of, 0)
    of.conclude(0, number, NOW)
    after = of.encode()
    of.conclude(0, number, NOW)
    of.handed_over(0, number, NOW)
    of.handed_over(7, number, NOW)
    of.claim("d", NOW)
    of.pass_time(NOW)
    of.change(of.settings, NOW)
    of.prune({"x"}, NOW)
    assert CorePool.decode(after) == CorePool.decode(of.encode())


def test_a_store_that_has_forgotten_a_turn_gives_its_number_to_no_other() -> None:
    of = pool(1)
    of.claim("a", NOW)
    kept = of.encode()
    over = hand_over(of, 0)
    of.claim("b", NOW)
    of.conclude(0, over, NOW + 1)
    forgotten = of.turns[0]
    assert forgotten is not None
    assert forgotten.lambda_name == "b"

    of = CorePool.decode(kept)
    of.claim("c", NOW + US)
    of.conclude(0, over, NOW + US)
    of.conclude(0, forgotten.number, NOW + US)
    assert turns(of) == ["c"]


def test_a_state_that_a_later_release_wrote_can_be_read() -> None:
    text = pool().encode()[:-1] + b',"later":{"x":[1]}}'
    assert CorePool.decode(text) == pool()


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"cores": 0}, "cores 0: use 1 to 64"),
        ({"cores": 65}, "cores 65"),
        ({"cores": 2, "lookahead": 0}, "lookahead 0"),
        ({"cores": 2, "max_retries": -1}, "max_retries -1"),
        ({"cores": 2, "rotation_us": 0}, "rotation 0 s: use 10 ms to 1 d"),
        ({"cores": 2, "hand_over_us": -5}, "hand_over -5 µs"),
        ({"cores": 2, "multiplexed_timeout_us": 1 << 62}, "multiplexed_timeout"),
        ({"cores": 2, "rotation_us": 2 * 86_400_000_000}, "rotation 2 d: use 10 ms to 1 d"),
        ({"cores": 2, "reserved": {"a/b": 0}}, "reserved cores of a/b 0"),
        ({"cores": 2, "reserved": {"a/b": 2}}, "leave at least one to take turns on"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong: dict[str, object], says: str) -> None:
    with pytest.raises(InvalidArgument, match=says):
        CoreSettings(**wrong).check()  # type: ignore[arg-type]
