// What is looked at: a run, and one of its examples. The choice is part of the address.

import { get } from "../api.js";
import { fill, h, number } from "../dom.js";

// An example on a canvas, one pixel each (CSS sizes it): gray, or red, green and blue.
export function paint(canvas, example) {
  const { width, height, channels, values } = example, size = width * height;
  canvas.width = width;
  canvas.height = height;
  const image = new ImageData(width, height);
  for (let i = 0; i < size; i += 1) {
    for (let c = 0; c < 3; c += 1) image.data[4 * i + c] = Math.round(255 * values[channels === 3 ? c * size + i : i]);
    image.data[4 * i + 3] = 255;
  }
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

// An example as it is best seen: an image, a text, or its numbers.
export function shown(example, label = "example") {
  if (example.kind === "image") return paint(h("canvas", { class: "pixels", role: "img", "aria-label": label }), example);
  if (example.kind === "text") return h("blockquote", { class: "sample-text" }, example.text);
  if (example.kind !== "values") return h("p", { class: "note" }, `an example of the shape ${example.shape.join("×")}`);
  const some = example.values.slice(0, 12).map((value) => number(value, 3)).join(", ");
  return h("code", { class: "values" }, `(${some}${example.values.length > 12 ? `, … ${example.values.length} values` : ""})`);
}

// The field by which a run is chosen; onPick gets its id.
export async function runPicker(chosen, onPick) {
  const { runs } = await get("/api/runs");
  const id = runs.some((run) => run.id === chosen) ? chosen : runs[0]?.id;
  const select = h("select", { onchange: () => onPick(select.value) },
    runs.map((run) => h("option", { value: run.id, selected: run.id === id }, run.name)));
  return { id, name: runs.find((run) => run.id === id)?.name ?? "", empty: !runs.length, node: h("label", { class: "pick" }, "Run ", select) };
}

export function noRuns() {
  return h("p", { class: "note" }, "There is no run in this folder yet. Train one: ", h("code", {}, "deepcanon train cnn --data digits"), ".");
}

// The field by which an example is chosen, with a small picture of it; onPick({split, number}).
export function examplePicker(run, splits, state, onPick) {
  const split = state.split in splits ? state.split : Object.keys(splits)[0];
  const last = splits[split] - 1;
  const number = Math.max(0, Math.min(last, Number.parseInt(state.number ?? "0", 10) || 0));
  const choose = h("select", { "aria-label": "Split", onchange: () => onPick({ split: choose.value, number: 0 }) },
    Object.keys(splits).map((name) => h("option", { value: name, selected: name === split }, name)));
  const field = h("input", { type: "number", min: 0, max: last, value: number, "aria-label": "Number of the example", onchange: () => onPick({ split, number: field.value }) });
  const step = (by) => onPick({ split, number: (number + by + last + 1) % (last + 1) });
  const picture = h("div", { class: "thumbnail" });
  const words = h("span", { class: "note" });
  const ready = get(`/api/runs/${run}/example`, { split, number }).then((example) => {
    fill(picture, shown(example, `${split} example ${number}`));
    words.textContent = example.true === undefined ? "" : `true: ${Array.isArray(example.true) ? example.true.map((each) => globalThis.String(each)).join(", ") : example.true}`;
    return example;
  });
  ready.catch(() => {});
  const node = h("div", { class: "picker" }, h("span", { class: "pick" }, "Example ", choose, " ",
    h("button", { type: "button", title: "The one before", onclick: () => step(-1) }, "‹"), field,
    h("button", { type: "button", title: "The next one", onclick: () => step(1) }, "›"),
    h("button", { type: "button", title: "Any one", onclick: () => onPick({ split, number: Math.floor(Math.random() * (last + 1)) }) }, "random")), picture, words);
  return { node, split, number, ready };
}

// A card with a title, a line that explains it, and room for what is loaded; a refusal is shown in it, and nothing else breaks.
export function panel(title, explanation) {
  const room = h("div", { class: "room" }), tools = h("div", { class: "panel-tools live-only" });
  const node = h("article", { class: "card look" }, h("header", {}, h("h2", {}, title), tools), h("p", { class: "note" }, explanation), room);
  const load = async (work) => {
    room.setAttribute("aria-busy", "true");
    try { await work(); } catch (error) {
      if (error.name !== "AbortError") fill(room, h("p", { class: "refusal", role: "alert" }, error.message));
    } finally { room.removeAttribute("aria-busy"); }
  };
  return { node, room, tools, load };
}

export function sentences(says) {
  return h("ul", { class: "says" }, says.map((sentence) => h("li", {}, sentence)));
}

export function check(label, on, onChange) {
  const box = h("input", { type: "checkbox", checked: on, onchange: () => onChange(box.checked) });
  return h("label", { class: "pick" }, box, " ", label);
}

export function choice(label, options, chosen, onChange) {
  const select = h("select", { onchange: () => onChange(select.value) },
    options.map(([value, text]) => h("option", { value, selected: String(value) === String(chosen ?? "") }, text)));
  return h("label", { class: "pick" }, `${label} `, select);
}

// What stands in a view while its run is being opened, which takes seconds the first time; a refusal stays there, and gives null.
export async function opening(room, work) {
  fill(room, h("p", { class: "note", "aria-busy": "true" }, "Opening the run …"));
  try {
    const found = await work;
    fill(room);
    return found;
  } catch (error) {
    fill(room, h("p", { class: "refusal", role: "alert" }, error.message));
    return null;
  }
}
