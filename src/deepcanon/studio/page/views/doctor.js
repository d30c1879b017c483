// Doctor: what is ill in a training, with the evidence, and a button that follows the advice.

import { get, post } from "../api.js";
import { fill, h, number, say } from "../dom.js";
import { bars, curves } from "../draw.js";
import { listen } from "../live.js";
import { noRuns, opening, runPicker } from "../looks/subject.js";
import { saveButton } from "../save.js";
import { table } from "../table.js";

export const title = "Doctor";

const DRAWN = new Set(["figure", "curves", "bars", "range", "rows"]);
const NAMED = { rate: "learning rate", explodes_at: "the loss explodes at the rate" };
const words = (name) => name.replaceAll("_", " ");
const plain = (value) => (value === null || value === undefined ? "none" : typeof value === "number" ? number(value) : typeof value === "object" ? JSON.stringify(value) : String(value));

export async function mount(root, state, go) {
  const picker = await runPicker(state.id, (id) => go({ id }, { view: "doctor" }));
  if (picker.empty) { root.append(h("h1", {}, title), noRuns()); return () => {}; }
  const room = h("div", { class: "verdicts" }), news = h("p", { class: "note", role: "status" });
  const examine = h("button", { type: "button", class: "main live-only", onclick: () => start() }, "Examine this run");
  root.append(h("div", { class: "look-head" }, h("h1", {}, title), picker.node, examine, saveButton(root, () => `doctor ${picker.name}`)), news, room);
  let ends = [], mine = null;

  async function load(first = false) {
    ends.forEach((end) => end());
    ends = [];
    const asked = get(`/api/runs/${picker.id}/doctor`), answer = await (first ? opening(room, asked) : asked);
    if (!answer) return;
    const { examined } = answer;
    fill(room, examined ? report(examined, apply, ends) : h("p", { class: "card note" }, "This run was not examined yet. The doctor trains copies of it for a minute or so, as they are and with one thing changed: a cause is named only if its repair helps. The run itself stays as it is."));
    examine.textContent = examined ? "Examine again" : "Examine this run";
  }

  async function start() {
    examine.disabled = true;
    try {
      mine = (await post(`/api/runs/${picker.id}/doctor`)).id;
      news.textContent = "The doctor examines the run …";
    } catch (error) { refuse(error); examine.disabled = false; }
  }

  async function apply(verdict, button) {
    button.disabled = true;
    try {
      const job = await post(`/api/runs/${picker.id}/doctor/apply`, { verdict });
      fill(button.parentElement, h("span", { class: "note" }, `Training ${job.folder}: `), h("a", { href: "#/runs" }, "watch it among the runs"));
    } catch (error) { refuse(error); button.disabled = false; }
  }

  function refuse(error) { fill(news, h("span", { class: "refusal" }, error.message)); }

  const unlisten = listen("jobs", ({ jobs }) => {
    const job = jobs.find((each) => each.id === mine) ?? jobs.find((each) => each.what === "doctor" && each.folder === picker.name && ["running", "waiting"].includes(each.status));
    if (!job) return;
    mine = job.id;
    examine.disabled = ["running", "waiting"].includes(job.status);
    if (examine.disabled) news.textContent = job.status === "waiting" ? "The examination waits for another job to end." : "The doctor examines the run …";
    else {
      mine = null;
      fill(news, job.status === "failed" ? h("span", { class: "refusal" }, job.said || "the examination failed") : "");
      load().catch(refuse);
    }
  });
  await load(true);
  return () => { unlisten(); ends.forEach((end) => end()); };
}

