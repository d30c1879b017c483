// Where a network looks: activation maps, Grad-CAM with its control, receptive fields.

import { get } from "../api.js";
import { fill, h, number } from "../dom.js";
import { heat } from "../draw.js";
import { table } from "../table.js";
import { check, choice, paint, panel, sentences } from "./subject.js";

// Heat that is seen on black and on white: the color, and how much it covers.
const HOT = [255, 122, 0];
const percent = (share) => `${number(100 * share, 3)} %`;

function tile(values, label) {
  const canvas = h("canvas", { class: "pixels", role: "img", "aria-label": label });
  const flat = values.flat(), signed = flat.some((value) => value < 0);
  heat(canvas, flat, values[0].length, values.length, signed ? { diverging: true } : { low: 0, high: Math.max(...flat) || 1 });
  return canvas;
}

// Activation maps of each layer; beside them, if asked for, those of random weights.
export function activations(run, example, state, go) {
  const made = panel("Activation maps", "The strongest feature maps of each layer for this example. What random weights show too is the image, not what was learned.");
  const control = state.random === "1";
  fill(made.tools, check("random weights beside them", control, (on) => go({ random: on ? "1" : null })));
  made.load(async () => {
    const asked = { split: example.split, number: example.number };
    const [trained, random] = await Promise.all([get(`/api/runs/${run}/explain/activations`, asked), control ? get(`/api/runs/${run}/explain/activations`, { ...asked, control: 1 }) : null]);
    const row = (layer, words) => h("div", { class: "strip" }, h("span", { class: "strip-name" }, words),
      layer.maps.map((map, n) => h("figure", { class: "tile" }, tile(map, `${layer.layer}, channel ${layer.strongest[n]}`), h("figcaption", { title: `channel ${layer.strongest[n]}` }, `ch. ${layer.strongest[n]}`))));
    fill(made.room, trained.numbers.layers.map((layer, n) => h("section", { class: "layer" },
      h("h3", {}, layer.layer, " ", h("small", {}, `${layer.channels} channels of ${layer.size.join("×")} · ${percent(layer.zeros)} zeros · ${layer.dead} dead`)),
      row(layer, "trained"), random ? row(random.numbers.layers[n], "random") : null)), sentences(trained.says));
  });
  return made.node;
}

// A map stretched over the image it belongs to: the stronger, the less of the image is gray.
function overlay(image, map) {
  const canvas = h("canvas", { class: "pixels" }), scale = Math.max(1, Math.ceil(96 / image.width));
  const [width, height] = [image.width * scale, image.height * scale];
  const base = paint(h("canvas"), image), grid = h("canvas"), rows = map.length, columns = map[0].length;
  const most = Math.max(...map.flat(), 1e-30), cells = new ImageData(columns, rows);
  map.flat().forEach((value, i) => {
    cells.data.set([...HOT, Math.round(225 * Math.max(0, value / most) ** 0.8)], 4 * i);
  });
  grid.width = columns;
  grid.height = rows;
  grid.getContext("2d").putImageData(cells, 0, 0);
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext("2d");
  context.imageSmoothingEnabled = false;
  context.drawImage(base, 0, 0, width, height);
  context.imageSmoothingEnabled = true;
  context.drawImage(grid, 0, 0, width, height);
  return canvas;
}

