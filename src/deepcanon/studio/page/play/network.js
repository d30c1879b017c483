// The network: every unit as a map of the plane, every weight as a line; weights can be dragged.

import { colorOf } from "../draw.js";
import { fill, h, number } from "../dom.js";
import { mapOf } from "./ink.js";

const SIZE = 38, GAP = 7, FIRST = 22;

// network({onEdit(parameter, index, value), onUnit(layer, index)}) -> {node, show(layers, axes), end()}
export function network({ onEdit, onUnit }) {
  const ground = h("canvas", { class: "edges", "aria-hidden": "true" });
  const room = h("div", { class: "units" });
  const board = h("div", { class: "board" }, ground, room);
  const hint = h("p", { class: "note" }, "Each small picture is a neuron: the plane as it sees it, blue where its output is above zero, orange below. Lines are weights: point at one and drag it up or down.");
  const inspector = h("div", { class: "inspector", hidden: true });
  const node = h("div", { class: "network" }, h("div", { class: "scroll" }, board), inspector, hint);
  let layers = [], columns = [], chosen = null, shape = "", drag = null, axes = ["x₁", "x₂"], canvases = new Map();

  function show(given, names) {
    layers = given;
    axes = names ?? axes;
    node.hidden = !layers.length;
    if (node.hidden) return;
    const now = layers.map((layer) => `${layer.name}:${layer.maps.length}`).join();
    if (now !== shape) { shape = now; build(); }
    layers.forEach((layer, l) => layer.maps.forEach((values, u) => mapOf({ kind: "values", cells: layer.cells, values, low: -1, high: 1 }, canvases.get(`${l}.${u}`))));
    drawEdges();
    if (chosen) refreshInspector();
  }

  // Columns of units: the inputs first, where the first layer reads both coordinates.
  function build() {
    chosen = null;
    inspector.hidden = true;
    canvases = new Map();
    const readsPlane = layers[0].inputs === 2;
    columns = [...(readsPlane ? [{ layer: -1, count: 2 }] : []), ...layers.map((layer, l) => ({ layer: l, count: layer.maps.length }))];
    const tallest = Math.max(...columns.map((column) => column.count)), step = Math.max(84, Math.min(170, (node.clientWidth - SIZE - 64) / Math.max(1, columns.length - 1)));
    const space = Math.min(SIZE + 60, step - 4);  // of a layer's name
    const height = FIRST + tallest * (SIZE + GAP) + 18;
    board.style.setProperty("height", `${height}px`);
    board.style.setProperty("width", `${(columns.length - 1) * step + SIZE + 60}px`);
    columns.forEach((column, c) => { column.x = 30 + c * step; column.top = FIRST + ((tallest - column.count) * (SIZE + GAP)) / 2; });
    fill(room, columns.flatMap((column) => [
      h("span", { class: "layer-name", title: layers[column.layer]?.name, style: { left: `${column.x + (SIZE - space) / 2}px`, width: `${space}px` } }, column.layer < 0 ? "inputs" : nameOf(layers[column.layer])),
      ...Array.from({ length: column.count }, (_, u) => unit(column, u)),
    ]));
  }

  const nameOf = (layer) => `layer ${layers.indexOf(layer) + 1}${layer.units > layer.maps.length ? `, ${layer.maps.length} of ${layer.units}` : ""}`;
  const middle = (column, u) => column.top + u * (SIZE + GAP) + SIZE / 2;

  function unit(column, u) {
    const place = { left: `${column.x}px`, top: `${column.top + u * (SIZE + GAP)}px`, width: `${SIZE}px`, height: `${SIZE}px` };
    if (column.layer < 0) return h("span", { class: "unit input", style: place }, `x${"₁₂"[u]}`);
    const canvas = h("canvas", { class: "map" });
    canvases.set(`${column.layer}.${u}`, canvas);
    const peek = (on) => () => onUnit(on ? layers[column.layer] : null, u);
    return h("button", { type: "button", class: "unit", style: place, "aria-label": `Neuron ${u + 1} of ${nameOf(layers[column.layer])}: show its map, and its weights`,
      onpointerenter: peek(true), onpointerleave: peek(false), onfocus: peek(true), onblur: peek(false), onclick: () => choose({ layer: column.layer, to: u, from: layers[column.layer].bias ? -1 : 0 }) }, canvas);
  }

  // The weights that are drawn: those between columns that stand side by side and belong together.
  function* edges() {
    for (let c = 1; c < columns.length; c += 1) {
      const layer = layers[columns[c].layer], before = columns[c - 1].layer < 0 ? 2 : layers[columns[c - 1].layer].units;
      if (layer.inputs !== before) continue;
      for (let to = 0; to < columns[c].count; to += 1) {
        for (let from = 0; from < columns[c - 1].count; from += 1) {
          yield { layer: columns[c].layer, to, from, value: layer.weights[to][from], x1: columns[c - 1].x + SIZE, y1: middle(columns[c - 1], from), x2: columns[c].x, y2: middle(columns[c], to) };
        }
      }
    }
  }

  const same = (one, other) => one && other && one.layer === other.layer && one.to === other.to && one.from === other.from;

  function drawEdges() {
    const sharp = window.devicePixelRatio || 1, width = board.clientWidth, height = board.clientHeight;
    ground.width = width * sharp;
    ground.height = height * sharp;
    const context = ground.getContext("2d"), plus = colorOf("accent"), minus = colorOf("second"), ink = colorOf("ink");
    context.scale(sharp, sharp);
    for (const edge of edges()) {
      const size = Math.min(1, Math.abs(edge.value ?? 0) / 2), picked = same(edge, chosen);
      context.globalAlpha = picked ? 1 : 0.15 + 0.85 * size;
      context.strokeStyle = picked ? ink : edge.value > 0 ? plus : minus;
      context.lineWidth = (picked ? 2 : 0.4) + 3.6 * size;
      context.beginPath();
      context.moveTo(edge.x1, edge.y1);
      const bend = (edge.x2 - edge.x1) / 2;
      context.bezierCurveTo(edge.x1 + bend, edge.y1, edge.x2 - bend, edge.y2, edge.x2, edge.y2);
      context.stroke();
    }
  }

  function nearest(event) {
    const bounds = board.getBoundingClientRect(), x = event.clientX - bounds.left, y = event.clientY - bounds.top;
    let best = null, gap = 9;
    for (const edge of edges()) {
      const t = (x - edge.x1) / (edge.x2 - edge.x1);
      if (t < 0 || t > 1) continue;
      const far = Math.abs(edge.y1 + (edge.y2 - edge.y1) * (3 * t * t - 2 * t * t * t) - y);  // close to the curve's own course
      if (far < gap) { gap = far; best = edge; }
    }
    return best;
  }

  board.addEventListener("pointermove", (event) => {
    if (drag) { set(drag.value - (event.clientY - drag.y) / 40); return; }
    board.classList.toggle("over-edge", Boolean(nearest(event)));
  });
  board.addEventListener("pointerdown", (event) => {
    const edge = event.target.closest("button") ? null : nearest(event);
    if (!edge) return;
    choose(edge);
    drag = { y: event.clientY, value: edge.value };
    board.setPointerCapture(event.pointerId);
    event.preventDefault();
  });
  for (const kind of ["pointerup", "pointercancel"]) board.addEventListener(kind, () => { drag = null; });

  const valueOf = ({ layer, to, from }) => (from < 0 ? layers[layer].biases[to] : layers[layer].weights[to][from]);
  const slider = h("input", { type: "range", min: -4, max: 4, step: 0.01, "aria-label": "The value of the weight", oninput: () => set(Number(slider.value)) });
  const exact = h("input", { type: "text", inputmode: "decimal", class: "exact", "aria-label": "The value of the weight, as a number", onchange: () => { const value = Number(exact.value); if (Number.isFinite(value)) set(value); } });
  const from = h("select", { "aria-label": "Which weight of this neuron", onchange: () => choose({ ...chosen, from: Number(from.value) }) });
  const words = h("b");
  inspector.append(words, from, slider, exact);

  function choose({ layer, to, from: source }) {
    chosen = { layer, to, from: source };
    const each = layers[layer];
    fill(from, each.bias ? h("option", { value: -1 }, "its bias") : null,
      each.weights[to].map((_, n) => h("option", { value: n }, each.inputs === 2 && layer === 0 ? `the weight of x${"₁₂"[n]}` : `the weight of input ${n + 1}`)));
    from.value = String(source);
    words.textContent = `Neuron ${to + 1} of ${each.name || "the layer"}`;
    inspector.hidden = false;
    refreshInspector();
    drawEdges();
  }

  function refreshInspector() {
    const value = valueOf(chosen);
    if (document.activeElement !== slider && document.activeElement !== exact) slider.value = String(value);
    if (document.activeElement !== exact) exact.value = number(value, 4).replace("−", "-");
  }

  function set(value) {
    const { layer, to, from: source } = chosen, each = layers[layer];
    if (source < 0) each.biases[to] = value; else each.weights[to][source] = value;
    slider.value = String(value);
    exact.value = String(Number(value.toFixed(3)));
    drawEdges();
    onEdit(source < 0 ? each.bias : each.weight, source < 0 ? [to] : [to, source], value);
  }

  return { node, show, end: () => {} };
}
