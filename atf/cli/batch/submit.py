"""How `atf batch submit` sends the rows of a file, or of stdin while they come."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, Self

from atf.cli.arguments import Parameters, registered
from atf.cli.json_values import print_json
from atf.cli.options import wants_json
from atf.cli.progress import View
from atf.cli.stdin import open_stdin, read_as_they_come
from atf.client import AsyncClient
from atf.client.batch_upload import BatchPlan, goes_on
from atf.client.submit import check_count, count_async
from atf.errors import AtfError, InvalidArgument
from atf.exits import EXIT_OK
from atf.rpc import api, batch_pb2 as b
from atf.sdk.items import Elements, NamedElements
from atf.sdk.option_kinds import BatchOptions
from atf.sdk.work_items import COMMAND
from atf.visible import one_line

from .rows import rows
from .view import SubmitProgress, batch_json, follow


class RowSource:
    """Where the rows are.

    Attributes:
        again: whether they can be read twice.
    """

    def __init__(self, name: str, form: str | None, lambda_name: str) -> None:
        self.shown = "stdin" if name == "-" else name
        self.again = name != "-"
        self.form = form or ("csv" if name.lower().endswith(".csv") else "jsonl")
        self.lambda_name = lambda_name
        self._name = name

    def __enter__(self) -> Self:
        try:
            # Some programs begin a file with a byte order mark.
            self._file = Path(self._name).open(encoding="utf-8-sig", newline="") if self.again else open_stdin()
        except OSError as error:
            raise InvalidArgument(f"{self._name}: {error.strerror or error}") from None
        return self

    def __exit__(self, *error: object) -> None:
        if self.again:  # else a thread may still wait in it
            self._file.close()

    def elements(self, elements: Elements, parameters: Parameters | None) -> Iterator[Any]:
        """The rows from the first on, as elements that fit.

        Raises:
            InvalidArgument: a row does not fit; names its line.
        """
        if self.again:
            self._file.seek(0)
        try:
            for line, element in rows(self._file, self.form, self.lambda_name, parameters):
                try:
                    elements.add(b.BatchItems(), element)
                except (TypeError, ValueError, InvalidArgument) as error:
                    raise InvalidArgument(f"line {line}: {error}") from None
                yield element
        except UnicodeDecodeError as error:
            raise InvalidArgument(f"{self.shown} is no text in UTF-8: {error}") from None
        except InvalidArgument as error:
            raise InvalidArgument(f"{self.shown}, {error}") from None


async def submit_rows(stub: api.Frontend, source: RowSource, options: BatchOptions, shown: View, *, watch: bool) -> int:
    """Submits what is not stored yet of a source, and shows how far it is; the exit code.

    Args:
        options: with the batch's id.
        watch: follow it to its end.
    """
    batch_id = options["batch_id"]
    async with AsyncClient(frontend=stub) as client:
        plan, parameters = await _plan(stub, client, source, options)
        count = 0
        if source.again:
            count = sum(1 for _ in source.elements(plan.elements, parameters))
            shown.show(SubmitProgress(0, count))
        sending = _RowSender(shown, one_line(batch_id), count)
        try:
            await sending.send(client, plan, source, source.elements(plan.elements, parameters))
        except AtfError as error:
            if not goes_on(error, begun=sending.begun):
                raise
            raise type(error)(f"{error} (the same command with --id {batch_id} goes on)") from None
        except BaseException:
            print(f"atf: the same command with --id {batch_id} goes on", file=sys.stderr)
            raise
        if watch:
            return await follow(client, batch_id, shown)
        if wants_json():
            print_json(batch_json(await client.get_batch(batch_id)))
        return EXIT_OK


async def _plan(
    stub: api.Frontend, client: AsyncClient, source: RowSource, options: BatchOptions
) -> tuple[BatchPlan, Parameters | None]:
    lambda_name, target = source.lambda_name, options.get("target")
    if lambda_name == COMMAND:
        if target is not None:
            options["target"] = _word(str(target))
        return client.batch_plan(lambda_name, options), None
    parameters = await registered(stub, lambda_name)
    plan = client.batch_plan(lambda_name, options)
    names = parameters.names if parameters is not None else None
    return replace(plan, elements=NamedElements(lambda_name, target, names)), parameters


def _word(number: str) -> Callable[[list[str]], str]:
    if not number.isdecimal():
        raise InvalidArgument(
            f"--target {number!r}: a command line has no names; give the number of a word, 0 for the program"
        )
    return lambda words: words[int(number)] if int(number) < len(words) else ""


class _RowSender:
    """Rows on their way. Says the batch's id as soon as the batch is there, and how many rows it has.

    Args:
        shown: where.
        said: the id as it is said.
        count: of the rows; 0: nobody knows.

    Attributes:
        begun: whether the batch is known to be there.
    """

    def __init__(self, shown: View, said: str, count: int) -> None:
        self.begun = False
        self._shown = shown
        self._said = said
        self._count = count

    async def send(self, client: AsyncClient, plan: BatchPlan, source: RowSource, elements: Iterator[Any]) -> None:
        """Has the rows stored that are not yet.

        Raises:
            AtfError: as AsyncClient.batch.
        """
        chunker = await client.begin_batch(plan)
        if chunker.closed:
            most = chunker.taken + 1
            given = self._count if source.again else await count_async(read_as_they_come(elements), most)
            check_count(plan.header.id, chunker.taken, given)
            self._begin()
            return
        self.begun = chunker.begun
        chunker.told = lambda: self._stored(chunker.taken)
        left = islice(elements, chunker.taken, None)
        await client.feed(chunker, left if source.again else read_as_they_come(left))

    def _stored(self, rows: int) -> None:
        self._begin()
        self._shown.show(SubmitProgress(rows, self._count))

    def _begin(self) -> None:
        if self._said:
            self._shown.say(self._said)
        self.begun, self._said = True, ""
