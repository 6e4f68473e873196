// What the pages do in a browser: refresh themselves, keep commands in step with their forms, keys, and the chart. No page needs it to be read.
"use strict";

const EVERY_MS = 2000;
const live = () => document.querySelector("main[data-live]");
const state = document.getElementById("live-state");

// --- refresh: never under somebody's hands ---------------------------------------------------------------------------

let away = false;

function busyWith() {
  if (document.visibilityState !== "visible" || !document.hasFocus()) return "not in front";
  if (document.querySelector("details.action[open], dialog[open]")) return "a menu is open";
  const at = document.activeElement;
  if (at && at.matches("input, textarea, select")) return "typing";
  const selected = document.getSelection();
  if (selected && !selected.isCollapsed) return "text selected";
  return "";
}

function say(word, value) {
  if (state.textContent !== word) state.textContent = word;
  state.dataset.state = value;
}

function refresh() {
  if (live()) htmx.trigger(live(), "refresh");
}

function tick() {
  if (!live()) return say("still", "off");
  const why = busyWith();
  state.title = why ? "Does not refresh: " + why : "This page refreshes itself";
  if (why) return say("paused", "off");
  if (!away) say("live", "on");
  refresh();
}

function failed() {
  away = true;
  say("away", "away");
  state.title = "atf ui does not answer; this page tries again";
}

document.addEventListener("htmx:error", failed);
document.addEventListener("htmx:after:request", (event) => {
  const answer = event.detail?.ctx?.response;
  away = !answer || answer.status >= 500;
  if (away) failed(); else say("live", "on");
});
document.addEventListener("htmx:after:swap", drawChart);

// --- commands that follow what is written -----------------------------------------------------------------------------

function quoted(word) {
  return /^[A-Za-z0-9@%+=:,./_-]+$/.test(word) ? word : "'" + word.replaceAll("'", "'\"'\"'") + "'";
}

function words(span, value) {
  const flag = span.dataset.flag;
  if (!flag) return value ? quoted(value) : span.dataset.empty;
  if (!value) return "";
  if (span.dataset.kind === "labels") return value.split(/[\s,]+/).filter(Boolean).map((each) => flag + " " + quoted(each)).join(" ");
  return flag + " " + quoted(value);
}

document.addEventListener("input", (event) => {
  const form = event.target.closest("form.panel");
  if (form) follow(form);
});

function follow(form) {
  for (const span of form.querySelectorAll("[data-field]")) {
    span.dataset.empty ??= span.textContent;
    span.textContent = words(span, form.elements[span.dataset.field].value.trim());
  }
}

document.addEventListener("toggle", (event) => {
  const opened = event.target;
  if (!opened.matches || !opened.matches("details.action") || !opened.open) return;
  for (const each of document.querySelectorAll("details.action[open]")) if (each !== opened) each.open = false;
  follow(opened.querySelector("form"));
  (opened.querySelector("input:not([type=hidden])") || opened.querySelector("form > button")).focus();
}, true);

document.addEventListener("click", async (event) => {
  const copy = event.target.closest("[data-copy]");
  if (copy) {
    const text = document.querySelector("#" + CSS.escape(copy.dataset.copy) + " code").textContent.replace(/\s+/g, " ").trim();
    try {
      await navigator.clipboard.writeText(text);
      copy.textContent = "Copied";
    } catch {
      document.getSelection().selectAllChildren(copy.parentElement.querySelector("code"));
    }
    setTimeout(() => { copy.textContent = "Copy"; }, 1500);
  } else if (event.target.id === "help") {
    document.getElementById("shortcuts").showModal();
  } else if (!event.target.closest("details.action")) {
    for (const each of document.querySelectorAll("details.action[open]")) each.open = false;
  }
});

document.addEventListener("submit", (event) => {
  for (const each of event.target.querySelectorAll("button:not([type])")) setTimeout(() => { each.disabled = true; });
});

// --- keys -------------------------------------------------------------------------------------------------------------

const GO = { o: 0, l: 1, t: 2, f: 3, j: 4, b: 5, c: 6 };
let going = -Infinity;

function row(step) {
  const links = [...document.querySelectorAll("table.rows tbody a.row")];
  if (!links.length) return;
  const at = links.indexOf(document.activeElement);
  links[at < 0 ? (step > 0 ? 0 : links.length - 1) : Math.min(Math.max(at + step, 0), links.length - 1)].focus();
}

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    const open = document.querySelector("details.action[open]");
    if (open) { open.open = false; open.querySelector("summary").focus(); }
    else if (document.activeElement.matches("input")) document.activeElement.blur();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, dialog[open]")) return;
  if (event.timeStamp - going < 1500 && event.key in GO) {
    going = -Infinity;
    document.querySelectorAll("#nav a")[GO[event.key]].click();
    return;
  }
  const does = {
    "/": () => document.getElementById("search").focus(),
    "?": () => document.getElementById("shortcuts").showModal(),
    j: () => row(1),
    k: () => row(-1),
    r: refresh,
    g: () => { going = event.timeStamp; },
  }[event.key];
  if (does) { event.preventDefault(); does(); }
});

document.addEventListener("focusin", (event) => {
  for (const each of document.querySelectorAll("tr.current")) each.classList.remove("current");
  event.target.closest("table.rows tbody tr")?.classList.add("current");
});

// --- zone and chart ---------------------------------------------------------------------------------------------------

function showPlace() {
  // By hand: after scrollIntoView, Tab would go on from there and miss the skip link.
  const nav = document.getElementById("nav"), here = nav.querySelector("[aria-current]");
  if (here) nav.scrollLeft = here.offsetLeft - nav.offsetLeft - (nav.clientWidth - here.offsetWidth) / 2;
}

function offerZone() {
  const link = document.getElementById("zone-local");
  const address = new URL(link.href);
  address.searchParams.set("zone", Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC");
  link.href = address;
}

let chart = null;

function instantIn(zone, instants) {
  const short = instants[instants.length - 1] - instants[0] < 600;
  const made = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: short ? "2-digit" : undefined, timeZone: zone });
  return (seconds) => made.format(seconds * 1e3);
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function drawChart() {
  const holder = document.getElementById("chart"), data = document.getElementById("chart-data");
  if (!holder || !data) { chart = null; return; }
  const columns = JSON.parse(data.dataset.columns);
  if (!columns.length) return;
  if (chart && chart.root.isConnected) { chart.setData(columns); return; }
  holder.replaceChildren();
  const axis = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "12px system-ui" };
  const line = (label, name) => ({ label, stroke: colour(name), width: 2, points: { show: columns[0].length < 3 } });
  chart = new uPlot({
    width: holder.clientWidth, height: 180, legend: { show: false }, cursor: { show: false },
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1e3), data.dataset.zone),
    padding: [8, 32, 0, 0],
    axes: [{ ...axis, size: 30, space: 80, values: (_, instants) => instants.map(instantIn(data.dataset.zone, columns[0])) }, { ...axis, size: 56 }],
    scales: { y: { range: (_, least, most) => [0, Math.max(most * 1.1, 5)] } },
    series: [{}, line("waiting", "--wait-fill"), line("running", "--run-fill"), line("dead", "--bad-fill")],
  }, columns, holder);
}

function redraw() {
  chart = null;
  drawChart();
}

addEventListener("resize", () => { if (chart) chart.setSize({ width: document.getElementById("chart").clientWidth, height: 180 }); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
showPlace();
offerZone();
drawChart();
setInterval(tick, EVERY_MS);
