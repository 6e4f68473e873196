"""Every action's form, tried on its page: it shows the command, asks why, does it, and the page says so. In read-only each is refused."""

from __future__ import annotations

from typing import Any, Final, NamedTuple
from urllib.parse import quote

from playwright.sync_api import Browser, Locator

from .cluster import Filled
from .look import WIDE, Judge, open_form
from .progress import RowProgress

WHY: Final = 'because it\'s "late"; </script> $(reboot)'


class Act(NamedTuple):
    """An action, where its button is, what is written, and what the page says afterwards."""

    action: str
    path: str
    fields: dict[str, str]
    seen: str
    """A selector that fits once it is done."""


def acts(ids: dict[str, str]) -> list[Act]:
    """In an order in which each is offered: what the one before did, the next one takes back."""
    works, item = "/lambdas/shop/works", "/lambdas/shop/nobody_runs"
    gates, keys, nightly = "/lambdas/shop/works?tab=gates", "/lambdas/shop/in_order?tab=keys", "/jobs/shop/nightly"
    batch, to_delete = f"/batches/{ids['batch']}", "/jobs/shop/to-delete"
    return [
        Act("pause-lambda", works, {}, "h1 .badge:has-text('paused')"),
        Act("resume-lambda", works, {}, "h1:not(:has(.badge.warn))"),
        Act("set-lambda", works, {"setting": "max_running=7"}, "td:has-text('7') .badge:has-text('set')"),
        Act("unset-lambda", works, {}, "main:not(:has(td .badge:has-text('set')))"),
        Act("gate-pause", gates, {"labels": "team=web, tier=1", "for": "30m"}, "td .badge:has-text('pause')"),
        Act("lift-gate", gates, {}, "main:not(:has(td .badge.warn))"),
        Act("gate-delay", gates, {"by": "5m"}, "td .badge:has-text('delay')"),
        Act("gate-admit", gates, {"percent": "5", "labels": "a=b"}, "td .badge:has-text('admit')"),
        Act("gate-drop", gates, {"labels": "c=d"}, "td .badge:has-text('drop')"),
        Act("cancel-task", f"/tasks/{ids['to_cancel']}", {}, "h1 .badge:has-text('cancelled')"),
        Act("retry-task", f"/tasks/{ids['dead']}", {}, "#runs"),
        Act("retry-matching", "/bulk/retry?lambda=shop/fails", {"rate": "5"}, "h1"),
        Act("cancel-matching", "/bulk/cancel?status=running", {}, "h1"),
        Act("resume-key", keys, {}, "h1"),
        Act("skip-key", keys, {}, "h1"),
        Act("run-job", nightly, {}, "h1"),
        Act("pause-job", nightly, {}, "h1 .badge:has-text('paused')"),
        Act("resume-job", nightly, {}, "h1:not(:has(.badge.warn))"),
        Act("delete-job", to_delete, {}, "h1"),
        Act("retry-batch", batch, {}, "h1"),
        Act("cancel-batch", f"/batches/{ids['going']}", {}, "h1 .badge"),
        Act("delete-batch", batch, {}, "h1"),
        Act("drain-host", "/cluster?tab=hosts", {"for": "10m"}, "td .badge:has-text('drain')"),
        Act("resume-host", "/cluster?tab=hosts", {}, "td .badge:has-text('takes tasks')"),
        Act("set-cores", "/cluster?tab=capacity", {"cores": "2"}, "td:has-text('multiplexed')"),
        Act("forget-lambda", item, {}, "h1"),
    ]


def acting(browser: Browser, cluster: Filled, progress: RowProgress) -> dict[str, Any]:
    """Tries each action."""
    context = browser.new_context(viewport={"width": WIDE[0], "height": WIDE[1]})
    judge, tried = Judge(context, cluster.pages), acts(cluster.ids)
    for number, act in enumerate(tried, 1):
        progress.say(f"{number} of {len(tried)}: {act.action}, {len(judge.findings)} findings")
        try:
            _act(judge, act)
        except Exception as error:  # noqa: BLE001  the next action is tried
            judge.find(act.action, f"{type(error).__name__}: {str(error)[:300]}")
        judge.hear(act.action)
    context.close()
    untried = sorted(set(cluster.actions) - {each.action for each in tried})
    judge.findings += [f"{name}: is not tried here: give it a line in proof/browser/acting.py" for name in untried]
    refused = _refusals(browser, cluster)
    return {"actions": len(tried), "findings": judge.findings + refused}


def _act(judge: Judge, act: Act) -> None:
    page = judge.open(act.path)
    form = page.locator(f"details.action[id^='do-{act.action}']").first
    open_form(form)
    values = {**act.fields, "why": WHY}
    for name, value in values.items():
        field = form.locator(f"input[name={name}]")
        if not field.count():
            judge.find(act.action, f"asks for no {name}")
            continue
        field.fill(value)
    _check_command(judge, act, form)
    judge.axe(f"{act.action}, open")
    judge.measure(f"{act.action}, open")
    form.locator("form > button").click()
    page.wait_for_load_state("load")
    flash = page.locator("#flash")
    if not flash.count():
        judge.find(act.action, "says nothing of what it did")
    elif "bad" in (flash.get_attribute("class") or ""):
        judge.find(act.action, f"was refused: {flash.inner_text()[:300]}")
    elif "atf " not in flash.inner_text():
        judge.find(act.action, "does not say which command does the same")
    try:
        page.wait_for_selector(act.seen, timeout=8_000)
    except Exception:  # noqa: BLE001  of playwright, by whatever name
        judge.find(act.action, f"afterwards its page has no {act.seen}")


def _check_command(judge: Judge, act: Act, form: Locator) -> None:
    """The command that is shown follows what is written, and a shell would read it so."""
    shown = " ".join(form.locator(".command code").inner_text().split())
    if not shown.startswith("atf "):
        judge.find(act.action, f"shows no command: {shown[:100]}")
    for name, value in act.fields.items():
        if not all(word in shown for word in value.replace(",", " ").split()):
            judge.find(act.action, f"{name} {value!r} is not in the command: {shown[:200]}")
    if "--why 'because it'\"'\"'s \"late\"; </script> $(reboot)'" not in shown:
        judge.find(act.action, f"the reason is not quoted for a shell: {shown[:200]}")


def _refusals(browser: Browser, cluster: Filled) -> list[str]:
    """A server that only shows refuses each action, whatever a browser sends; and so does one that acts, without its token."""
    found = []
    for address, why in ((cluster.only_look, "read-only"), (cluster.pages, "without a token")):
        context = browser.new_context()
        context.request.get(address)
        for name in cluster.actions:
            answer = context.request.post(
                f"{address}/do/{quote(name)}", headers={"Origin": address}, form={"csrf": "0" * 64}
            )
            if answer.status != 403:
                found.append(f"{name}: {why}, it answers {answer.status} in place of 403")
        context.close()
    return found
