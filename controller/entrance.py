"""Lets a controller's executors in, and nobody else, where the installation has tokens.

The controller shows its token to the HSC alone. An executor runs the code of users, so it never has that token:

1. the controller starts it with a secret that is good for one executor, through a pipe
2. the executor shows that secret to Enter, and gets a credential that the HSC has signed for it (hsc/credentials.py)
3. it shows the credential to the roles, and here, where those that were given are remembered; halfway it shows it to Enter for the next one

An executor that was started by hand proves in the place of the secret that it knows the controller's own token (auth/by_hand.py). Where the HSC says that callers show
nothing, this controller asks nobody for anything either.
"""

from __future__ import annotations

import base64
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, NamedTuple

from atf.auth.by_hand import is_proof
from atf.auth.caller import ANYBODY, Caller, CallerKind
from atf.auth.methods import OF_CONTROLLERS
from atf.auth.secrets import MAX_CHARS, SCHEME, digest_of
from atf.errors import PermissionDenied, Unauthenticated
from atf.rpc import api, controller_pb2 as c, hsc_pb2 as h, task_pb2 as t
from atf.rpc.caller_security import CallerSecurity
from atf.runtime import Runtime
from atf.task import US

from .requests import check_enter

ENTER: Final = "/atf.v1.Controller/Enter"
SECRET_BYTES: Final = 32
MOST_SECRETS: Final = 20_000
"""That may wait for their executors; of guards that died before that, the oldest are forgotten."""
_STRANGER: Final = Caller(CallerKind.EXECUTOR, "somebody unknown")


class _Shown(NamedTuple):
    """Whose a credential is."""

    executor_id: str
    until: float  # of the monotonic clock


class Entrance:
    """Knows the executors of one controller. It is the Authenticator of the controller's server.

    Args:
        hsc: signs credentials.
        own: what the controller shows.
        runtime: clocks, chance.
    """

    def __init__(self, hsc: api.HSC, own: CallerSecurity, runtime: Runtime) -> None:
        self._hsc, self._own, self._runtime = hsc, own, runtime
        self._secrets: OrderedDict[str, str] = OrderedDict()
        """By the digest of a secret, the executor that has shown it; "": none yet."""
        self._entered: dict[str, _Shown] = {}
        """By the digest of a credential."""
        self._open = False
        """Whether callers show nothing in this installation."""

    def new_secret(self) -> str:
        """A secret for an executor that is about to be started."""
        secret = base64.urlsafe_b64encode(self._runtime.random.randbytes(SECRET_BYTES)).decode().rstrip("=")
        self._secrets[digest_of(secret)] = ""
        if len(self._secrets) > MOST_SECRETS:
            self._secrets.popitem(last=False)
        return secret

    async def enter(self, request: c.EnterRequest) -> t.Credential:
        """Gives an executor what it shows from now on.

        Raises:
            InvalidArgument: it breaks a rule.
            Unauthenticated: what it shows is nothing that this controller knows.
            AtfError: what the HSC says.
        """
        check_enter(request)
        digest = digest_of(request.secret)
        self._check(request, digest)
        issued = await self._hsc.issue_credential(h.IssueCredentialRequest(executor_id=request.executor_id))
        self._open = not issued.secret
        now = self._runtime.monotonic()
        self._entered = {key: each for key, each in self._entered.items() if each.until > now}
        if issued.secret:
            self._entered[digest_of(issued.secret)] = _Shown(request.executor_id, now + issued.valid_for_us / US)
        return issued

    def _check(self, request: c.EnterRequest, digest: str) -> None:
        known = self._entered.get(digest)
        if known is not None and known.executor_id == request.executor_id:
            return
        if self._secrets.get(digest, "?") in {"", request.executor_id}:  # the same again, where its answer was lost
            self._secrets[digest] = request.executor_id
            return
        shown = self._own.metadata()
        token = shown[0][1].removeprefix(SCHEME) if shown else ""
        if not token or not is_proof(request.secret, token, request.executor_id, self._runtime.wall_us()):
            raise Unauthenticated(
                "what this executor shows is not known here: a controller lets in those that it has started, once each, and those that"
                " were started by hand with its own token (ATF_TOKEN, ATF_TOKEN_FILE)"
            )

    def left(self, executor_id: str) -> None:
        """An executor is dead: nothing of it is known any more."""
        self._entered = {key: each for key, each in self._entered.items() if each.executor_id != executor_id}
        for digest in [each for each, owner in self._secrets.items() if owner == executor_id]:
            del self._secrets[digest]

    # --- of the server ----------------------------------------------------------------------------------------------

    async def caller(self, shown: str, subjects: Sequence[str]) -> Caller:  # noqa: ARG002
        """As of Authenticator. Who shows nothing that is known is a stranger, who may only enter."""
        if self._open and not shown:
            return ANYBODY
        found = self._entered.get(digest_of(shown[len(SCHEME) :])) if len(shown) <= MAX_CHARS else None
        if found is None or found.until <= self._runtime.monotonic():
            return _STRANGER
        return Caller(CallerKind.EXECUTOR, f"executor {found.executor_id}", executor_id=found.executor_id)

    def check_method(self, path: str, who: Caller) -> None:
        """As of ServerSecurity.

        Raises:
            Unauthenticated: somebody who has not entered.
            PermissionDenied: the table of who may call what has no such row.
        """
        if path not in OF_CONTROLLERS:
            raise PermissionDenied(f"{path} is in no row of the table of who may call what, so nobody may")
        if who is _STRANGER and path != ENTER:
            raise Unauthenticated(
                "this controller does not know who asks: it takes calls of its own executors alone. One that was started by hand needs the"
                " controller's token, in ATF_TOKEN or ATF_TOKEN_FILE"
            )
