"""Decrypts the arguments of a run, and encrypts what it leaves: its result, its error, its progress and its log."""

from __future__ import annotations

from typing import Final, cast

from atf.codec.cipher import Cipher, KeyMissing
from atf.codec.texts import room_for, seal_error, seal_text
from atf.codec.values import bare_id, open_arguments, seal_result
from atf.errors import NotDecrypted
from atf.rpc import task_pb2 as t
from atf.task import MAX_LOG_BYTES, MAX_PROGRESS_BYTES, MAX_RESULT_BYTES, MAX_WHY_CHARS, clip

from .outcome import CUT, GaveUp, HandedBack, Outcome, Returned, RunFailed, RunTimedOut
from .output.kept_log import Kept

_PROGRESS_BYTES: Final = room_for(MAX_PROGRESS_BYTES)
_WHY_BYTES: Final = room_for(MAX_WHY_CHARS)
_LOG_BYTES: Final = room_for(MAX_LOG_BYTES)


class RunCipher:
    """What encrypts for one run.

    Args:
        cipher: the executor's.
        task_id: the stored id of its task.
        lambda_name: its lambda.
    """

    def __init__(self, cipher: Cipher, task_id: str, lambda_name: str) -> None:
        self._cipher, self._task_id, self._lambda_name = cipher, task_id, lambda_name

    def open(self, spec: t.TaskSpec) -> Outcome | None:
        """Decrypts the arguments in place; a failed attempt where they are damaged, or of another task.

        Raises:
            KeyMissing: this executor lacks the key.
        """
        try:
            payload, encoding = open_arguments(self._cipher, self._task_id, spec)
        except KeyMissing:
            raise
        except NotDecrypted as error:
            return RunFailed(f"{self._lambda_name} can't be called with its arguments: {error}")
        spec.payload, spec.encoding = payload, cast("t.Encoding", encoding)
        return None

    def outcome(self, outcome: Outcome) -> Outcome:
        """An outcome that can't be read without a key."""
        if isinstance(outcome, Returned):
            result = seal_result(self._cipher, self._lambda_name, self._task_id, outcome.result, outcome.encoding)
            if len(result) > MAX_RESULT_BYTES:
                return GaveUp(
                    f"{self._lambda_name} returned {len(outcome.result)} bytes, which are {len(result)} once they are encrypted, and a result has at"
                    f" most {MAX_RESULT_BYTES} (64 KiB): store what is large elsewhere, and return a reference to it"
                )
            return Returned(result, t.JSON)
        if isinstance(outcome, RunTimedOut) or outcome is CUT:  # words of ATF's own
            return outcome
        origin = f"error {bare_id(self._task_id)}"
        if isinstance(outcome, HandedBack):  # it stands in the list of runs alone
            return outcome._replace(error=seal_text(self._cipher, origin, clip(outcome.error, _WHY_BYTES)))
        return outcome._replace(error=seal_error(self._cipher, origin, outcome.error))

    def progress(self, text: str) -> str:
        """What a run says of its progress."""
        return seal_text(self._cipher, f"progress {bare_id(self._task_id)}", clip(text, _PROGRESS_BYTES))

    def log(self, run: int, kept: Kept) -> Kept:
        """The newest of a run's log, as much as fits."""
        data = kept.text.encode()
        text = data[-_LOG_BYTES:].decode("utf-8", "ignore")
        cut = kept.cut_bytes + len(data) - len(text.encode())
        return Kept(seal_text(self._cipher, f"log {bare_id(self._task_id)} {run}", text), cut)
