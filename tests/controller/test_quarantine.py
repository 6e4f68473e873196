"""A host whose executors keep dying quarantines what they died of, for a growing while, and tries it again."""

from __future__ import annotations

import asyncio

from atf.controller.losses import Death
from atf.controller.quarantine import EVERYTHING, FIRST_S, MOST_S, QUIET_S, STRIKES, TRIAL_S, WELL, Quarantine
from atf.exits import EXIT_NO_HEARTBEAT, EXIT_OK, EXIT_OVERRUN
from atf.rpc import controller_pb2 as c, task_pb2 as t
from atf.runtime import end
from atf.task import Status
from tests.virtual import virtual

from .world import World, ids_of, until, world

MAIL, BILL = frozenset({"shop/mail"}), frozenset({"shop/bill"})
BOTH = MAIL | BILL
KILLED = 139


def death(*started: str, code: int = KILLED, suspects: frozenset[str] = frozenset(), executor: str = "e") -> Death:
    claims = [t.ClaimRef(task_id=each) for each in started]
    return Death(executor, code, "killed by SIGSEGV", False, [], [], claims, suspects, [], [])


class Host:
    """Feeds a Quarantine; `now` is its clock."""

    def __init__(self) -> None:
        self.quarantine = Quarantine()
        self.now = 1000.0

    def life(
        self,
        lost: dict[str, str],
        well: dict[str, str] | None = None,
        code: int = KILLED,
        suspects: frozenset[str] = frozenset(),
    ) -> str | None:
        """An executor gets tasks, ends some of them well, and dies with the others. Answers what was quarantined."""
        self.now += 2
        self.quarantine.handed("e", {**lost, **(well or {})}, self.now)
        return self.quarantine.died(death(*lost, code=code, suspects=suspects), [], self.now)

    def strike(self, times: int = STRIKES, name: str = "shop/mail") -> str | None:
        return [self.life({"0-a": name}) for _ in range(times)][-1]

    def may_run(self) -> frozenset[str]:
        blocked = self.quarantine.blocked(self.now)
        return frozenset() if EVERYTHING in blocked else BOTH - blocked


def test_nothing_is_quarantined_before_several_executors_in_a_row_have_died() -> None:
    host = Host()
    assert host.strike(STRIKES - 1) is None
    assert host.may_run() == BOTH
    assert host.strike(1) == "shop/mail"
    assert host.may_run() == BILL
    assert host.quarantine.listing(host.now) == [("shop/mail", host.now + FIRST_S, STRIKES)]


def many(name: str, count: int = WELL) -> dict[str, str]:
    """So many tasks of a lambda."""
    return {f"0-w{number}": name for number in range(count)}


def test_an_executor_that_ended_many_tasks_of_the_lambda_before_it_died_speaks_for_the_host() -> None:
    host = Host()
    host.strike(STRIKES - 1)
    assert host.life({"0-a": "shop/mail"}, well=many("shop/mail")) is None
    assert host.strike(STRIKES - 1) is None
    assert host.life({"0-a": "shop/mail"}, well=many("shop/bill")) == "shop/mail"


def test_a_host_that_runs_thousands_of_tasks_between_two_deaths_is_not_quarantined() -> None:
    host = Host()
    for _ in range(200):
        host.quarantine.handed("e", many("shop/bill", 2000), host.now + 1)
        assert host.life({"0-a": "shop/mail", "0-b": "shop/bill"}) is None
    assert host.may_run() == BOTH


def test_a_host_that_ends_a_task_between_two_deaths_is() -> None:
    host = Host()
    told = [host.life({"0-a": "shop/mail"}, well=many("shop/mail", 1)) for _ in range(STRIKES)]
    assert told == [None] * (STRIKES - 1) + ["shop/mail"]


def test_only_what_it_was_given_since_the_last_death_speaks_for_the_host() -> None:
    host = Host()
    host.quarantine.handed("old", {"0-o": "shop/mail", **many("shop/mail")}, host.now)
    host.strike()
    host.now += 1
    assert host.quarantine.died(death("0-o", executor="old"), [], host.now) is None
    assert host.may_run() == BILL


def test_of_several_lambdas_the_one_whose_tasks_had_been_lost_before_is_blamed() -> None:
    host = Host()
    both = {"0-a": "shop/mail", "0-b": "shop/bill"}
    told = [host.life(both, suspects=frozenset({"0-b"})) for _ in range(STRIKES)]
    assert told[-1] == "shop/bill"
    assert host.may_run() == MAIL


