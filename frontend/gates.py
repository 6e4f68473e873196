"""Answers the RPCs about gates: what holds back a lambda's due tasks, who set it and why."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, cast

from google.protobuf.message import Message

from atf.auth.caller import permit, permitted
from atf.auth.grants import Verb
from atf.errors import FailedPrecondition, InvalidArgument, Unavailable, UnknownLambda
from atf.rpc import frontend_pb2 as f
from atf.store.keys import stored_key
from atf.store.library import MAX_GATES
from atf.store.values.explained import ExplainedTask
from atf.store.values.lambdas import Gate, GateAction, NewGate
from atf.task import MAX_AHEAD_US, check_id
from atf.times import instant, length

from .audit import check_who, signature
from .explain_words import duration
from .parts import FrontendParts
from .validate import check_labels, checked_lambda, lambda_of, shown

MAX_LABEL_BYTES: Final = 2_048
"""Of the labels of one gate, as they are stored; the store's functions read all gates of a lambda at once."""
MIN_SHARE: Final = 1e-6
"""The store's functions tell ids apart no finer."""
_ACTIONS: Final = {
    f.Gate.PAUSE: GateAction.PAUSE,
    f.Gate.DROP: GateAction.DROP,
    f.Gate.DELAY: GateAction.DELAY,
    f.Gate.ADMIT: GateAction.ADMIT,
}
_NUMBERS: Final = {action: number for number, action in _ACTIONS.items()}


class GateRpcs(FrontendParts):
    """SetGate, LiftGate, ListGates, and the pause of a whole lambda, which is a gate.

    A change reads no copy of the registry, neither before nor after: it would be read anew for each of thousands of lambdas.
    """

    async def _gates_met(self, found: ExplainedTask) -> list[Gate] | None:
        """The gates of a task's lambda, where one keeps it or the lambda is paused. None: the registry partition can't be read."""
        if not (found.gate or found.paused):
            return []
        try:
            return await self._store.list_gates(found.record.lambda_name, counted=False)
        except Unavailable:
            return None

    async def set_gate(self, request: f.SetGateRequest, *, timeout: float = 10) -> f.Gate:
        """Sets a gate, in the place of the lambda's one with the same action and labels."""
        name = _permitted(request)
        absolute = request.WhichOneof("ends") == "until_at_us"
        gate = _new_gate(request, await self._store.time_us() if absolute else 0)
        detail = await self._detail(name, gate.labels, [gate.action], sentence(gate))
        async with self._audit.write("set_gate", request, name, labels=gate.labels, detail=detail) as draft:
            answer = await self._store.set_gate(gate)
            if answer is None:
                raise await self._unknown(name)
            if not answer.number:
                raise FailedPrecondition(
                    f"lambda {name} has {MAX_GATES} gates, and may have no more: lift one of them first"
                )
            draft.changed = answer.made
        said = gate.amount, answer.until_us, gate.who, gate.why
        return to_proto(Gate(answer.number, name, gate.action, dict(gate.labels), *said, False, 0, 0, 0))

    async def lift_gate(self, request: f.LiftGateRequest, *, timeout: float = 10) -> f.LiftGateReply:
        """Lifts a lambda's gates with these labels; one of them, where an action is named."""
        name = _permitted(request)
        check_labels(request.labels)
        check_who(request)
        actions = [_action(request.action)] if request.action else list(GateAction)
        detail = await self._detail(name, request.labels, actions, " ".join(action.value for action in actions))
        async with self._audit.write("lift_gate", request, name, labels=request.labels, detail=detail) as draft:
            lifted = await self._store.lift_gate(name, dict(request.labels), actions)
            if lifted is None:
                raise await self._unknown(name)
            draft.changed = lifted > 0
        return f.LiftGateReply(lifted=lifted)

    async def pause_lambda(self, request: f.PauseLambdaRequest, *, timeout: float = 10) -> f.PauseLambdaReply:
        """Stops a lambda's tasks from being started."""
        name = _permitted(request)
        check_who(request)
        async with self._audit.write("pause_lambda", request, name) as draft:
            made = await self._store.pause_lambda(name, *signature(request))
            if made is None:
                raise await self._unknown(name)
            draft.changed = made.made
        return f.PauseLambdaReply()

    async def resume_lambda(self, request: f.ResumeLambdaRequest, *, timeout: float = 10) -> f.ResumeLambdaReply:
        """Lets a lambda's tasks start again."""
        name = _permitted(request)
        check_who(request)
        async with self._audit.write("resume_lambda", request, name) as draft:
            lifted = await self._store.resume_lambda(name)
            if lifted is None:
                raise await self._unknown(name)
            draft.changed = lifted > 0
        return f.ResumeLambdaReply()

    async def _detail(self, name: str, labels: Mapping[str, str], actions: Collection[GateAction], said: str) -> str:
        """What the audit log says of gates that are set or lifted, with what goes with a drop among them."""
        return "; ".join(filter(None, (said, await self._store.dropped(name, labels, actions))))

    async def list_gates(self, request: f.ListGatesRequest, *, timeout: float = 10) -> f.ListGatesReply:
        """The gates of a lambda, or of all."""
        await self._lambdas.refresh()
        name = lambda_of(request)
        chosen = [self._lambdas.get(_permitted(request, Verb.READ))] if name else self._lambdas.all()
        names = sorted(known.record.name for known in chosen if known.record.gated or known.record.paused)
        names = permitted(Verb.READ, names)
        return f.ListGatesReply(gates=[to_proto(gate) for gate in await self._store.list_gates(*names)])

    async def _unknown(self, name: str) -> UnknownLambda:
        """The store knows no such lambda: says which are near."""
        await self._lambdas.refresh()
        return self._lambdas.unknown(name)


