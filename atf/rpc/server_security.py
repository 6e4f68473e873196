"""Whom a server answers, and how it is encrypted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from atf.auth.authenticator import Authenticator
from atf.auth.caller import Caller, called_by
from atf.auth.methods import check_method
from atf.auth.secrets import shown_in
from atf.auth.wrong_tries import WrongTries
from atf.errors import Unauthenticated

from .caller_security import shown_here

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
        http: wraps connections of what the role serves by HTTP; None: as `credentials`.
        check_method: lets pass what a caller may call, by its path.
    """

    authenticator: Authenticator | None = None
    credentials: Any | None = None
    wrong_tries: WrongTries | None = None
    http: Any | None = None
    check_method: Callable[[str, Caller], None] = check_method

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