def test_a_host_whose_executors_die_whatever_they_run_is_quarantined_as_a_whole() -> None:
    host = Host()
    both = {"0-a": "shop/mail", "0-b": "shop/bill"}
    told = [host.life(both, well=many("shop/mail", 1)) for _ in range(STRIKES)]
    assert told == [None] * (STRIKES - 1) + [EVERYTHING]
    assert host.may_run() == frozenset()


def test_the_next_trial_of_a_host_is_another_lambdas_task() -> None:
    host = Host()
    both = {"0-a": "shop/mail", "0-b": "shop/bill"}
    for _ in range(STRIKES):
        host.life(both)
    host.now += FIRST_S
    assert host.quarantine.admit(both, host.now) == ({"0-b"}, True)
    assert host.life({"0-a": "shop/mail"}) == EVERYTHING, "whosever task was tried"
    host.now += FIRST_S * 2
    assert host.may_run() == BILL
    assert host.quarantine.admit({"0-b": "shop/bill"}, host.now) == (set(), True)
    host.now += TRIAL_S
    assert host.may_run() == BOTH, "it lives, so all others go on, and it was the lambda"
    assert host.quarantine.admit(both, host.now) == (set(), True)
    assert host.life(both) == "shop/mail", "which is on trial"
    assert host.may_run() == BILL


def test_a_task_that_ends_its_executors_closes_no_host_to_the_others() -> None:
    """Among others of several lambdas; then among what had run with it, none of which can be blamed; from then on alone."""
    host = Host()
    both = {"0-a": "shop/mail", "0-b": "shop/bill"}
    for _ in range(20):
        told = [host.life(both), host.life(both, suspects=frozenset(both))]
        told += [host.life({"0-a": "shop/mail"}, well=many("shop/bill", 2)) for _ in range(2)]
        assert EVERYTHING not in told
        assert "shop/bill" in host.may_run()


def test_what_user_code_does_by_its_own_word_counts_nothing() -> None:
    host = Host()
    for code in (EXIT_OK, EXIT_OVERRUN) * 4:
        assert host.life({"0-a": "shop/mail"}, code=code) is None
    assert host.may_run() == BOTH


def test_deaths_at_the_same_time_count_as_one() -> None:
    host = Host()
    for number in range(9):
        host.quarantine.handed(f"e{number}", {f"0-{number}": "shop/mail"}, host.now)
    for number in range(9):
        assert host.quarantine.died(death(f"0-{number}", executor=f"e{number}"), [], host.now + number / 10) is None


def test_a_host_that_cannot_keep_its_leases_is_quarantined_as_a_whole() -> None:
    host = Host()
    told = []
    for _ in range(STRIKES):
        host.now += 20
        told.append(host.life({"0-a": "shop/mail", "0-b": "shop/bill"}, code=EXIT_NO_HEARTBEAT))
    assert told == [None] * (STRIKES - 1) + [EVERYTHING]
    assert host.may_run() == frozenset()
    host.now += FIRST_S
    assert host.quarantine.admit({"0-a": "shop/mail", "0-b": "shop/bill"}, host.now) == ({"0-b"}, True)


def test_one_task_is_tried_when_the_while_is_over_and_all_goes_on_where_its_executor_lives() -> None:
    host = Host()
    host.strike()
    host.now += FIRST_S
    assert host.may_run() == BOTH
    queues = {"0-a": "shop/mail", "0-b": "shop/bill", "0-c": "shop/mail"}
    assert host.quarantine.admit(queues, host.now) == ({"0-c"}, True)
    assert host.may_run() == BILL, "while it is tried"
    assert host.quarantine.admit({"0-d": "shop/mail"}, host.now) == ({"0-d"}, False)
    host.now += TRIAL_S
    assert host.may_run() == BOTH
    assert host.quarantine.admit(queues, host.now) == (set(), False)


def test_the_while_grows_with_every_trial_that_fails_up_to_its_bound_and_starts_anew_after_a_quiet_time() -> None:
    host = Host()
    host.strike()
    pauses = []
    for _ in range(7):
        ((_, until_, _),) = host.quarantine.listing(host.now)
        pauses.append(until_ - host.now)
        host.now = until_
        assert host.quarantine.admit({"0-a": "shop/mail"}, host.now) == (set(), True)
        assert host.strike(1) == "shop/mail"
    assert pauses == [min(FIRST_S * 2**number, MOST_S) for number in range(7)]
    host.now += MOST_S
    host.quarantine.admit({"0-a": "shop/mail"}, host.now)
    host.now += TRIAL_S + QUIET_S
    assert host.quarantine.next_change(host.now) is None
    assert host.strike(STRIKES - 1) is None


