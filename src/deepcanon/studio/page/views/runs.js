// Runs: a table of what was and is trained here beside its curves, live.

import { refusal } from "../app.js";
import { get, post } from "../api.js";
import { hue } from "../axes.js";
import { differing, grouped, matches, measures } from "../choosing.js";
import { axisOf, getCurves } from "../curve_data.js";
import { curves } from "../curves.js";
import { fill, h, number, say, seconds } from "../dom.js";
import { jobStrip } from "../jobs.js";
import { listen } from "../live.js";
import { saveButton } from "../save.js";
import { table } from "../table.js";

export const title = "Runs";

const MOST = 300;  // curves at once
const MOST_BUCKETS = 60_000;  // of all curves together: many need not be as fine as few, and no spike is lost in a wide one
const MOST_DIFFERENT = 12;  // runs whose settings are put side by side
const MOST_KEPT = 12;  // answers that are kept for the next look
const QUIET = 1000;  // milliseconds without news or a change after which other curves are asked for ahead

export async function mount(root, state, go) {
  const now = { show: "", against: "step", log: "", from: "", to: "", find: "", group: "", hide: "", sort: "-created", diff: "", ...state };
  const runs = new Map();
  let plot = null, waiting = null, telling = null, idle = null, ended = false, loading = false, again = false;

  // The address follows after what the change asks for is on its way: the browser takes its time for it.
  const set = (change) => { Object.assign(now, change); clearTimeout(telling); telling = setTimeout(tell); };
  const tell = () => go(Object.fromEntries(Object.entries(now).map(([key, value]) => [key, value === "step" && key === "against" ? "" : value])), { quiet: true });
  const hidden = () => new Set(now.hide ? now.hide.split(".") : []);
  const found = () => [...runs.values()].filter((run) => matches(run, now.find));
  const drawn = () => { const out = hidden(); return found().filter((run) => !out.has(run.id)).slice(0, MOST); };

  // The head: search, groups, actions.
  const search = h("input", { type: "search", placeholder: "find: mlp lr=0.02 status=finished", "aria-label": "Find runs by words or settings", value: now.find, oninput: () => { set({ find: search.value }); redraw(); } });
  const group = h("select", { "aria-label": "Group by", onchange: () => { set({ group: group.value }); redraw(); } });
  const count = h("span", { class: "note", role: "status" });
  const differences = h("button", { type: "button", "aria-pressed": String(Boolean(now.diff)), title: "The settings in which the shown runs differ", onclick: () => { set({ diff: now.diff ? "" : "1" }); differences.setAttribute("aria-pressed", String(Boolean(now.diff))); showDifferences(); } }, "Differences");
  const start = h("a", { class: "button main live-only", href: "#/train" }, "Train …");
  const jobs = jobStrip();
  const side = h("div", { class: "card" });
  const list = h("div", { class: "card runs-list" });
  const apart = h("div", { class: "card", hidden: true });
  root.append(h("div", { class: "top" }, h("h1", {}, "Runs"), count, search, h("label", { class: "pair" }, "group by ", group), differences, saveButton(root, "runs"), start), jobs.node,
    h("div", { class: "beside" }, list, side), apart);

  // The curves: which, against what, on which scale.
  const which = h("select", { "aria-label": "Curve", onchange: () => { set({ show: which.value, from: "", to: "" }); load(); } });
  const against = h("select", { "aria-label": "Against", onchange: () => { set({ against: against.value, from: "", to: "" }); load(); } }, ["step", "seconds"].map((each) => h("option", { value: each, selected: each === now.against }, each)));
  const log = h("input", { type: "checkbox", checked: Boolean(now.log), onchange: () => { set({ log: log.checked ? "1" : "" }); plot?.log(log.checked); } });
  const place = h("div");
  const legend = h("ul", { class: "legend" });
  side.append(h("div", { class: "pair wrap" }, which, h("span", { class: "note" }, "against"), against, h("label", { class: "pair" }, log, " log scale")), place, legend);

  const rows = table({ columns: [], key: (run) => run.id, sort: now.sort, onSort: (sort) => set({ sort }), row: (run) => ({ onpointerenter: () => plot?.point(now.group ? null : run.id), onpointerleave: () => plot?.point(null), class: hidden().has(run.id) ? "off" : "" }) });
  list.append(rows.node);

  // The number of each run's color: its own, or that of its group.
  const colors = () => new Map(now.group ? grouped(drawn(), now.group).flatMap((each, n) => each.runs.map((run) => [run.id, n])) : [...runs.keys()].map((id, n) => [id, n]));
  function columns() {
    const names = measures(found()), numbers = colors();
    const measured = (run, name) => run.test[name] ?? run.valid[name];
    return [
      { name: "shown", title: "", plain: true, cell: (run) => h("label", { class: "swatch", style: { "--swatch": numbers.has(run.id) ? hue(numbers.get(run.id)) : "transparent" } }, h("input", { type: "checkbox", checked: !hidden().has(run.id), "aria-label": `show ${run.name}`, onchange: () => toggle(run.id) })) },
      { name: "name", title: "run", cell: (run) => [h("a", { class: "name", href: `#/run?id=${run.id}` }, run.name), run.tags.map((tag) => h("span", { class: "tag" }, tag)), run.model ? h("small", { class: "note line" }, `${run.model} on ${run.data}`) : null, run.note ? h("small", { class: "note line" }, run.note.slice(0, 80)) : null, run.problem ? h("small", { class: "problem" }, run.problem) : null], value: (run) => run.name },
      { name: "status", title: "status", hint: "Whether it trains, and how far it has come", cell: (run) => [h("span", { class: `badge ${run.status}` }, run.status), actions(run), run.epoch ? h("small", { class: "note line" }, `epoch ${run.epoch}${run.epochs ? ` of ${run.epochs}` : ""}`) : null], value: (run) => run.status },
      { name: "loss", title: "loss", numeric: true, hint: "The last training loss", cell: (run) => number(run.loss), value: (run) => run.loss },
      ...names.map((name) => ({ name, title: name.replaceAll("_", " "), numeric: true, hint: "On test data; while it trains, on validation data", cell: (run) => h("span", { class: name in run.test ? "" : "note" }, number(measured(run, name))), value: (run) => measured(run, name) })),
      { name: "created", title: "begun", hint: "When it was begun, and how long it has trained", cell: (run) => [run.created ? new Date(run.created).toLocaleDateString("en-GB", { day: "numeric", month: "short" }) : "–", h("small", { class: "note line" }, seconds(run.seconds))], value: (run) => run.created || null },
    ];
  }

  function actions(run) {
    const act = (what, words) => h("button", { type: "button", class: "act live-only", title: words, onclick: async (event) => {
      event.target.disabled = true;
      try { await post(`/api/runs/${run.id}/${what}`); } catch (error) { list.prepend(refusal(error)); }
    } }, what === "stop" ? "Stop" : "Resume");
    if (run.process) return act("stop", "Save a checkpoint and stop; Resume goes on from there");
    return ["interrupted", "stopped"].includes(run.status) ? act("resume", "Go on from the last checkpoint") : "";
  }

  function toggle(id) {
    const out = hidden();
    if (!out.delete(id)) out.add(id);
    set({ hide: [...out].join(".") });
    redraw();
  }

  function redraw() {
    const shown = found();
    count.textContent = `${shown.length === runs.size ? runs.size : `${shown.length} of ${runs.size}`} ${runs.size === 1 ? "run" : "runs"}`;
    const names = [...differing(shown).filter((name) => name !== "evaluate"), ...(shown.some((run) => run.tags.length) ? ["tag"] : [])];
    if (now.group && !names.includes(now.group)) names.push(now.group);
    fill(group, h("option", { value: "" }, "nothing"), names.map((name) => h("option", { value: name, selected: name === now.group }, name)));
    rows.draw(shown, columns());
    const there = [...new Set(shown.flatMap((run) => run.curves))];
    if (!there.includes(now.show)) now.show = there.includes("loss") ? "loss" : there[0] ?? "loss";
    fill(which, there.map((name) => h("option", { value: name, selected: name === now.show }, axisOf(name).name)));
    if (runs.size === 0) fill(list, h("p", {}, "Nothing was trained here yet. ", h("a", { href: "#/train" }, "Train a model"), ", or in a terminal: "), h("pre", {}, "deepcanon train mlp --data digits"));
    else if (!list.contains(rows.node)) fill(list, rows.node);
    showDifferences();
    if (!plot) makePlot(); else load();
  }

  function showDifferences() {
    apart.hidden = !now.diff;
    if (!now.diff) return;
    const compared = drawn().slice(0, MOST_DIFFERENT), names = differing(compared);
    const said = compared.length < 2 ? "Show at least two runs to see in which settings they differ." : names.length ? `The ${names.length} settings in which the ${compared.length} shown runs differ; all others are the same.` : "These runs have the same settings.";
    fill(apart, h("h2", {}, "Differences"), h("p", { class: "note" }, said, drawn().length > MOST_DIFFERENT ? ` The first ${MOST_DIFFERENT} of ${drawn().length} runs.` : ""),
      names.length ? h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, h("th", {}, "setting"), compared.map((run) => h("th", { scope: "col" }, run.name)))),
        h("tbody", {}, names.map((name) => h("tr", {}, h("th", { scope: "row" }, name), compared.map((run) => h("td", {}, String(run.settings[name] ?? "") || "–"))))))) : null);
  }

  const axes = () => [{ name: now.against === "step" ? "step" : "time", unit: now.against === "step" ? "" : "s" }, axisOf(now.show), `Curves of ${axisOf(now.show).name}`];
  function makePlot() {
    const [x, y, label] = axes();
    plot = curves({ x, y, label, log: Boolean(now.log), height: 380,
      onZoom: (from, to) => { set({ from: from === null ? "" : String(Number(from.toPrecision(6))), to: to === null ? "" : String(Number(to.toPrecision(6))) }); load(); },
      onPick: (key) => { if (runs.has(key)) location.hash = `#/run?id=${key}`; } });
    fill(place, plot.node);
    plot.draw([], {});
    plot.say("Reading the logs …");
    load();
  }

  // One request at a time: what changes meanwhile is asked for afterwards, so that a lively folder does not starve the picture.
  async function load() {
    again = loading;
    if (loading) return;
    loading = true;
    place.setAttribute("aria-busy", "true");
    do {
      again = false;
      await loadOnce();
    } while (again && !ended);
    loading = false;
    place.removeAttribute("aria-busy");
  }

  // Answers that hold until the folder is heard to have changed: another curve that was seen before, or that was asked for
  // ahead while nothing else was to be done, is drawn at once.
  const kept = new Map();
  let heard = 0;
  const forget = () => { heard += 1; kept.clear(); };
  async function ask(want) {
    const key = JSON.stringify(want), since = heard;
    const answer = kept.get(key) ?? await getCurves(want);
    if (since === heard) { kept.delete(key); kept.set(key, answer); }
    if (kept.size > MOST_KEPT) kept.delete(kept.keys().next().value);
    return answer;
  }

  const zoomed = () => (now.from !== "" ? { from: Number(now.from), to: Number(now.to) } : {});
  // What a picture of a curve needs: the curves of runs, of groups, or of both.
  function wanted(name, chosen, groups) {
    const width = Math.max(100, Math.min(Math.round((place.clientWidth || 700) * (window.devicePixelRatio || 1)), 1500, Math.round(MOST_BUCKETS / chosen.length)));
    const want = { name, against: now.against, width, ...zoomed() };
    return [groups && chosen.length > 24 ? null : { ...want, runs: chosen.map((run) => run.id) },
      groups ? { ...want, groups: groups.map((each) => each.runs.map((run) => run.id)) } : null];
  }

  async function askAhead() {
    const since = heard, chosen = drawn(), groups = now.group ? grouped(chosen, now.group) : null;
    if (now.from !== "" || !chosen.length) return;
    for (const { value: name } of [...which.options].filter((each) => !each.selected).slice(0, MOST_KEPT / 2)) {
      for (const want of wanted(name, chosen, groups)) {
        if (ended || loading || since !== heard) return;
        if (want) await ask(want).catch(() => {});  // whoever looks at it is told then
      }
    }
  }

  async function loadOnce() {
    const chosen = drawn(), zoom = zoomed(), groups = now.group ? grouped(chosen, now.group) : null;
    if (!chosen.length) { plot.draw([], {}); plot.say("No run is shown."); fill(legend); return; }
    const [runsWanted, groupsWanted] = wanted(now.show, chosen, groups), want = runsWanted ?? groupsWanted;
    try {
      const single = runsWanted && await ask(runsWanted);
      const together = groupsWanted && await ask(groupsWanted);
      if (ended || want.name !== now.show || want.against !== now.against) return;
      const numbers = colors();
      const series = [
        ...(single ? single.curves.map((curve, n) => ({ key: single.head.runs[n], name: runs.get(single.head.runs[n])?.name ?? "", number: numbers.get(single.head.runs[n]) ?? 0, faint: Boolean(groups), ...curve, ...(groups ? { low: undefined, high: undefined } : {}) })) : []),
        ...(together ? together.curves.map((curve, n) => ({ key: `group ${n}`, name: groups[n].title, number: n, dashed: false, ...curve })) : []),
      ];
      const head = (single ?? together).head;
      plot.axes(...axes());  // the picture stays as it is until another curve is there
      plot.draw(series, zoom);
      plot.say(sentence(series.filter((one) => !one.faint), head.sketched.length));
      const named = series.filter((one) => !one.faint && one.mean.some((value) => !Number.isNaN(value)));
      fill(legend, (groups || named.length <= 12 ? named : []).map((one) => [one.number, one.name]).map(([n, words]) => h("li", { style: { "--swatch": hue(n) } }, words)));
      root.dataset.shows = want.name;
      root.dataset.drawn = String(Number(root.dataset.drawn ?? 0) + 1);
      root.dataset.sketched = String(head.sketched.length);
      clearTimeout(idle);
      idle = setTimeout(askAhead, QUIET);
    } catch (error) {
      plot.say(error.message);
    }
  }

  // What the picture says, in a sentence.
  function sentence(series, sketched) {
    const last = (one) => { for (let i = one.mean.length - 1; i >= 0; i -= 1) if (!Number.isNaN(one.mean[i])) return one.mean[i]; return NaN; };
    const ends = series.map((one) => [one.name, last(one)]).filter(([, value]) => !Number.isNaN(value)).sort((a, b) => a[1] - b[1]);
    const more = /accuracy|r2|exact_match|f1|auc|log_prob/.test(now.show);
    if (more) ends.reverse();
    if (!ends.length) return `No shown run has logged ${axisOf(now.show).name}.`;
    const rest = sketched ? ` ${sketched} of them sketched from a few lines each while their logs are read.` : "";
    if (now.show === "lr" || now.show === "grad_norm") return `${ends.length} ${ends.length === 1 ? "curve" : "curves"}.${rest}`;
    const ahead = ends.length > 1 ? `; the worst is at ${number(ends.at(-1)[1])}` : "";
    return `${more ? "Highest" : "Lowest"} at the end of what is shown: ${ends[0][0]} with ${number(ends[0][1])}${ahead}. ${ends.length > 1 ? `${ends.length} curves.` : ""}${rest}`;
  }

  const first = await get("/api/runs");
  first.runs.sort((a, b) => String(a.created).localeCompare(String(b.created))).forEach((run) => runs.set(run.id, run));
  redraw();
  const soon = () => { waiting ??= setTimeout(() => { waiting = null; if (!ended) redraw(); }, 400); };
  const stops = [listen("runs", (news) => {
    for (const run of news.changed) {
      if (run.status === "finished" && runs.get(run.id)?.status === "running") say(`${run.name} has finished`);
      runs.set(run.id, run);
    }
    for (const id of news.gone) runs.delete(id);
    forget();
    if (news.changed.length || news.gone.length) soon(); else load();
  }), listen("hello", async ({ epoch, version }) => {
    if (epoch === first.epoch && version === first.version) return;
    for (const run of (await get("/api/runs")).runs) runs.set(run.id, run);
    forget();
    soon();
  })];
  return () => { ended = true; for (const timer of [waiting, telling, idle]) clearTimeout(timer); for (const stop of [...stops, jobs.end]) stop(); plot?.end(); };
}