export function gradCam(run, example, about, state, go) {
  const made = panel("Grad-CAM and its control", "Where the evidence for a class lies. The control is the same map by random weights: if it looks alike, the map shows the image and not the model.");
  const names = about.labels.map((label, n) => [n, label]);
  fill(made.tools,
    choice("Class", [["", "predicted"], ...names], state.target, (value) => go({ target: value || null })),
    choice("Layer", [["", "last convolution"], ...about.layers.map((layer) => [layer, layer])], state.layer, (value) => go({ layer: value || null })));
  made.load(async () => {
    const [{ numbers, says }, image] = await Promise.all([
      get(`/api/runs/${run}/explain/grad_cam`, { split: example.split, number: example.number, target: state.target, layer: state.layer }), example.ready]);
    const named = (n) => about.labels[n] ?? `class ${n}`;
    const figure = (canvas, title, words) => h("figure", { class: "large tile" }, canvas, h("figcaption", {}, h("b", {}, title), h("br"), words));
    const [explained, predicted] = [numbers.explained_class[0], numbers.predicted_class[0]];
    const probability = numbers.probability ? `, ${percent(numbers.probability[0])}` : "";
    const likeness = numbers.likeness_to_control[0];
    fill(made.room, h("div", { class: "side-by-side" },
      figure(paint(h("canvas", { class: "pixels" }), image), "image", `true ${image.true ?? "unknown"}, predicted ${named(predicted)}`),
      figure(overlay(image, numbers.grad_cam[0]), "Grad-CAM", `for ${named(explained)}${probability}${numbers.empty[0] ? "; empty" : ""}`),
      numbers.cam ? figure(overlay(image, numbers.cam[0]), "CAM", `for ${named(explained)}`) : null,
      figure(overlay(image, numbers.control[0]), "random weights", `rank correlation ${likeness === null ? "unknown" : number(likeness, 2)}`)),
      sentences(says));
  });
  return made.node;
}

export function receptiveField(run, example, state, go) {
  const made = panel("Receptive field", "The box is what can reach the middle unit of a layer at all; the heat is where its gradient really is (root of it).");
  made.load(async () => {
    const [{ numbers, says }, image] = await Promise.all([
      get(`/api/runs/${run}/explain/receptive_field`, { split: example.split, number: example.number }), example.ready]);
    const layers = numbers.layers;
    const at = Math.max(0, layers.findIndex((layer) => layer.layer === state.field));
    const chosen = state.field ? at : layers.length - 1;
    const rows = table({ key: (row) => row.layer, caption: "", columns: [
      { name: "layer", title: "layer", plain: true, cell: (row) => h("button", { type: "button", class: "plain", "aria-pressed": row.layer === layers[chosen].layer, onclick: () => go({ field: row.layer }) }, row.layer) },
      { name: "size", title: "field, pixels", plain: true, numeric: true, cell: (row) => `${row.size.join("×")}${row.status === "EXACT" ? "" : " at most"}` },
      { name: "step", title: "step", plain: true, numeric: true, cell: (row) => row.step.map((value) => number(value)).join("×") },
      { name: "effective", title: "effective", plain: true, numeric: true, cell: (row) => number(row.effective_pixels) },
      { name: "half", title: "half of the gradient", plain: true, numeric: true, cell: (row) => number(row.half_pixels) }] });
    rows.draw(layers);
    fill(made.room, h("div", { class: "side-by-side wide" }, fieldPicture(image, layers[chosen], numbers.image), rows.node), sentences(says));
  });
  return made.node;
}

function fieldPicture(image, layer, [height, width]) {
  const [[top, bottom], [left, right]] = layer.window, room = 2;
  const [x0, y0] = [Math.min(left, 0) - room, Math.min(top, 0) - room], [x1, y1] = [Math.max(right + 1, width) + room, Math.max(bottom + 1, height) + room];
  const most = Math.max(...layer.map.flat(), 1e-30);
  const cells = [];
  layer.map.forEach((line, y) => line.forEach((value, x) => {
    const at = y * width + x, size = width * height;
    const gray = Math.round(255 * (image.channels === 3 ? (image.values[at] + image.values[at + size] + image.values[at + 2 * size]) / 3 : image.values[at]));
    const cover = 0.85 * Math.sqrt(value / most);
    cells.push(h("rect", { x, y, width: 1, height: 1, fill: `rgb(${HOT.map((color) => Math.round(gray * (1 - cover) + color * cover)).join(" ")})` }));
  }));
  const svg = h("svg", { class: "field-picture", "shape-rendering": "crispEdges", viewBox: `${x0} ${y0} ${x1 - x0} ${y1 - y0}`, role: "img", "aria-label": `Receptive field of ${layer.layer}` },
    cells, h("rect", { class: "frame-line", x: 0, y: 0, width, height }),
    h("rect", { class: "field-box", x: left, y: top, width: right - left + 1, height: bottom - top + 1 }));
  const words = `${layer.layer}: ${layer.size.join("×")} pixels in theory, ${layer.effective_pixels} effective (${percent(layer.effective_share)} of the field within the image).`;
  return h("figure", { class: "tile field-figure" }, svg, h("figcaption", {}, words));
}