function report(found, apply, ends) {
  const count = Object.keys(found.passed).length, faults = found.faults.length;
  const verdict = found.healthy ? `Nothing ill was found: ${count} checks passed in ${number(found.seconds, 3)} s.` : `${faults === 1 ? "One cause was" : `${faults} causes were`} found in ${number(found.seconds, 3)} s; ${count} checks passed.`;
  say(verdict);
  return [
    h("p", { class: `card verdict ${found.healthy ? "good" : "ill"}` }, h("b", {}, found.healthy ? "Healthy." : "Something is ill."), " ", verdict, found.stale ? " The run was trained on since: examine it again." : ""),
    found.verdicts.map((each, n) => diagnosis(each, n, apply, ends)),
    h("details", { class: "card" }, h("summary", {}, `${count} checks that passed`), passed(found)),
    h("details", { class: "card" }, h("summary", {}, `${Object.keys(found.skipped).length} checks that were not made`), h("dl", { class: "skipped" }, Object.entries(found.skipped).map(([name, reason]) => [h("dt", {}, words(name)), h("dd", { class: "note" }, reason)]))),
  ];
}

function diagnosis(each, n, apply, ends) {
  const numbers = Object.entries(each.evidence).filter(([name]) => !DRAWN.has(name));
  const change = each.changes.length ? h("div", { class: "change" },
    h("ul", {}, each.changes.map((one) => h("li", {}, h("code", {}, one.setting), " ", plain(one.before), " → ", h("b", {}, plain(one.after))))),
    h("p", { class: "live-only" }, h("button", { type: "button", class: "main", onclick: (event) => apply(n, event.currentTarget) }, "Apply and run again"))) : null;
  return h("article", { class: `card diagnosis ${each.grade}` },
    h("header", {}, h("span", { class: "grade" }, each.grade), h("h2", {}, each.cause), each.where ? h("span", { class: "note" }, each.where) : null),
    h("p", { class: "advice" }, each.advice, "."), change,
    h("div", { class: "evidence" }, numbers.length ? h("dl", { class: "numbers-of" }, numbers.map(([name, value]) => h("div", {}, h("dt", {}, NAMED[name] ?? words(name)), h("dd", {}, plain(value))))) : null, figure(each.evidence, ends)),
    h("p", { class: "note" }, each.confirmed_by ? `Confirmed: ${each.confirmed_by}. ` : "", each.margin !== null ? `${number(each.margin, 3)} times beyond what healthy trainings have. ` : "", each.meaning || words(each.check)),
    each.explains.length ? h("p", { class: "note" }, `It explains: ${each.explains.join("; ")}.`) : null);
}

function figure(evidence, ends) {
  if (evidence.curves && Object.keys(evidence.curves).length) {
    const all = Object.values(evidence.curves).flat().filter((value) => Number.isFinite(value));
    const log = Math.min(...all) > 0 && Math.max(...all) > 20 * Math.min(...all);
    const plot = curves({ x: { name: "share of the trial", unit: "%" }, y: { name: "loss", unit: "" }, log, height: 230, label: "Losses of the trials" });
    ends.push(() => plot.end());
    const series = Object.entries(evidence.curves).map(([name, values], number_) => ({ key: name, name, number: number_, x: Float64Array.from(values.keys(), (place) => (100 * place) / Math.max(1, values.length - 1)), mean: Float64Array.from(values, (value) => value ?? NaN) }));
    requestAnimationFrame(() => { plot.draw(series); });
    return h("div", { class: "trial" }, plot.node, h("p", { class: "key" }, series.map((one) => h("span", {}, h("i", { style: { background: `var(--hue${one.number % 10})` } }), one.name))));
  }
  if (evidence.bars && Object.keys(evidence.bars).length) {
    const plot = bars({});
    plot.draw(Object.entries(evidence.bars).map(([name, value]) => ({ name, value })));
    return plot.node;
  }
  return null;
}

function passed(found) {
  const rows = table({ key: (row) => row.name, columns: [
    { name: "check", title: "check", cell: (row) => words(row.name) },
    { name: "meaning", title: "what holds", plain: true, cell: (row) => found.meanings[row.name] ?? "" },
    { name: "numbers", title: "measured", plain: true, cell: (row) => Object.entries(row.numbers).filter(([, value]) => typeof value !== "object").map(([name, value]) => `${words(name)} ${plain(value)}`).join(", ") }] });
  rows.draw(Object.entries(found.passed).map(([name, numbers]) => ({ name, numbers })));
  return rows.node;
}
