"""Lists, pauses and sets lambdas and their keys, as a part of AsyncClient."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from atf.rpc import frontend_pb2 as f
from atf.sdk.messages import of_lambda, value_of

from .calls import Calls
from .info import ConcurrencyKeyInfo, KeyInfo, LambdaInfo
from .paging import pages
from .registration import listed
from .settings import written
from .whoami import signed


class LambdaCalls:
    """The calls of AsyncClient about lambdas and their keys."""

    _calls: Calls

    async def lambdas(self, name: str = "") -> list[LambdaInfo]:
        """The registered lambdas, with the numbers of their tasks, which are a second old at most.

        Args:
            name: only this one, with the numbers of now.

        Raises:
            UnknownLambda: no lambda of this name is registered.
        """
        return [LambdaInfo.from_proto(each) for each in (await listed(self._calls, name)).lambdas]

    async def stopped_keys(self, lambda_name: str) -> list[KeyInfo]:
        """The ordering keys of a lambda that have stopped at a task which failed for good."""
        request = f.ListKeysRequest(**of_lambda(lambda_name))
        return [value_of(KeyInfo, each) async for page in pages(self._calls.list_keys, request) for each in page.keys]

    async def concurrency_keys(self, lambda_name: str, key: str = "") -> list[ConcurrencyKeyInfo]:
        """The concurrency keys of a lambda for which tasks wait; or one key, as it stands.

        Raises:
            UnknownLambda: no such lambda is registered.
        """
        found: dict[str, ConcurrencyKeyInfo] = {}  # one that a store consumer looked at meanwhile comes twice
        request = f.ListConcurrencyKeysRequest(key=key, **of_lambda(lambda_name))
        async for page in pages(self._calls.list_concurrency_keys, request):
            found |= {each.key: value_of(ConcurrencyKeyInfo, each) for each in page.keys}
        return list(found.values())

    async def resume_key(self, lambda_name: str, key: str, task_id: str = "", *, why: str = "", who: str = "") -> None:
        """Lets a stopped ordering key go on with the task that stopped it, which starts afresh.

        Args:
            lambda_name: whose key it is.
            key: the key.
            task_id: the task that stopped it, for a call that may be repeated: nothing happens where it has gone on since.
            why, who: for the audit log.

        Raises:
            FailedPrecondition: it has not stopped, or at another task.
        """
        request = f.ResumeKeyRequest(key=key, task_id=task_id, **signed(who, why), **of_lambda(lambda_name))
        await self._calls.resume_key(request)

    async def skip_key(self, lambda_name: str, key: str, task_id: str = "", *, why: str = "", who: str = "") -> None:
        """Lets a stopped ordering key go on without the task that stopped it; that one stays a dead letter. As resume_key otherwise."""
        request = f.SkipKeyRequest(key=key, task_id=task_id, **signed(who, why), **of_lambda(lambda_name))
        await self._calls.skip_key(request)

    async def pause(self, lambda_name: str, *, why: str = "", who: str = "") -> None:
        """Starts no more tasks of a lambda; it goes on accepting them, and what runs goes on. A gate; see `gate`.

        Raises:
            UnknownLambda: no such lambda is registered.
        """
        request = f.PauseLambdaRequest(**signed(who, why), **of_lambda(lambda_name))
        await self._calls.pause_lambda(request)

    async def resume(self, lambda_name: str, *, why: str = "", who: str = "") -> None:
        """Starts tasks of a paused lambda again.

        Raises:
            UnknownLambda: no such lambda is registered.
        """
        request = f.ResumeLambdaRequest(**signed(who, why), **of_lambda(lambda_name))
        await self._calls.resume_lambda(request)

    async def set_lambda(
        self,
        lambda_name: str,
        settings: Mapping[str, object] = MappingProxyType({}),
        *,
        unset: Sequence[str] = (),
        why: str = "",
        who: str = "",
    ) -> LambdaInfo:
        """Sets what goes before what a lambda's code says, until it is unset; within a second it holds everywhere.

        Args:
            lambda_name: "namespace/name".
            settings: by the names of `@app.task`, and values as it takes them, such as {"rate": 100, "shares": {"low": 0.1}}, or as
                `atf lambda set` does; None, or "none", lifts a bound that the code has.
            unset: names of settings that shall be as the code says again; "all": every one.
            why, who: for the audit log.

        Raises:
            UnknownLambda: no such lambda is registered.
            InvalidArgument: there is no such setting, or a value breaks its rule.
        """
        request = f.SetLambdaRequest(
            set={name: written(value) for name, value in settings.items()},
            unset=unset,
            **signed(who, why),
            **of_lambda(lambda_name),
        )
        return LambdaInfo.from_proto(await self._calls.set_lambda(request))
