// Compare: which model fits the data, by kind of evidence, with every seed, what it cost, and samples; live while it grows.

import { get, picture, post } from "../api.js";
import { fill, h, number } from "../dom.js";
import { form } from "../form.js";
import { jobStrip } from "../jobs.js";
import { listen } from "../live.js";
import { ladder } from "../looks/ladder.js";
import { choice, opening } from "../looks/subject.js";
import { saveButton } from "../save.js";

export const title = "Compare";

const EVERY = 1500;

export async function mount(root, state, go) {
  const { comparisons } = await get("/api/comparisons");
  const chosen = comparisons.find((each) => each.id === state.id) ?? comparisons[0];
  const pick = comparisons.length ? choice("Comparison", comparisons.map((each) => [each.id, `${each.name} (${each.status})`]), chosen.id, (id) => go({ id }, { view: "compare" })) : null;
  const room = h("div", { class: "compared" }), jobs = jobStrip();
  // One that was started here, or is the first of the folder, is shown as soon as its first training is there.
  let awaited = !comparisons.length;
  const stop = listen("runs", async () => {
    if (!awaited) return;
    const added = (await get("/api/comparisons")).comparisons.find((each) => !comparisons.some((known) => known.id === each.id));
    if (added && awaited) { awaited = false; go({ id: added.id }); }
  });
  const starting = h("details", { class: "card live-only", open: !comparisons.length }, h("summary", {}, "Start a comparison"), starter(() => { awaited = true; starting.open = false; }));
  root.append(h("div", { class: "look-head" }, h("h1", {}, title), pick, saveButton(root, () => `compare ${chosen?.name ?? ""}`)), jobs.node, room, starting);
  const always = () => { awaited = false; stop(); jobs.end(); };
  if (!chosen) { fill(room, h("p", { class: "card note" }, "There is no comparison in this folder yet: start one below. It trains models on the same data with the same seeds, and says which fits best.")); return always; }
  if (chosen.error) { fill(room, h("p", { class: "refusal" }, chosen.error)); return always; }
  let shown = "", last = 0, timer = null, ended = false;

  async function load(first) {
    last = Date.now();
    const found = await (first ? opening(room, get(`/api/comparisons/${chosen.id}`)) : get(`/api/comparisons/${chosen.id}`));
    if (!found) return "finished";
    const content = JSON.stringify(found);
    if (ended || content === shown) return found.status;
    shown = content;
    fill(room, page(found, chosen.id));
    return found.status;
  }

  let status = await load(true);
  const again = () => {
    if (status === "finished" || timer) return;
    timer = setTimeout(async () => { timer = null; try { status = await load(); } catch (error) { console.warn(error.message); } }, Math.max(0, EVERY - (Date.now() - last)));
  };
  const ends = [listen("runs", again), listen("jobs", again), always];
  return () => { ended = true; clearTimeout(timer); ends.forEach((end) => end()); };
}

function page(found, id) {
  const under = found.status !== "finished";
  const progress = found.planned ? `${found.done} of ${found.planned} trainings measured` : `${found.done} trainings measured`;
  const facts = [found.data, `${found.kind}, ${found.shape.join("×")}`, Object.entries(found.counts).map(([split, count]) => `${number(count)} ${split}`).join(", "), `${found.seeds} ${found.seeds === 1 ? "seed" : "seeds"}`,
    found.budget ? `at most ${number(found.budget)} s each` : null, found.created.slice(0, 10)].filter(Boolean);
  return [
    h("div", { class: "card" }, h("h2", {}, "Which model fits ", h("em", {}, found.data), "?"), h("ul", { class: "chips" }, facts.map((each) => h("li", {}, each))),
      under ? h("p", { class: "under-way" }, h("b", {}, "Under way: "), progress, found.training.length ? `; ${found.training.map((each) => each.run.split("/")[0]).join(", ")} begun` : "", found.planned ? h("progress", { max: found.planned, value: found.done, "aria-label": progress }) : null) : null,
      found.says.length ? h("ul", { class: "says" }, found.says.map((sentence) => h("li", {}, sentence))) : h("p", { class: "note" }, "Nothing is measured yet."),
      found.report ? reporting(id) : null),
    found.sections.map((section) => h("section", { class: "card" }, h("h2", {}, section.title, " ", h("small", { class: "note" }, `on ${section.data}`)), ladder(section.ladder), tableOf(section), section.remarks.length ? h("ul", { class: "says note" }, section.remarks.map((each) => h("li", {}, each))) : null, gallery(section, id, found))),
    Object.keys(found.failures).length ? h("section", { class: "card" }, h("h2", {}, "Not trained"), h("dl", { class: "skipped" }, Object.entries(found.failures).map(([label, reasons]) => [h("dt", {}, label), h("dd", { class: "note" }, reasons.join(" "))]))) : null,
  ];
}

