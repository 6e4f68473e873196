"""Commands on tokens: create, ls, rotate, revoke. A secret is made here, shown once, and sent to nobody."""

from __future__ import annotations

import os
from typing import Any

import click

from atf.auth import secrets
from atf.auth.grants import ALL, Verb
from atf.client.whoami import signed, whoami
from atf.rpc import frontend_pb2 as f
from atf.task import US

from .json_values import message_json
from .nouns import Noun
from .options import asks, duration, lists, option, why_flag
from .output import show, show_rows, when
from .remote import ask

_FIELDS = "id verbs scopes pools subject expires_us revoked_us created_us before_until_us by note"


@click.group(cls=Noun)
def token() -> None:
    """What callers show where a role runs with `--auth token` or `mtls`, and what that lets them do; without a further word, list them."""


def _words(_context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]) -> list[str]:
    return [word for each in given for word in each.split(",") if word]


@token.command()
@option(
    "--namespace",
    "NAME",
    "For which namespaces, or full names of lambdas; * for all but the built-in lambdas. Several are allowed.",
    multiple=True,
    callback=_words,
    required=True,
)
@option(
    "--can", "VERB", f"What: {', '.join(Verb)}. Several are allowed.", multiple=True, callback=_words, required=True
)
@option("--pool", "POOL", "For which pools a worker may ask.  [default: all]", multiple=True, callback=_words)
@option("--expires", "T", "When it ends by itself, such as 90d.  [default: never]", duration)
@option(
    "--subject",
    "NAME",
    "Known by a client's certificate of this name, such as a SPIFFE URI, in place of a secret.",
    default="",
)
@option("--note", "TEXT", "What it is for; the audit shows it.", default="")
@why_flag
@asks
def create(
    namespace: list[str], can: list[str], pool: list[str], expires: float | None, subject: str, note: str, why: str
) -> None:
    """Make a token, and show its secret: this once, since only its SHA-256 is kept.

    \b
    atf token create --namespace photos --can schedule,read --expires 90d --note web
    atf token create --namespace '*' --can admin --frontend redis://HOST:6379    the first one
    """
    token_id = secrets.new_id(os.urandom)
    shown = "" if subject else secrets.new_token(token_id, os.urandom)
    request = f.CreateTokenRequest(
        id=token_id,
        digest=secrets.digest_of(shown) if shown else "",
        subject=subject,
        verbs=can,
        scopes=namespace,
        pools=pool,
        expires_in_us=round((expires or 0) * US),
        note=note,
        **signed(whoami(), why),
    )
    made = ask(lambda stub: stub.create_token(request), operator=True)
    _show(made, shown)


@token.command()
@lists
def ls() -> None:
    """List the tokens, those that have ended too: what they may do, for whom, and until when. No secret is shown."""
    reply = ask(lambda stub: stub.list_tokens(f.ListTokensRequest()), operator=True)
    show_rows(
        reply.tokens,
        lambda each: message_json(each, _FIELDS),
        {
            "token": "id",
            "can": lambda each: ",".join(each.verbs),
            "for": lambda each: ",".join(each.scopes),
            "pools": lambda each: "" if list(each.pools) == [ALL] else ",".join(each.pools),
            "ends": _ends,
            "note": lambda each: each.note or each.subject,
            "by": "by",
        },
    )


@token.command()
@click.argument("token_id", metavar="TOKEN")
@option("--overlap", "T", "For how long the secret before is valid, too.", duration, default="1d", show_default=True)
@why_flag
@asks
def rotate(token_id: str, overlap: float, why: str) -> None:
    """Give TOKEN another secret, and show it this once. Both are valid for a while, so that holders change over one after the other."""
    shown = secrets.new_token(token_id, os.urandom)
    request = f.RotateTokenRequest(
        id=token_id, digest=secrets.digest_of(shown), overlap_us=round(overlap * US), **signed(whoami(), why)
    )
    _show(ask(lambda stub: stub.rotate_token(request), operator=True), shown)


@token.command()
@click.argument("token_id", metavar="TOKEN")
@why_flag
@asks
def revoke(token_id: str, why: str) -> None:
    """End TOKEN, and what executors hold by it: everywhere within 30 seconds."""
    request = f.RevokeTokenRequest(id=token_id, **signed(whoami(), why))
    found = ask(lambda stub: stub.revoke_token(request), operator=True)
    show(message_json(found, _FIELDS), f"{token_id} is refused everywhere within 30 s")


@token.command()
@why_flag
@asks
def rotate_key(why: str) -> None:
    """Make another key that the credentials of executors are signed with, where somebody may know the one that there is. Running executors change over by themselves; after 5 minutes what the others have signed is refused."""
    request = f.RotateSigningKeyRequest(**signed(whoami(), why))
    made = ask(lambda stub: stub.rotate_signing_key(request), operator=True)
    shown = message_json(made, "made_at_us others_until_us")
    show(
        shown,
        f"the new key is of {when(made.made_at_us)}; those before it are refused from {when(made.others_until_us)} on",
    )


def _ends(found: f.AccessToken) -> str:
    if found.revoked_us:
        return f"revoked {when(found.revoked_us)}"
    return when(found.expires_us) if found.expires_us else "never"


def _show(found: f.AccessToken, shown: str) -> None:
    said: dict[str, Any] = message_json(found, _FIELDS)
    what = f"token {found.id}: {','.join(found.verbs)} for {','.join(found.scopes)}, until {_ends(found)}"
    if not shown:
        show(said, f"{what}. Whoever shows a certificate of {found.subject} has it")
        return
    show(
        {**said, "secret": shown},
        what,
        shown,
        "Keep it now: it is not shown again. Its holder sets ATF_TOKEN, or ATF_TOKEN_FILE",
    )
