"""Whom a server answers, and how it is encrypted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from atf.auth.authenticator import Authenticator
from atf.auth.caller import Caller, called_by
from atf.auth.methods import check_method
from atf.auth.secrets import shown_in
from atf.auth.wrong_tries import WrongTries
from atf.errors import Unauthenticated
from atf.runtime import end

from .caller_limits import CallerLimits
from .caller_security import shown_here

T = TypeVar("T")

AGAIN_S: Final = 10.0
"""With the seconds after which a server knows that a token was revoked (known_tokens.READ_EVERY_S), a stream ends within 30 s of that."""
Check = Callable[[Any], Awaitable[None]]
"""Lets pass a call by its gRPC context, and notes who makes it; else raises Unauthenticated or PermissionDenied."""
_NAMES: Final = ("x509_subject_alternative_name", "x509_common_name")


@dataclass(frozen=True)
class ServerSecurity:
    """Whom a server answers.

    Attributes:
        authenticator: knows callers; None: everybody may do everything.
        credentials: gRPC's, of a server; None: what is said can be read by whoever carries it.
        wrong_tries: limits those who show what is not valid; None: nobody is limited.
        http: wraps connections of what the role serves to people by HTTP; None: they are plain.
        http_of_callers: the same of what it serves to those who call it by gRPC as well.
        check_method: lets pass what a caller may call, by its path.
        limits: what one caller may ask for at once; None: as much as by default.
        again_s: seconds after which an open stream is checked once more.
    """

    authenticator: Authenticator | None = None
    credentials: Any | None = None
    wrong_tries: WrongTries | None = None
    http: Any | None = None
    http_of_callers: Any | None = None
    check_method: Callable[[str, Caller], None] = check_method
    limits: CallerLimits | None = None
    again_s: float = AGAIN_S

    def checks(self, path: str) -> Check | None:
        """What lets pass the calls of one method."""
        authenticator = self.authenticator
        if authenticator is None:
            return None

        async def check(context: Any) -> None:
            sent = {key: value for key, value in context.invocation_metadata() or () if isinstance(value, str)}
            shown = shown_in(sent)
            # A certificate counts where nothing else is shown; to read it for each call would cost more than the rest.
            subjects = () if shown else subjects_of(context)
            try:
                await self._let_in(authenticator, path, shown, subjects)
            except Unauthenticated as error:
                if self.wrong_tries is not None:
                    await self.wrong_tries.after(context.peer(), str(error))
                raise

        return check

    async def while_let_in(self, streaming: Awaitable[T], check: Check, context: Any) -> T:
        """Answers a stream for as long as its caller would be let in anew: until its token is revoked or expires, or may no longer do this.

        Raises:
            Unauthenticated, PermissionDenied, Unavailable: it would not; the stream was ended.
        """
        answering = asyncio.ensure_future(streaming)  # noqa: TID251  it ends with this call
        try:
            while not (await asyncio.wait({answering}, timeout=self.again_s))[0]:
                await check(context)
            return await answering
        finally:
            await end([answering])

    async def let_in(self, path: str) -> None:
        """Lets pass a call from within this process, by what it shows (caller_security.showing), and notes who makes it.

        Raises:
            Unauthenticated, PermissionDenied: as over a connection.
        """
        if self.authenticator is not None:
            await self._let_in(self.authenticator, path, shown_here(), ())

    async def _let_in(self, authenticator: Authenticator, path: str, shown: str, subjects: Sequence[str]) -> None:
        who = await authenticator.caller(shown, subjects)
        self.check_method(path, who)
        called_by(who)


OPEN_TO_ALL: Final = ServerSecurity()


def subjects_of(context: Any) -> Sequence[str]:
    """The names in the certificate of whoever makes a call; the server has checked it."""
    found = context.auth_context()
    return [each.decode("utf-8", "replace") for name in _NAMES for each in found.get(name, ())]
