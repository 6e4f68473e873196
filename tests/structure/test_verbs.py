"""One verb, one name: as an RPC, at its client, in the role that answers it, in the store, and as a function of the store."""

from __future__ import annotations

import pytest

from atf.client.calls import Calls
from atf.controller.service import ControllerService
from atf.frontend.service import FrontendService
from atf.hsc.service import HscService
from atf.store.store import Store
from atf.store_consumer.service import PollService
from tools import draw_verbs
from tools.draw_verbs import INNER, NO_STORE, OTHER_FUNCTION, OTHER_STORE_METHOD, VerbRow, functions, functions_of, same

ANSWERED_BY = {
    "Frontend": FrontendService,
    "HSC": HscService,
    "Controller": ControllerService,
    "StoreConsumer": PollService,
}
NOT_OF_CLIENTS = {
    *("schedule_many", "schedule_jobs", "register_lambdas", "find_dapr_app"),
    *("get_caller", "create_token", "list_tokens", "rotate_token", "revoke_token", "rotate_signing_key"),
}
"""Calls of the frontend that a client gathers by itself, or that executors and commands make by a stub."""
VERBS = list(draw_verbs.verbs())


def test_every_rpc_is_there() -> None:
    assert len(VERBS) > 50
    assert {each.service for each in VERBS} == ANSWERED_BY.keys()


@pytest.mark.parametrize("verb", VERBS, ids=lambda each: each.rpc)
def test_a_verb_has_one_name(verb: VerbRow) -> None:
    assert hasattr(ANSWERED_BY[verb.service], verb.method)
    if verb.service == "Frontend" and verb.method not in NOT_OF_CLIENTS:
        assert hasattr(Calls, verb.method)
    if verb.rpc in NO_STORE:
        return
    assert hasattr(Store, verb.store), (
        f"Store has no method {verb.method}: give it one, or say why in tools/draw_verbs.py"
    )
    if verb.store not in OTHER_FUNCTION:
        called = functions_of(verb.store)
        assert any(same(verb.store, each) for each in called), f"Store.{verb.store} calls {called}"


def test_every_exception_is_one() -> None:
    named = {each.rpc: each for each in VERBS}
    assert (NO_STORE.keys() | OTHER_STORE_METHOD.keys()) <= named.keys()
    for rpc in NO_STORE:
        assert not hasattr(Store, named[rpc].method)
    for rpc, (method, _) in OTHER_STORE_METHOD.items():
        assert hasattr(Store, method)
        assert not hasattr(Store, named[rpc].method), f"{rpc} is a method of the store by now"
    for method in OTHER_FUNCTION:
        assert not any(same(method, each) for each in functions()), f"{method} is a function by now"
        assert functions_of(method)


def test_every_function_of_the_store_is_a_method_or_a_step_of_one() -> None:
    methods = [each for each in dir(Store) if not each.startswith("_")]
    alone = {each for each in functions() if not any(same(each, method) for method in methods)}
    assert alone == INNER.keys()
