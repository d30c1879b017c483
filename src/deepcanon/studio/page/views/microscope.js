// Microscope: every value and every delta of one pass through a run's model; edit a number and see which edges move.

import { get, post } from "../api.js";
import { fill, h, number, say } from "../dom.js";
import { choice, examplePicker, noRuns, opening, runPicker } from "../looks/subject.js";
import { download } from "../save.js";
import { table } from "../table.js";

export const title = "Microscope";

const LISTED = 200;

export async function mount(root, state, go) {
  const picker = await runPicker(state.id, (id) => go({ id }, { view: "microscope" }));
  if (picker.empty) { root.append(h("h1", {}, title), noRuns()); return () => {}; }
  const head = h("div", { class: "look-head" }, h("h1", {}, title), picker.node);
  const room = h("div", { class: "magnified" });
  root.append(head, room);
  const about = await opening(room, get(`/api/runs/${picker.id}/microscope`));
  if (!about) return () => {};
  const example = examplePicker(picker.id, about.splits, state, (chosen) => go(chosen));
  head.append(example.node);
  const frame = h("iframe", { class: "graph", title: "Compute graph with the value and the delta on every edge", sandbox: "allow-scripts" });
  const found = h("article", { class: "card moved", hidden: true });
  const stage = h("article", { class: "card graph-card" }, frame);
  const asked = () => ({ split: example.split, examples: [example.number] });

  let shown;
  async function look(edit) {
    shown = edit;
    stage.setAttribute("aria-busy", "true");
    try {
      const answer = await post(`/api/runs/${picker.id}/microscope`, { ...asked(), edit });
      frame.src = answer.address;
      fill(found, edit ? moved(answer) : null);
      found.hidden = !edit;
      if (edit) say(found.querySelector("p")?.textContent ?? "");
    } catch (error) { found.hidden = false; fill(found, h("p", { class: "refusal", role: "alert" }, error.message)); } finally { stage.removeAttribute("aria-busy"); }
  }

  // The page of the graph needs nothing else: it is what is saved.
  async function save() {
    const { address } = await post(`/api/runs/${picker.id}/microscope`, { ...asked(), edit: shown });
    download(`${picker.name}-${example.split}-${example.number}.html`.replace(/[^\w.-]+/g, "-"), await (await fetch(address)).blob());
  }

  head.append(h("button", { type: "button", class: "live-only", title: "One HTML file with the graph", onclick: save }, "Save"));
  const editing = await editor(picker.id, about.parameters, state, go, look);
  fill(room, h("article", { class: "card edit-card" }, editing.node), stage, found);
  await look(editing.edit());
  return () => {};
}

// The form that sets one number: a parameter, its index, the new value by a field and by a slider.
async function editor(run, parameters, state, go, look) {
  const name = parameters.some((each) => each.name === state.parameter) ? state.parameter : parameters[0]?.name;
  if (!name) return { node: h("p", { class: "note" }, "This model has no parameters to edit."), edit: () => undefined };
  const about = parameters.find((each) => each.name === name);
  const { values } = await get(`/api/runs/${run}/numbers`, { parameter: name });
  const index = Math.max(0, Math.min(values.length - 1, Number.parseInt(state.index ?? "0", 10) || 0));
  const own = values[index], edited = state.value !== undefined && Number.isFinite(Number(state.value));
  const spread = Math.max(...values.map(Math.abs), 1e-3);
  const start = edited ? Number(state.value) : own;
  const which = h("input", { type: "number", min: 0, max: values.length - 1, value: index, "aria-label": "Index of the number", onchange: () => go({ parameter: name, index: which.value, value: null }) });
  const field = h("input", { type: "number", step: "any", value: start, "aria-label": "New value" });
  const slider = h("input", { type: "range", min: own - 2 * spread, max: own + 2 * spread, step: spread / 100, value: start, "aria-label": "New value, by sliding" });
  slider.addEventListener("input", () => { field.value = Number(Number(slider.value).toPrecision(4)); });
  const apply = () => { if (field.value !== "") { slider.value = field.value; go({ parameter: name, index, value: field.value }, { quiet: true }); look({ parameter: name, index, value: Number(field.value) }); } };
  slider.addEventListener("change", apply);
  const back = () => { field.value = own; slider.value = own; go({ value: null }, { quiet: true }); look(); };
  const node = h("form", { class: "edit-form", onsubmit: (event) => { event.preventDefault(); apply(); } },
    h("h2", {}, "Edit a number"),
    h("p", { class: "note edit-note" }, "Set one number of the model and see which edges move. The run stays as it is: a copy is changed."),
    choice("Parameter", parameters.map((each) => [each.name, `${each.name} (${each.shape.join("×") || "1"})`]), name, (chosen) => go({ parameter: chosen, index: 0, value: null })),
    h("label", { class: "pick" }, "Number ", which, h("span", { class: "note" }, `of ${number(about.size)}: ${place(index, about.shape)}`)),
    h("p", { class: "now" }, "now ", h("b", { class: "own-value" }, number(own, 6))),
    h("label", { class: "pick" }, "New value ", field), slider,
    h("div", { class: "actions" }, h("button", { class: "main", type: "submit" }, "Set"), h("button", { type: "button", onclick: back }, "As it was")));
  return { node, edit: () => (edited ? { parameter: name, index, value: Number(state.value) } : undefined) };
}

// The place of a flat index in a tensor, counted from 1: "row 3, column 1".
function place(index, shape) {
  const found = [];
  let rest = index;
  for (const size of [...shape].reverse()) { found.unshift((rest % size) + 1); rest = Math.floor(rest / size); }
  if (shape.length === 2) return `row ${found[0]}, column ${found[1]}`;
  return found.length ? `at ${found.join(", ")}` : "the only one";
}

function moved(answer) {
  const share = (value) => (value === null ? "new" : value === 0 ? "–" : `${number(100 * value, 3)} %`);
  const rows = table({ key: (row) => row.edge, sort: "", columns: [
    { name: "edge", title: "edge", numeric: true, cell: (row) => String(row.edge), value: (row) => row.edge },
    { name: "from", title: "from → to", cell: (row) => `${row.from} → ${row.to}`, value: (row) => row.from },
    { name: "value", title: "value", numeric: true, cell: (row) => share(row.value), value: (row) => row.value ?? Infinity },
    { name: "delta", title: "δ", numeric: true, cell: (row) => share(row.delta), value: (row) => row.delta ?? Infinity }] });
  rows.draw(answer.moved.slice(0, LISTED));
  const words = `${answer.moved.length} of ${answer.edges} edges move. The loss goes from ${number(answer.loss_before, 6)} to ${number(answer.loss_after, 6)}`;
  return [h("h2", {}, "What moves"), h("p", { class: "moves" }, `${words}; by the delta alone, ${number(answer.slope, 4)} per unit, it would be ${number(answer.foreseen, 6)}.`),
    h("p", { class: "note" }, "By how much each edge moves, as a share of its size before:"), rows.node, answer.moved.length > LISTED ? h("p", { class: "note" }, `The first ${LISTED} are listed; all stand out in the graph.`) : null];
}
