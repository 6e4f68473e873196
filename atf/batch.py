"""What a batch is made of, before anybody sends it."""

from __future__ import annotations

from hashlib import md5


def link_id(batch_id: str, place: int, round_: int) -> str:
    """The id of the batch that the callback at `place`, from 0, becomes when round `round_` of a batch has ended."""
    return md5(f"{batch_id}+{place}+{round_}".encode(), usedforsecurity=False).hexdigest()[:20]