def _permitted(request: Message, verb: Verb = Verb.OPERATE) -> str:
    """The lambda that a request names, which exists or not: the caller may do this to it."""
    name = checked_lambda(request)
    permit(verb, name)
    return name


def _action(number: int) -> GateAction:
    action = _ACTIONS.get(cast("f.Gate.Action", number))
    if action is None:
        raise InvalidArgument(f"action {number}: use PAUSE (1), DROP (2), DELAY (3) or ADMIT (4)")
    return action


def _new_gate(request: f.SetGateRequest, now_us: int) -> NewGate:
    action = _action(request.action)
    check_labels(request.labels)
    size = sum(len(stored_key(name)) + len(stored_key(value)) for name, value in request.labels.items())
    if size > MAX_LABEL_BYTES:
        raise InvalidArgument(
            f"labels: {size} bytes, where what is none of ASCII's letters, digits and _.-~ counts three a byte; at most {MAX_LABEL_BYTES} in one gate."
            " One with fewer of them meets the same tasks, and maybe others"
        )
    check_who(request)
    if request.request_id:
        check_id(shown(request.request_id))
    until_us, for_us = _ends(request, now_us)
    return NewGate(
        lambda_of(request),
        action,
        dict(request.labels),
        _amount(request, action),
        until_us,
        for_us,
        *signature(request),
        request_id=request.request_id,
    )


def _amount(request: f.SetGateRequest, action: GateAction) -> float:
    if request.delay_us and action is not GateAction.DELAY:
        raise InvalidArgument(f"delay_us {request.delay_us}: only the action DELAY has one")
    if request.share and action is not GateAction.ADMIT:
        raise InvalidArgument(f"share {request.share}: only the action ADMIT has one")
    if action is GateAction.DELAY:
        if not 0 < request.delay_us <= MAX_AHEAD_US:
            raise InvalidArgument(f"delay by {length(request.delay_us)}: use more than 0 s and at most ten years")
        return request.delay_us
    if action is GateAction.ADMIT:
        if not MIN_SHARE <= request.share <= 1 - MIN_SHARE:  # NaN is not, either
            raise InvalidArgument(
                f"share {request.share}: more than 0 and less than 1; to admit none pause, to admit all lift the gate"
            )
        return request.share
    return 0


def _ends(request: f.SetGateRequest, now_us: int) -> tuple[int | None, int]:
    match request.WhichOneof("ends"):
        case "until_at_us":
            if request.until_at_us <= now_us:
                raise InvalidArgument(
                    f"until {instant(request.until_at_us)}: that instant has passed; give a later one, or none for a gate that stays until"
                    " it is lifted"
                )
            if request.until_at_us > now_us + MAX_AHEAD_US:
                raise InvalidArgument(
                    f"until {instant(request.until_at_us)}: more than ten years ahead; give a nearer instant (until_at_us is in µs), or"
                    " none for a gate that stays until it is lifted"
                )
            return request.until_at_us, 0
        case "for_us":
            if not 0 < request.for_us <= MAX_AHEAD_US:
                raise InvalidArgument(f"for {length(request.for_us)}: use more than 0 s and at most ten years")
            return None, request.for_us
        case _:
            return None, 0


def sentence(gate: NewGate) -> str:
    """What the audit log says of a gate."""
    match gate.action:
        case GateAction.DELAY:
            what = f"delay by {duration(int(gate.amount))}"
        case GateAction.ADMIT:
            what = f"admit {gate.amount * 100:g} %"
        case _:
            what = gate.action.value
    if gate.for_us:
        return f"{what} for {duration(gate.for_us)}"
    return f"{what} until {instant(gate.until_us)}" if gate.until_us else what


def to_proto(gate: Gate) -> f.Gate:
    """A gate on the wire."""
    return f.Gate(
        **{"lambda": gate.lambda_name},
        labels=gate.labels,
        action=_NUMBERS[gate.action],
        delay_us=int(gate.amount) if gate.action is GateAction.DELAY else 0,
        share=gate.amount if gate.action is GateAction.ADMIT else 0,
        until_at_us=gate.until_us,
        who=gate.who,
        why=gate.why,
        automatic=gate.automatic,
        set_at_us=gate.set_at_us,
        waiting=gate.waiting,
        dropped=gate.dropped,
        number=gate.number,
    )
