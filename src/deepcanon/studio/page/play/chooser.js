// What is played with: points, a model that learns from them, its arguments, and the settings of the training.

import { post } from "../api.js";
import { fill, h } from "../dom.js";
import { form } from "../form.js";

const SHOWN = 6;  // so many arguments are seen at once; the others are folded away

// chooser(state, onChange(wanted, state)) -> {node, begin(), drawn(points), picking()}; the address is the state.
export function chooser(state, onChange) {
  const points = h("div", { class: "chips", role: "radiogroup", "aria-label": "Points" });
  const more = h("div", { class: "rows" }), models = h("select", { id: "play-model" }), summary = h("p", { class: "note" });
  const args = h("div"), settings = h("div"), trouble = h("p", { class: "refusal", role: "alert", hidden: true });
  const node = h("div", { class: "card chooser" },
    h("h2", {}, "Points"), points, more,
    h("h2", {}, h("label", { for: "play-model" }, "Model")), models, summary, args,
    h("details", {}, h("summary", {}, "Training"), settings), trouble);
  let there = null, chosen = { ...state }, fields = { arguments: null, settings: null }, pile = [], turn = 0, picking = 0;

  const values = (prefix) => Object.fromEntries(Object.entries(chosen).filter(([key, value]) => key.startsWith(prefix) && value !== "").map(([key, value]) => [key.slice(prefix.length), value]));
  const setOf = () => there?.sets.find((each) => each.name === chosen.data);
  const fileOf = () => there?.files.find((each) => each.name === chosen.file);

  function data() {
    const labels = chosen.labels ? { labels: Number(chosen.labels) } : {};
    if (chosen.data === "drawn") return { points: tidy(pile), ...labels };
    if (chosen.data === "file") return { file: chosen.file, columns: [chosen.across, chosen.up], ...(chosen.target ? { target: chosen.target } : {}), ...labels };
    return { set: chosen.data, ...labels };
  }

  // Points of one color are points without classes; classes are numbered without gaps.
  function tidy(given) {
    const used = [...new Set(given.map((point) => point[2]))].sort();
    return given.map(([x, y, label]) => (used.length > 1 ? [x, y, used.indexOf(label)] : [x, y]));
  }
  const classes = () => (chosen.data === "drawn" ? (new Set(pile.map((point) => point[2])).size > 1 ? 2 : 0) : chosen.data === "file" ? (chosen.target ? 2 : 0) : setOf()?.classes ?? 0);

  async function begin() {
    if (chosen.points) pile = chosen.points.split("_").map((each) => each.split("*").map(Number)).map(([x, y, c]) => [x / 500, y / 500, c || 0]);
    await pick();
  }

  function drawPoints() {
    const chip = (label, on, change) => h("button", { type: "button", role: "radio", "aria-checked": on ? "true" : "false", class: on ? "chip on" : "chip", onclick: () => { chosen = { ...chosen, ...change }; drawPoints(); pick(); } }, label);
    fill(points, there.sets.map((each) => chip(each.name, chosen.data === each.name, { data: each.name })),
      chip("draw", chosen.data === "drawn", { data: "drawn" }),
      there.files.map((each) => chip(each.name, chosen.data === "file" && chosen.file === each.name, { data: "file", file: each.name, across: each.columns[0], up: each.columns[1], target: each.columns[2] ?? "" })));
    const few = h("input", { type: "checkbox", checked: Boolean(chosen.labels), onchange: () => { chosen.labels = few.checked ? "6" : ""; drawPoints(); pick(); } });
    const count = h("input", { type: "number", min: 2, max: 200, value: chosen.labels ?? "6", "aria-label": "How many labels", onchange: () => { chosen.labels = count.value; pick(); } });
    const column = (key, name, empty) => h("label", {}, name, " ", h("select", { onchange: (event) => { chosen[key] = event.target.value; drawPoints(); pick(); } },
      empty ? h("option", { value: "" }, empty) : null, fileOf().columns.map((each) => h("option", { value: each, selected: each === chosen[key] }, each))));
    fill(more,
      chosen.data === "file" ? [column("across", "across"), column("up", "up"), column("target", "class", "none")] : null,
      classes() > 1 ? h("label", {}, few, " only a few labels", chosen.labels ? [": ", count] : "") : null,
      chosen.data === "drawn" ? h("p", { class: "note" }, "Draw on the plane: choose a color above it, then press and drag. One color gives points without classes.") : null);
  }

  // The models for these points, the form of the chosen one, then the session.
  async function pick() {
    picking += 1;
    try { await look(); } finally { picking -= 1; }
  }

  async function look() {
    const mine = ++turn;
    refuse("");
    if (there && classes() < 2) chosen.labels = "";
    if (chosen.data === "drawn" && pile.length < 4 && there) { onChange(null, address()); return; }
    try {
      const empty = !chosen.data || (chosen.data === "drawn" && pile.length < 4);
      const found = await post("/api/play/choices", { data: empty ? null : data(), model: chosen.model });
      if (mine !== turn) return;
      there = found.points;
      if (!chosen.data) chosen.data = found.data.set;
      drawPoints();
      if (chosen.data === "drawn" && pile.length < 4) { onChange(null, address()); return; }
      if (found.model !== chosen.model) forget(found.model);
      const groups = [...new Set(found.models.map((each) => each.group))];
      fill(models, groups.map((group) => h("optgroup", { label: group }, found.models.filter((each) => each.group === group).map((each) => h("option", { value: each.name }, each.title || each.name)))));
      models.value = chosen.model;
      summary.textContent = found.models.find((each) => each.name === chosen.model).summary;
      drawForms(found.form);
    } catch (error) { if (mine === turn) refuse(error.message); }
  }

  function forget(model) {
    chosen = Object.fromEntries(Object.entries(chosen).filter(([key]) => !key.startsWith("a.") && !key.startsWith("s.")));
    chosen.model = model;
    chosen.fresh = "1";
  }

  function drawForms(found) {
    if (chosen.fresh) for (const field of found.arguments) if (field.start) chosen[`a.${field.name}`] = field.start;
    delete chosen.fresh;
    fields = { arguments: made(found.arguments, "a."), settings: made(found.settings, "s.") };
    const rows = [...fields.arguments.node.querySelectorAll(".field")];
    fill(args, fields.arguments.node);
    if (rows.length > SHOWN) fields.arguments.node.append(h("details", {}, h("summary", {}, `${rows.length - SHOWN} more arguments`), rows.slice(SHOWN)));
    fill(settings, fields.settings.node);
    start();
  }

  function made(list, prefix) {
    const one = form(list, { values: values(prefix), onSubmit: async () => apply() });
    one.node.addEventListener("change", () => apply());
    return one;
  }

  function apply() {
    chosen = Object.fromEntries(Object.entries(chosen).filter(([key]) => !key.startsWith("a.") && !key.startsWith("s.")));
    for (const [prefix, one] of [["a.", fields.arguments], ["s.", fields.settings]]) for (const [key, value] of Object.entries(one.values())) chosen[`${prefix}${key}`] = value;
    start();
  }

  function start() {
    onChange({ model: chosen.model, arguments: values("a."), data: data(), settings: values("s.") }, address());
  }

  function address() {
    const written = chosen.data === "drawn" && pile.length <= 250 ? pile.map(([x, y, label]) => `${Math.round(x * 500)}*${Math.round(y * 500)}*${label}`).join("_") : "";
    return { ...chosen, points: written };
  }

  function refuse(sentence) { trouble.textContent = sentence; trouble.hidden = !sentence; }
  models.addEventListener("change", () => { forget(models.value); pick(); });

  return { node, begin, refuse, picking: () => picking > 0, drawing: () => chosen.data === "drawn", pile: () => pile, drawn: (given) => { pile = given; drawPoints(); return pick(); } };
}
