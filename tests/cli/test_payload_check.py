"""What `atf lambda check --against` says of a cluster's payloads."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

import atf
from atf.cli import payload_check
from atf.codec.cipher import Cipher
from atf.codec.key_file import new_keys, read_keys, write_keys
from atf.codec.values import seal_arguments
from atf.rpc import batch_pb2 as b, frontend_pb2 as f, job_pb2 as j, task_pb2 as t

app = atf.App("shop")


@app.task(aliases={"color": "colour"})
def paint(colour: str, coats: int = 1) -> str:
    return colour


@app.task
def frame(picture: str, *, wood: str) -> str:
    return picture


@dataclasses.dataclass
class Size:
    width: int

    def __post_init__(self) -> None:
        {1: "narrow"}[self.width]


@app.task
def cut(size: Size) -> None: ...


def spec(name: str, payload: bytes) -> t.TaskSpec:
    made = t.TaskSpec(payload=payload)
    setattr(made, "lambda", name)
    return made


class Cluster:
    """A frontend, with what waits there."""

    def __init__(self, tasks: dict[str, list[bytes]], page: int = 2) -> None:
        self.tasks = tasks
        self.page = page
        self.status = t.NEW
        self.jobs: list[j.Job] = []
        self.batches: list[b.Batch] = []

    async def list_lambdas(self, _: f.ListLambdasRequest) -> f.ListLambdasReply:
        infos = [
            f.LambdaInfo(spec=f.LambdaSpec(name=name), counts={"NEW": len(own)}) for name, own in self.tasks.items()
        ]
        return f.ListLambdasReply(lambdas=infos)

    async def list_tasks(self, request: f.ListTasksRequest) -> f.ListTasksReply:
        assert request.with_spec
        if request.filter.statuses != [self.status]:
            return f.ListTasksReply()
        name, first = getattr(request.filter, "lambda"), int(request.page_token or 0)
        some = list(enumerate(self.tasks[name]))[first : first + self.page]
        more = str(first + self.page) if first + self.page < len(self.tasks[name]) else ""
        tasks = [t.Task(id=f"0-{name[5:]}{number}", spec=spec(name, payload)) for number, payload in some]
        return f.ListTasksReply(tasks=tasks, next_page_token=more)

    async def list_jobs(self, _: f.ListJobsRequest) -> f.ListJobsReply:
        return f.ListJobsReply(jobs=self.jobs)

    async def list_batches(self, _: b.ListBatchesRequest) -> b.ListBatchesReply:
        return b.ListBatchesReply(batches=[b.Batch(id=each.id, status=each.status) for each in self.batches])

    async def get_batch(self, request: b.GetBatchRequest) -> b.Batch:
        assert request.with_spec
        return next(each for each in self.batches if each.id == request.id)


async def look(cluster: Cluster, cipher: Cipher | None = None) -> payload_check.UnfitPayloads:
    stub: Any = cluster
    return await payload_check.check_payloads(stub, app.lambdas, lambda _: None, cipher)


async def test_payloads_under_old_names_and_without_what_has_a_default_fit() -> None:
    found = await look(
        Cluster({"shop/paint": [b'{"color":"red"}', b'{"colour":"red","coats":2}'], "other/paint": [b"{}"]})
    )
    assert (found.looked_at, found.unfit()) == (2, [])


async def test_what_does_not_fit_is_counted_by_its_reason_over_all_pages() -> None:
    wrong = [b'{"hue":"red"}'] * 3 + [b'{"color":"red","colour":"red"}', b'{"color":"red"}']
    found = await look(Cluster({"shop/paint": wrong}))
    assert found.looked_at == 5
    many, one = found.unfit()
    assert (many.number, many.what, many.example) == (3, "tasks", "0-paint0")
    assert "hue" in many.why
    assert (one.number, one.example) == (1, "0-paint3")
    assert "both 'color' and 'colour'" in one.why


async def test_what_is_encrypted_is_decrypted_or_does_not_fit(tmp_path: Path) -> None:
    path = str(tmp_path / "codec.keys")
    write_keys(path, new_keys(), new=True)
    cipher = Cipher(path)
    (key_id,) = read_keys(path).by_id
    sealed = [
        seal_arguments(cipher, f"task shop/paint {each}", payload, t.JSON)
        for each, payload in enumerate((b'{"color":"red"}', b'{"hue":"red"}'))
    ]
    cluster = Cluster({"shop/paint": sealed})
    (found,) = (await look(cluster, cipher)).unfit()
    assert (found.number, "hue" in found.why) == (1, True)
    (found,) = (await look(cluster)).unfit()
    assert (found.number, found.why) == (
        2,
        "encrypted tasks can't be looked at without their key file: give --codec-keys",
    )
    write_keys(path, new_keys(), new=False)
    (found,) = (await look(cluster, Cipher(path))).unfit()
    assert found.number == 2
    assert f"with the key {key_id}, which {path} does not have" in found.why


async def test_a_task_that_moves_on_before_it_is_read_is_met_where_it_is_then() -> None:
    cluster = Cluster({"shop/paint": [b'{"hue":"red"}']})
    cluster.status = t.RETRIABLE_FAILURE
    assert [each.number for each in (await look(cluster)).unfit()] == [1]


async def test_whatever_code_of_a_type_raises_is_named_and_the_others_are_read() -> None:
    (found,) = (await look(Cluster({"shop/cut": [b'{"size":{"width":2}}', b'{"size":{"width":1}}']}))).unfit()
    assert (found.number, found.why) == (1, "shop/cut: KeyError: 2")


async def test_a_lambda_that_the_code_has_no_more_is_named() -> None:
    (found,) = (await look(Cluster({"shop/sculpt": [b"{}"]}))).unfit()
    assert (found.lambda_name, found.number, found.why) == ("shop/sculpt", 1, "the code has no such lambda")


async def test_jobs_are_looked_at_unless_they_have_ended() -> None:
    cluster = Cluster({})
    task = spec("shop/paint", b'{"hue":1}')
    cluster.jobs = [
        j.Job(spec=j.JobSpec(name="shop/nightly", task=task), next_tick_at_us=7),
        j.Job(spec=j.JobSpec(name="shop/ended", task=task)),
    ]
    (found,) = (await look(cluster)).unfit()
    assert (found.what, found.example) == ("jobs", "shop/nightly")


@pytest.mark.parametrize(
    ("parameter", "payload", "why"),
    [
        ("picture", b'{"wood":"oak"}', ""),
        ("image", b'{"wood":"oak"}', "no such parameter"),
        ("picture", b'{"metal":"tin"}', "metal"),
        ("picture", b"{}", "wood"),
    ],
)
async def test_what_follows_in_a_chain_is_looked_at_without_what_comes_before_it(
    parameter: str, payload: bytes, why: str
) -> None:
    cluster = Cluster({})
    link = b.Callback(task=spec("shop/frame", payload), gives=b.Callback.RESULTS, parameter=parameter)
    first = b.Callback(task=spec("other/x", b"{}"), gives=b.Callback.NOTHING, then=[link])
    made = b.BatchSpec(callbacks=[first])
    setattr(made, "lambda", "shop/paint")
    cluster.batches = [
        b.Batch(id="going", status=b.BATCH_IN_PROGRESS, spec=made),
        b.Batch(id="done", status=b.BATCH_DONE, spec=made),
    ]
    unfit = (await look(cluster)).unfit()
    assert [each.example for each in unfit] == (["going"] if why else [])
    assert all(why in each.why for each in unfit)
