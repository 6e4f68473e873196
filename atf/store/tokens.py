"""The tokens of the installation, and what credentials of executors are signed with: texts, which atf/auth reads and writes."""

from __future__ import annotations

from .partitions import REGISTRY_PARTITION, Partitions


class TokenVerbs(Partitions):
    """The verbs of Store about tokens."""

    async def list_tokens(self, known: int = -1, *, keys: bool = True) -> tuple[int, dict[str, bytes]] | None:
        """The version of the tokens, and each one's text by its id; None: it is still the version that is known.

        Args:
            known: a version that was read before.
            keys: whether what credentials are signed with is wanted, too; not every user of the store may read that.
        """
        version, *rest = await self._call("list_tokens", REGISTRY_PARTITION, [known, int(keys)])
        if int(version) == known:
            return None
        return int(version), {rest[i].decode(): rest[i + 1] for i in range(0, len(rest), 2)}

    async def set_token(self, token_id: str, text: bytes, read: bytes = b"") -> bool:
        """Makes or replaces a token, or removes it.

        Args:
            token_id: its id.
            text: what it is from now on; empty: it is removed.
            read: what it was when the caller has read it; empty: there was none.

        Returns:
            Whether it was still so; else nothing has changed.
        """
        return bool(await self._call("set_token", REGISTRY_PARTITION, [token_id, read, text]))
