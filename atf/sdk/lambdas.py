"""A lambda, which is a task type: a handler under a name, callable as the plain function it is, and schedulable as a task.

Makes requests; the client sends them. `def` and `async def` have a class each, since they differ in what a plain call of
them gives.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from hashlib import blake2b
from typing import Any, ParamSpec, TypeVar, Unpack, cast

from atf.errors import InvalidArgument
from atf.rpc import frontend_pb2 as f, job_pb2 as j, task_pb2 as t
from atf.task import check_name

from .context import Context, local_context
from .handlers import inner_function, name_of
from .hooks import AroundRun
from .isolation import isolation_spec
from .job import job_spec
from .option_kinds import CallOptions, JobOptions, LambdaOptions
from .options import (
    TaskOptionsValues,
    run_options,
)
from .payload import encode_result, short
from .redaction import Redactor
from .schedulable import Schedulable
from .signature import Codec

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Lambda(Schedulable[P, R]):
    """A handler under a name.

    Attributes:
        name: "namespace/name".
        fn: the handler as it was given.
        is_async: whether its calls are known to give coroutines, as those of an `async def`.
        takes_context: whether its first parameter is the Context.
        redacts: whether it has arguments whose values stand in no message.
        defaults: how its tasks are run, unless a call says otherwise.
        job: the job that its code declares; None: none.
        isolate: whether executors run it in a process of its own.
        around: the app's hooks around its runs, the outermost first.
    """

    is_async: bool
    around: Sequence[AroundRun] = ()

    def __init__(self, fn: Callable[..., Any], namespace: str, options: LambdaOptions) -> None:
        name = f"{namespace}/{check_name(options.get('name') or name_of(fn), 'lambda')}"
        super().__init__(
            name, Codec(fn, name, Context, options.get("aliases"), options.get("redact"), options.get("search")), {}
        )
        self.fn = fn
        self.takes_context: bool = self._codec.takes_context
        self.redacts = bool(self._codec.redacted)
        self.defaults: TaskOptionsValues = run_options(options)
        self.isolate = self._isolate(options)
        self._isolation = isolation_spec(self.name, options)
        self.job = self._job(options)
        self.__signature__ = self._codec.signature
        self.__wrapped__ = fn
        written = inner_function(fn)
        self.__doc__ = written.__doc__
        self.__module__ = written.__module__
        self.__name__ = written.__name__
        self.__qualname__ = written.__qualname__

    def __repr__(self) -> str:
        return f"<lambda {self.name}{self._codec.shown}>"

    def options(self, **options: Unpack[CallOptions]) -> Schedulable[P, R]:
        """The same lambda under other options: `thumbnail.options(delay=30, priority="high").schedule("cat.jpg")`.

        Args:
            delay: seconds, a timedelta or text such as "5m" from now.
            at: an instant with a time zone, instead of `delay`; in the past means now.
            priority: "high", "normal", "low", or 0 (high) to 9.
            key: idempotency key. The same call again finds the task that it made; another call with it fails.
            ordering_key: tasks of one key run one after another, in the order in which they were accepted.
            concurrency_key: of the tasks of one key, one runs at a time; or as many as an `atf.Concurrency` says, and what it says
                of those beyond.
            unique: an `atf.Unique`: one task of its key within a window.
            affinity_key: tasks of one key prefer the host that ran it last, where the lambda's placement is "sticky".
            labels: at most 16 names with values: gates and redrives can choose by them. Never encrypted, also where the client has codec_keys: put no secret in one.
            durability: "relaxed", "disk" (the store's disk has it) or "replicated" (a replica has it): how safe the task must
                be before the call returns; default what the frontend is set to. See docs/how-to/stores.md.
            timeout: seconds, a timedelta or text such as "5m" that one run may take; None: no bound.
            max_attempts, max_losses, backoff, retention: as for `@app.task`.

        Raises:
            InvalidArgument: a value breaks its rule.
        """
        return Schedulable(self.name, self._codec, options)

    def run_within(self, hooks: Sequence[AroundRun]) -> None:
        """Has executors run it within these hooks; a `def` only within those that are not asynchronous."""
        self.around = tuple(each for each in hooks if self.is_async or not each.is_async)

    def spec(self) -> f.LambdaSpec:
        """The lambda as it is registered."""
        spec = f.LambdaSpec(
            name=self.name,
            options=self.defaults.to_proto(),
            signature=self._codec.text,
            digest=self.digest,
            schedule=self.job.schedule if self.job is not None else "",
            redact=sorted(self._codec.redacted),
            search=self._codec.search,
        )
        spec.MergeFrom(self._isolation)
        return spec

    def _isolate(self, options: LambdaOptions) -> bool:
        isolate = options.get("isolate", False)
        if not isinstance(isolate, bool):
            raise InvalidArgument(f"lambda {self.name}: isolate {short(isolate)}: give True or False")
        if isolate and self.is_async:
            raise InvalidArgument(
                f"lambda {self.name}: isolate=True is for a def, since an async def shares an event loop with others:"
                " write a def, and asyncio.run(...) in it"
            )
        return isolate

    def _job(self, options: LambdaOptions) -> j.JobSpec | None:
        schedule = options.get("schedule")
        if schedule is None:
            if given := {"tz", "job"} & options.keys():
                raise InvalidArgument(f"lambda {self.name}: {min(given)} is of no use without schedule=")
            return None
        if "tz" in options and "tz" in options.get("job", {}):
            raise InvalidArgument(f'lambda {self.name}: tz= and job={{"tz": …}}: give the time zone once')
        try:
            task = self.prepare().request.spec  # type: ignore[call-arg]  # whether it can do without arguments is the question
        except TypeError as error:
            raise TypeError(f"{self.name} has a schedule, so its arguments need defaults: {error}") from None
        more = cast("JobOptions", {**options.get("job", {}), **({"tz": options["tz"]} if "tz" in options else {})})
        job = job_spec(self.name, task, schedule, more)
        # The frontend fills in the lambda's options when the job is made, so for others it must be made anew.
        filled_in = self.defaults.to_proto()
        filled_in.ClearField("max_attempts")
        filled_in.ClearField("backoff")
        said = job.SerializeToString(deterministic=True) + filled_in.SerializeToString(deterministic=True)
        job.code = blake2b(said, digest_size=12).hexdigest()
        return job

    @property
    def digest(self) -> str:
        """What tells its signature from another release's that reads other payloads: twelve hexadecimal digits."""
        return self._codec.digest

    def decode(self, payload: bytes, encoding: int) -> dict[str, Any]:
        """The arguments by name; those that were not given are left to the handler's defaults.

        Raises:
            Misfit: the payload does not fit the handler's parameters; the message says where.
            InvalidArgument: it is no JSON, which no handler could read.
            ValueError: code of the handler's types refused a value.
        """
        return self._codec.decode(payload, encoding)

    def redactor(self, payload: bytes, encoding: int) -> Redactor:
        """Takes the values of redacted arguments out of texts about a run with this payload."""
        return self._codec.redactor(payload, encoding)

    def decode_without(self, parameter: str, payload: bytes) -> None:
        """Checks arguments as JSON of which one comes later, as a batch's callback has them.

        Raises:
            Misfit, InvalidArgument, ValueError: as for `decode`.
        """
        self._codec.decode_without(parameter, payload)

    def encode_result(self, value: object) -> tuple[bytes, t.Encoding]:
        """What the handler returned as (bytes, encoding).

        Raises:
            InvalidArgument: JSON can't hold it, or it is over 64 KiB.
        """
        return encode_result(self.name, value)

    def _call(self, *args: Any, **kwargs: Any) -> Any:
        if self.takes_context:
            return self.fn(local_context(self.name), *args, **kwargs)
        return self.fn(*args, **kwargs)


class DefLambda(Lambda[P, R]):
    """A lambda whose handler is called in a thread, such as a `def`."""

    is_async = False

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Runs the handler here and now, as the plain function it is; a context it asks for is a local one."""
        result: R = self._call(*args, **kwargs)
        return result


class AsyncLambda(Lambda[P, R]):
    """A lambda whose handler gives a coroutine, such as an `async def`."""

    is_async = True

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        """Runs the handler here, as the plain coroutine it is; a context it asks for is a local one."""
        result: Coroutine[Any, Any, R] = self._call(*args, **kwargs)
        return result
