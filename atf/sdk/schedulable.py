"""A lambda's own arguments under options: prepared, scheduled, mapped, or made a step of a chain. Makes requests; the client sends them."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterable, Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, Unpack

from atf.errors import InvalidArgument
from atf.rpc import frontend_pb2 as f, task_pb2 as t
from atf.task import check_lambda

from .batch import OF_SINGLE_TASKS
from .chains import Chain, Step
from .default_client import default_client
from .items import LambdaElements, Target
from .option_kinds import BatchOptions, CallOptions
from .payload import decode_result, encode_named
from .requests import of_single_tasks, request_template
from .signature import Codec

if TYPE_CHECKING:
    from .batch_handle import Batch
    from .handle import Handle

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


@dataclass(frozen=True, repr=False)
class Prepared(Generic[R_co]):
    """A task ready to be scheduled, for `client.schedule_many`. Scheduling it twice makes one task."""

    request: f.ScheduleRequest
    """The client gives it an id when it sends it first, unless `key` was given."""
    decode: Callable[[bytes, int], R_co]
    """Makes the handler's return type of a recorded result."""
    keyed: bool = False
    """Whether `key` was given."""

    def __repr__(self) -> str:  # without its payload
        return f"<Prepared {getattr(self.request.spec, 'lambda')}>"


class Schedulable(Generic[P, R]):
    """A lambda's own arguments, with the options under which its tasks are made."""

    def __init__(self, name: str, codec: Codec, options: CallOptions) -> None:
        self.name = name
        self._codec = codec
        self._template = request_template(name, options)

    def prepare(self, *args: P.args, **kwargs: P.kwargs) -> Prepared[R]:
        """A task to be scheduled later, with others.

        Raises:
            TypeError: the arguments do not fit the handler; names the argument.
            InvalidArgument: JSON can't hold a value, or the payload is over 1 MiB.
        """
        request = f.ScheduleRequest()
        request.CopyFrom(self._template)
        spec = request.spec
        spec.payload, spec.encoding = self._codec.encode(args, kwargs)
        return Prepared(request, self._codec.decode_result, bool(request.id))

    def schedule(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Schedules a task by the default client (see ATF_FRONTEND), and blocks until it is stored.

        Raises:
            TypeError, InvalidArgument: as for `prepare`.
            UnknownLambda: no executor or command has registered the lambda yet.
            AlreadyExists: another request has taken the `key`.
            Unavailable, DeadlineExceeded, ResourceExhausted: it could not be stored within the client's timeout.
        """
        return default_client().schedule(self.prepare(*args, **kwargs))

    async def schedule_async(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Like `schedule`, from any event loop."""
        return await default_client().schedule_async(self.prepare(*args, **kwargs))

    # --- many at once -------------------------------------------------------------------------------------------------

    def map(self, items: Iterable[Any], **options: Unpack[BatchOptions]) -> Batch[R]:
        """Schedules a task for each element, as a batch, by the default client; blocks until all are stored.

        A tuple is arguments by position, a mapping arguments by name, anything else the only argument. The iterable may be a
        generator of millions. `AsyncClient.batch` has the options and what is raised.
        """
        return default_client().batch(self, items, **options)

    async def map_async(self, items: Iterable[Any] | AsyncIterable[Any], **options: Unpack[BatchOptions]) -> Batch[R]:
        """Like `map`, from any event loop; the elements may come asynchronously."""
        return await default_client().batch_async(self, items, **options)

    def s(self, *args: Any, **kwargs: Any) -> Step[R]:
        """A step of a chain, `a.s(1) | b.s()`, or a batch's callback. What comes before it is its first argument; these follow."""
        return Step(self, args, kwargs)

    def map_s(self, items: Iterable[Any] | AsyncIterable[Any], **options: Unpack[BatchOptions]) -> Chain[list[R]]:
        """The beginning of a chain that fans out, `a.map_s(items) | b.s()`: b gets the list of all results."""
        return Chain(self, items, options, single=False)

    def elements(self, target: Target | None) -> LambdaElements:
        """What the elements of a batch of it are."""
        return LambdaElements(self.name, self._codec, target)

    def element(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """These arguments as an element of a batch."""
        return self._codec.bind(args, kwargs)

    def takes(self, parameter: str) -> bool:
        """Whether the handler has a parameter of that name."""
        return parameter in self._codec.signature.parameters

    def first_parameter(self) -> str:
        """The name of the handler's first parameter besides the context.

        Raises:
            TypeError: it has none.
        """
        if not self._codec.first:
            raise TypeError(
                f"{self.name}() takes no argument, so it can't follow in a chain: it is given what came before"
            )
        return self._codec.first

    def batch_template(self) -> t.TaskSpec:
        """What `.options(...)` said, of every item of a batch.

        Raises:
            InvalidArgument: it said something that only a single task can have.
        """
        for name in of_single_tasks(self._template):
            mend = OF_SINGLE_TASKS.get(name, f"write .map(items, {name}=…)")
            raise InvalidArgument(f"a batch of {self.name}: .options({name}=…) is of single tasks; {mend}")
        return self._template.spec

    def task_without(self, parameter: str, args: tuple[Any, ...], kwargs: dict[str, Any], what: str) -> t.TaskSpec:
        """A task to be made later, when the argument of a parameter is known.

        Raises:
            TypeError: the other arguments do not fit.
            InvalidArgument: JSON can't hold one; or `.options(...)` said something that only a single task can have.
        """
        for name in of_single_tasks(self._template):
            raise InvalidArgument(
                f"{what}: .options({name}=…) of {self.name} is of single tasks; it runs once, when what comes before it has"
                " ended: leave it out"
            )
        spec = t.TaskSpec()
        spec.CopyFrom(self._template.spec)
        if self._codec.takes_raw:
            raise TypeError(f"{what}: {self.name} takes raw bytes, and what it would be given is JSON")
        try:
            spec.payload = self._codec.encode_without(parameter, args, kwargs)
        except TypeError as error:
            raise TypeError(f"{what}: {error}") from None
        return spec


def named(name: str, payload: Any, options: CallOptions) -> Prepared[Any]:
    """A task of a lambda of which only the name is known here.

    Raises:
        InvalidArgument: the name, the payload or an option breaks a rule.
    """
    request = request_template(check_lambda(name), options)
    request.spec.payload, request.spec.encoding = encode_named(name, payload)
    return Prepared(request, functools.partial(decode_result, name), bool(request.id))