function tableOf(section) {
  const behind = section.rows.some((row) => row.behind);
  const order = [...section.columns.keys()].sort((a, b) => section.columns[a].cost - section.columns[b].cost);
  const seeds = (row) => h("small", {}, row.seeds.map((seed) => seed.id ? h("a", { href: `#/run?id=${seed.id}`, title: seed.error ?? "Open this run" }, `seed ${seed.seed}`) : null).filter(Boolean).flatMap((link, n) => (n ? [" · ", link] : [link])));
  const cell = (row, n) => {
    const found = row.cells[n], apart = new Set(found.texts).size > 1;
    return h("td", { class: `numeric${found.best ? " best" : ""}${section.columns[n].cost ? " cost" : ""}` }, section.columns[n].title === "nats" && row.kind ? h("span", { class: "evidence-kind" }, row.kind) : null, found.text, apart ? h("small", { class: found.texts.length > 3 ? "" : "in-line" }, found.texts.join(" · ")) : null);
  };
  return h("div", { class: "scroll" }, h("table", { class: "comparison" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "model"), behind ? h("th", { scope: "col", class: "numeric", title: "From the first row, with its interval of 95 % over the test examples" }, "difference") : null,
      order.map((n) => h("th", { scope: "col", class: `numeric${section.columns[n].cost ? " cost" : ""}`, title: section.columns[n].meaning }, section.columns[n].title)))),
    h("tbody", {}, section.rows.map((row) => h("tr", {}, h("th", { scope: "row" }, row.label, row.baseline ? h("small", {}, "baseline") : null, seeds(row)),
      behind ? h("td", { class: "numeric" }, row.behind ? [row.behind.text, h("small", { class: "in-line" }, row.behind.interval)] : "") : null, order.map((n) => cell(row, n)))))));
}

function gallery(section, id, found) {
  const before = found.sections.slice(0, found.sections.indexOf(section)).reduce((sum, each) => sum + each.rows.filter((row) => row.samples).length, 0);
  const drawn = section.rows.filter((row) => row.samples);
  if (!drawn.length) return null;
  return [h("h3", {}, "Samples of the first seed"), h("div", { class: "sampled" }, drawn.map((row, n) => {
    const image = h("img", { alt: `samples of ${row.label}`, loading: "lazy" });
    picture(`/api/comparisons/${id}/samples/${before + n}`).then((source) => { image.src = source; }, () => {});
    return h("figure", { class: "tile" }, image, h("figcaption", {}, row.label));
  }))];
}

function reporting(id) {
  const room = h("div");
  const open = async (event) => {
    event.currentTarget.disabled = true;
    try { fill(room, h("iframe", { class: "graph", sandbox: "allow-scripts", title: "The report", src: (await post(`/api/comparisons/${id}/report`)).address })); } catch (error) { fill(room, h("p", { class: "refusal" }, error.message)); }
  };
  return h("div", { class: "live-only whole-report" }, h("button", { type: "button", onclick: open }, "Show the whole report"), room);
}

function starter(started) {
  const fields = [
    { name: "models", kind: "text", meaning: "Names with commas between them (vae, realnvp); left empty, some that suit the data are chosen." },
    { name: "data", kind: "text", required: true, meaning: "A data set by name: moons, digits:binary …" },
    { name: "seeds", kind: "integer", default: 1, meaning: "How often each model is trained." },
    { name: "budget", kind: "number", meaning: "The most seconds for each training." },
    { name: "epochs", kind: "integer", meaning: "So many for each model, in place of those of its recipe." },
    { name: "folder", kind: "text", default: "comparison", meaning: "The name of its folder." },
    { name: "learning_curve", kind: "flag", default: false, meaning: "Train on parts of the data, too: would more of them help?" }];
  const made = form(fields, { submit: "Compare", onSubmit: async ({ models, data, folder, ...options }) => {
    await post("/api/jobs", { what: "compare", models: (models ?? "").split(",").map((each) => each.trim()).filter(Boolean), data, folder, options });
    started();
  } });
  return made.node;
}
