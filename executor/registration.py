"""Makes an executor's lambdas and jobs known before it takes any task."""

from __future__ import annotations

from functools import partial
from typing import Any

from atf.builtin import NAMESPACE
from atf.client.registration import register_lambdas
from atf.codec.cipher import cipher_of
from atf.config.settings import ExecutorSettings
from atf.errors import PermissionDenied
from atf.process.role import Process
from atf.rpc.api import Frontend
from atf.rpc.caller_security import own
from atf.rpc.channel import open_channel
from atf.rpc.stubs import FrontendStub
from atf.sdk.lambdas import Lambda

from .code_jobs import register_jobs


async def register(lambdas: dict[str, Lambda[..., Any]], settings: ExecutorSettings, process: Process) -> None:
    """Makes the lambdas known. Of ATF's own those are taken out that a token does not name."""
    channel, where = open_channel(settings.frontend), f"the frontend at {settings.frontend}"
    frontend = FrontendStub(channel)
    if own().metadata() is not None:
        await _leave_out(lambdas, frontend, process, where)
    specs = [each.spec() for each in lambdas.values()]
    for warning in await process.retry_until_available(lambda: register_lambdas(frontend, specs), where):
        process.log.warning(warning)
    jobs = [each.job for each in lambdas.values() if each.job is not None]
    namespaces = {name.partition("/")[0] for name in lambdas}
    cipher = cipher_of(settings.codec_keys)
    await process.retry_until_available(lambda: register_jobs(frontend, jobs, namespaces, cipher), where)
    await channel.close()


async def _leave_out(lambdas: dict[str, Lambda[..., Any]], frontend: Frontend, process: Process, where: str) -> None:
    """Tries each lambda of ATF's own by itself: they run programs and call hosts, so a token has to name those that its workers run."""
    for name in [each for each in lambdas if each.startswith(f"{NAMESPACE}/")]:
        try:
            await process.retry_until_available(partial(register_lambdas, frontend, [lambdas[name].spec()]), where)
        except PermissionDenied:
            process.log.debug("its token does not name it, so it is not run here", lambda_name=name)
            del lambdas[name]
