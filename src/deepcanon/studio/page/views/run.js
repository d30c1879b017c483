// One run: its curves, what it reached, its pictures and settings, notes, what it takes, and buttons to stop or go on.

import { get, picture, post } from "../api.js";
import { axisOf, getCurves } from "../curve_data.js";
import { curves } from "../curves.js";
import { bytes, fill, h, number, seconds } from "../dom.js";
import { listen } from "../live.js";
import { saveButton } from "../save.js";

export const title = "Run";
export const under = "runs";

const MOST = 24;  // curves at once

export async function mount(root, state, go) {
  const { id } = state;
  let run = await get(`/api/runs/${encodeURIComponent(id)}`), timer = null, ended = false;
  const plots = new Map();
  const head = h("div", { class: "top" }), facts = h("div", { class: "card" }), grid = h("div", { class: "plots" });
  const tables = h("div", { class: "columns" }), gallery = h("div", { class: "gallery" });
  const find = h("input", { type: "search", placeholder: "find curves by name", "aria-label": "Find curves by name", value: state.find ?? "", oninput: () => { go({ find: find.value }, { quiet: true }); drawCurves(); } });
  const count = h("span", { class: "note", role: "status" }), finder = h("p", { class: "pair wrap finder live-only" }, find, count);
  root.append(head, facts, finder, grid, gallery, tables);
  const zoom = { from: state.from ?? "", to: state.to ?? "" };

  function drawHead() {
    const complaint = h("p", { class: "refusal", role: "alert", hidden: true });
    const act = (what, words) => h("button", { type: "button", class: `${what === "resume" ? "main " : ""}live-only`, title: words, onclick: async (event) => {
      event.target.disabled = true;
      try { await post(`/api/runs/${id}/${what}`); } catch (error) { complaint.textContent = error.message; complaint.hidden = false; event.target.disabled = false; }
    } }, what === "stop" ? "Stop" : "Resume");
    fill(head, h("h1", {}, run.name, " ", h("span", { class: `badge ${run.status}` }, run.status)), run.process ? act("stop", "Save a checkpoint and stop") : ["interrupted", "stopped"].includes(run.status) ? act("resume", "Go on from the last checkpoint") : null,
      h("a", { class: "button", href: `#/runs?find=${encodeURIComponent(run.model)}` }, `All ${run.model}`),
      [["doctor", "Doctor"], ["microscope", "Microscope"], ["explain", "Explain"]].map(([view, words]) => h("a", { class: "button", href: `#/${view}?id=${id}` }, words)), saveButton(root, run.name), complaint);
    const rate = run.step && run.seconds ? `${number(run.step / run.seconds, 3)} steps/s` : null;
    const live = run.resources.memory ? [["memory", bytes(run.resources.memory)], ["processor", `${number((100 * run.resources.processor) / Math.max(run.resources.since, 1e-3), 3)} %`]] : [];
    const said = [["model", run.model], ["data", run.data], ["epoch", run.epoch ? `${run.epoch}${run.epochs ? ` of ${run.epochs}` : ""}` : "–"], ["step", number(run.step)], ["loss", number(run.loss)], ["time", seconds(run.seconds)], ["speed", rate ?? "–"], ["parameters", number(run.parameters)], ["on disk", bytes(run.resources.disk)], ...live];
    fill(facts, h("dl", { class: "facts" }, said.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))), run.problem ? h("p", { class: "refusal" }, run.problem) : null, run.says.length ? h("ul", { class: "says" }, run.says.map((each) => h("li", {}, each))) : null);
  }

  // Of thousands of curves some are drawn: the first, or the first that are looked for.
  async function drawCurves() {
    const words = find.value.toLowerCase(), matching = run.curves.filter((name) => axisOf(name).name.toLowerCase().includes(words)), shown = new Set(matching.slice(0, MOST));
    finder.hidden = run.curves.length <= MOST;
    count.textContent = `${shown.size} of ${number(matching.length)} curves are drawn`;
    for (const [name, plot] of plots) if (!shown.has(name)) { plot.end(); plot.node.parentElement.remove(); plots.delete(name); }
    for (const name of shown) {
      if (!plots.has(name)) {
        const plot = curves({ x: { name: "step" }, y: axisOf(name), height: 240, label: `${axisOf(name).name} of ${run.name}`, onZoom: (from, to) => {
          Object.assign(zoom, { from: from === null ? "" : String(Math.floor(from)), to: to === null ? "" : String(Math.ceil(to)) });
          go(zoom, { quiet: true });
          drawCurves();
        } });
        plots.set(name, plot);
        grid.append(h("div", { class: "card" }, plot.node));
      }
      const span = zoom.from !== "" ? { from: Number(zoom.from), to: Number(zoom.to) } : {};
      const { head: said, curves: [curve] } = await getCurves({ name, runs: [id], width: Math.max(200, Math.round(grid.clientWidth / 2)), ...span });
      if (ended || !plots.has(name)) return;
      const plot = plots.get(name);
      plot.draw(curve ? [{ key: id, name: run.name, number: 0, ...curve }] : [], span);
      const there = curve ? Array.from(curve.mean).filter((value) => !Number.isNaN(value)) : [];
      plot.say(there.length ? `${axisOf(name).name}: ${number(there[0])} at first, ${number(there.at(-1))} at the end${said.sketched.length ? "; sketched, its log is being read" : ""}.` : "Nothing was logged here.");
    }
  }

  function drawTables() {
    const parts = Object.entries(run.results).filter(([, scores]) => Object.keys(scores).length), names = [...new Set(parts.flatMap(([, scores]) => Object.keys(scores)))];
    const plain = (entries) => h("table", {}, h("tbody", {}, entries.map(([name, value]) => h("tr", {}, h("th", { scope: "row" }, name.replaceAll("_", " ")), h("td", {}, value === null || value === "" ? "–" : typeof value === "number" ? number(value) : String(value))))));
    const note = h("textarea", { rows: 4, maxlength: 10000, "aria-label": "Note", placeholder: "What was this run for, and what came of it?", value: run.note });
    const tags = h("input", { "aria-label": "Tags", placeholder: "tags, with commas between them", value: run.tags.join(", ") });
    const kept = h("span", { class: "note", role: "status" });
    const keep = h("button", { type: "button", onclick: async () => {
      try { Object.assign(run, await post(`/api/runs/${id}/notes`, { tags: tags.value.split(","), note: note.value })); kept.textContent = "kept in notes.json of the run"; } catch (error) { kept.textContent = error.message; }
    } }, "Keep");
    fill(tables,
      names.length ? h("section", { class: "card" }, h("h2", {}, "Results"), h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, h("th", {}, ""), parts.map(([part]) => h("th", { class: "numeric" }, part)))), h("tbody", {}, names.map((name) => h("tr", {}, h("th", { scope: "row" }, name.replaceAll("_", " ")), parts.map(([, scores]) => h("td", { class: "numeric" }, number(scores[name])))))))), run.weights ? h("p", { class: "note" }, `Measured with these weights: ${run.weights}.`) : null) : null,
      h("section", { class: "card live-only" }, h("h2", {}, "Tags and note"), h("div", { class: "stack" }, tags, note, h("div", { class: "pair" }, keep, kept))),
      h("section", { class: "card" }, h("h2", {}, "Commands"), Object.entries(run.commands).map(([what, line]) => [h("p", { class: "note" }, what), h("pre", {}, line)])),
      h("section", { class: "card" }, h("h2", {}, "Settings"), plain(Object.entries(run.settings))),
      h("section", { class: "card" }, h("h2", {}, "Environment"), plain(Object.entries(run.environment))));
  }

  async function drawPictures() {
    const shown = await Promise.all(run.pictures.map(async (name, n) => {
      const address = await picture(`/api/runs/${id}/pictures/${n}`);
      return h("figure", { class: "card" }, h("img", { src: address, alt: name, loading: "lazy" }), h("figcaption", {}, name.replace(/\.\w+$/, "").replaceAll(/[-_]/g, " ")));
    }));
    if (!ended) fill(gallery, shown);
  }

  drawHead();
  drawTables();
  await drawCurves();
  await drawPictures();
  const stop = listen("runs", (news) => {
    if (!news.read.includes(id) && !news.changed.some((each) => each.id === id)) return;
    timer ??= setTimeout(async () => {
      timer = null;
      const before = run;
      run = await get(`/api/runs/${id}`);
      if (ended) return;
      drawHead();
      await drawCurves();
      if (before.status !== run.status) drawTables();
      if (before.pictures.length !== run.pictures.length) await drawPictures();
    }, 400);
  });
  return () => { ended = true; clearTimeout(timer); stop(); for (const plot of plots.values()) plot.end(); };
}