def test_it_says_when_something_changes() -> None:
    host = Host()
    assert host.quarantine.next_change(host.now) is None
    host.strike()
    assert host.quarantine.next_change(host.now) == host.now + FIRST_S
    host.now += FIRST_S
    host.quarantine.admit({"0-a": "shop/mail"}, host.now)
    assert host.quarantine.next_change(host.now) == host.now + TRIAL_S


# --- in a controller ---------------------------------------------------------------------------------------------------


async def crash(w: World, number: int) -> c.NextWorkReply:
    """An executor asks, starts what it gets, and dies of it."""
    name = f"e{number}"
    reply = await w.ask(name, most=2, wait=0.5, lambdas=["shop/bill", "shop/mail"])
    await w.start(name, reply.claims)
    claims = [t.ClaimRef(task_id=each.task_id, token=each.token) for each in reply.claims]
    w.controller.executor_died(Death(name, KILLED, "killed by SIGSEGV", False, [], [], claims, frozenset(), [], []))
    await asyncio.sleep(1.5)
    await w.consume()
    return reply


@virtual(world())
async def test_a_controller_takes_no_task_of_what_it_quarantines_and_tries_one_later(w: World) -> None:
    ids = await w.enqueue(8)
    for number in range(STRIKES):
        assert len(ids_of(await crash(w, number))) == 2
    (other,) = await w.enqueue(1, "shop/bill")
    assert ids_of(await w.ask("e8", lambdas=["shop/bill", "shop/mail"])) == [other]
    found = await w.store.explain_task(ids[7])
    assert found is not None
    assert (found.hosts, list(found.quarantined)) == (1, ["host-1"])
    (tried,) = ids_of(await w.ask("e9", wait=5, lambdas=["shop/bill", "shop/mail"]))
    again = w.asking("e10", wait=20)
    began = w.runtime.monotonic()
    await until(lambda: _back(w, ids[2:], but=tried), 1)  # the first two were lost too often
    assert len(ids_of(await again)) == 5
    assert TRIAL_S - 1 <= w.runtime.monotonic() - began <= TRIAL_S
    found = await w.store.explain_task(ids[7])
    assert found is not None
    assert found.quarantined == {}


@virtual(world())
async def test_a_controller_takes_nothing_at_all_where_executors_die_whatever_they_run(w: World) -> None:
    ids = [*await w.enqueue(4), *await w.enqueue(4, "shop/bill")]
    for number in range(STRIKES):
        assert len(ids_of(await crash(w, number))) == 2, "one of each"
        await w.enqueue(2, "shop/mail"), await w.enqueue(2, "shop/bill")
    for each in (ids[3], ids[7]):
        found = await w.store.explain_task(each)
        assert found is not None
        assert list(found.quarantined) == ["host-1"]
    assert len(ids_of(await w.ask("e9", wait=5, most=8, lambdas=["shop/bill", "shop/mail"]))) == 1, "on trial"


async def _back(w: World, ids: list[str], but: str) -> bool:
    """Whether all but one are in their queue."""
    await w.consume()
    found = [await w.store.explain_task(each) for each in ids if each != but]
    return all(each is not None and each.record.status is Status.ENQUEUED and each.in_queue for each in found)


@virtual(world())
async def test_it_tells_at_once_what_it_quarantines_also_to_those_who_look_later(w: World) -> None:
    ids = await w.enqueue(8)
    for number in range(STRIKES):
        await crash(w, number)
    asking = w.asking("e9", wait=30)
    await asyncio.sleep(0.4)
    found = await w.store.explain_task(ids[7])
    assert found is not None
    assert found.quarantined["host-1"] > found.now_us
    await end([asking])


@virtual(world())
async def test_a_controller_takes_nothing_while_an_operator_has_its_host_drain(w: World) -> None:
    told: list[bool] = []
    w.controller.state.on_drain = told.append
    ids = await w.enqueue(2)
    await w.store.drain_host("host-1", drains=True)
    await asyncio.sleep(11)
    waiting = w.asking("e1", wait=40)
    await asyncio.sleep(11)
    assert (waiting.done(), told) == (False, [True])
    await w.store.drain_host("host-1", drains=False)
    assert sorted(ids_of(await waiting)) == sorted(ids)
    assert told == [True, False]
