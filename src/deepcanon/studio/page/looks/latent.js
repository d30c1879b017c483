// The map of codes: drag over it and the decoder follows; choose two examples and go from one to the other.

import { get } from "../api.js";
import { fill, h, number, say } from "../dom.js";
import { Stage, colorOf, hue, scale } from "../draw.js";
import { panel, shown } from "./subject.js";

const NEAR = 12, STEP = 0.02;

export function latent(run, example, state, go) {
  const made = panel("Latent map", "Codes of examples, each where the encoder puts it. Drag over the map (or use the arrow keys): the picture beside it is what the decoder makes of that point.");
  const stage = new Stage({ height: 420, label: "Map of codes" });
  made.load(async () => {
    const map = await get(`/api/runs/${run}/codes`, { split: example.split });
    if (map.decodes) dragged(made, stage, map, run, example, state, go);
    else still(made, stage, map);
  });
  return { node: made.node, end: () => stage.end() };
}

const spread = (values) => [Math.min(...values), Math.max(...values)];

// Draw the points and the axes; gives the scales.
function draw(stage, map) {
  const [across, up] = [0, 1].map((axis) => { const [low, high] = spread(map.points.map((point) => point[axis])); return scale(low - 0.08 * (high - low), high + 0.08 * (high - low)); });
  stage.frame({ name: map.axes[0], unit: "", scale: across }, { name: map.axes[1], unit: "", scale: up });
  const context = stage.canvas.getContext("2d"), sharp = stage.canvas.width / stage.box.width;
  map.points.forEach(([x, y], n) => {
    context.fillStyle = hue(map.classes?.[n] ?? 0);
    context.globalAlpha = 0.75;
    context.beginPath();
    context.arc(across.at(x) * stage.canvas.width, (1 - up.at(y)) * stage.canvas.height, 3 * sharp, 0, 7);
    context.fill();
  });
  return { across, up };
}

function legend(map) {
  if (!map.classes) return null;
  const known = [...new Set(map.classes)].sort((a, b) => a - b);
  return h("p", { class: "key" }, known.map((each) => h("span", {}, h("i", { style: { background: `var(--hue${each % 10})` } }), map.labels[each] ?? `class ${each}`)));
}

function still(made, stage, map) {
  const words = `${map.points.length} ${map.split} examples; a code has ${map.dimensions} dimensions. This model has no decoder, so the map cannot be dragged.`;
  fill(made.room, h("figure", { class: "plot" }, stage.node, legend(map), h("figcaption", {}, words)));
  stage.onresize = () => draw(stage, map);
  draw(stage, map);
}

function dragged(made, stage, map, run, example, state, go) {
  const target = h("div", { class: "decoded" }), where = h("p", { class: "note numbers" });
  const way = h("div", { class: "way" }), ends = [state.first, state.second].map((each) => (each === undefined ? null : Number(each)));
  const area = h("div", { class: "area drag", tabindex: 0, role: "application", "aria-label": "Map of codes: arrow keys move the point that is decoded" }, stage.node);
  let point = state.point ? state.point.split(",").map(Number) : [0, 1].map((axis) => map.points.reduce((sum, each) => sum + each[axis], 0) / map.points.length);
  let scales = null, control = null, wanted = null;

  function mark() {
    const [x, y] = [stage.toX(point[0]), stage.toY(point[1])], color = colorOf("ink"), accent = colorOf("second");
    const line = way.points?.map(([a, b]) => `${stage.toX(a)},${stage.toY(b)}`).join(" ");
    fill(stage.over, line ? h("polyline", { points: line, fill: "none", stroke: accent, "stroke-width": 2, "stroke-dasharray": "5 4" }) : null,
      h("circle", { cx: x, cy: y, r: 9, fill: "none", stroke: colorOf("sheet"), "stroke-width": 5 }), h("circle", { cx: x, cy: y, r: 9, fill: "none", stroke: color, "stroke-width": 2.5 }),
      h("circle", { cx: x, cy: y, r: 2, fill: color }));
  }

  // One request at a time: while one is under way, only the latest point waits.
  async function decode() {
    mark();
    where.textContent = `${map.axes[0]} ${number(point[0], 3)}, ${map.axes[1]} ${number(point[1], 3)}`;
    wanted = point;
    if (control) return;
    control = true;
    try {
      while (wanted) {
        const [x, y] = wanted;
        wanted = null;
        const [found] = await get(`/api/runs/${run}/decode`, { split: map.split, x, y, number: example.number });
        fill(target, shown(found, "what the decoder makes of this point"));
      }
      go({ point: point.map((value) => Number(value.toPrecision(4))).join(",") }, { quiet: true });
    } catch (error) { fill(target, h("p", { class: "refusal" }, error.message)); } finally { control = null; }
  }

  async function interpolate() {
    if (ends.some((each) => each === null)) { fill(way, h("p", { class: "note" }, "Click two points of the map with Shift to see the way from one example to the other.")); way.points = null; return; }
    try {
      const found = await get(`/api/runs/${run}/interpolate`, { split: map.split, first: ends[0], second: ends[1], steps: 9 });
      way.points = found.points;
      fill(way, h("h3", {}, "From one example to another"), h("div", { class: "strip even" }, found.examples.map((each, n) => h("figure", { class: "tile" }, shown(each), h("figcaption", {}, number(found.shares[n], 2))))),
        h("p", { class: "note" }, `The straight line between the codes of ${map.split} example ${ends[0]} (true ${found.ends[0].true ?? "unknown"}) and ${ends[1]} (true ${found.ends[1].true ?? "unknown"}), decoded at even steps.`));
      mark();
    } catch (error) { fill(way, h("p", { class: "refusal" }, error.message)); }
  }

  const place = (event) => {
    const box = stage.canvas.getBoundingClientRect();
    return [scales.across.value((event.clientX - box.left) / box.width), scales.up.value(1 - (event.clientY - box.top) / box.height)];
  };

  function nearest(event) {
    let best = null;
    const box = stage.node.getBoundingClientRect();
    map.points.forEach(([x, y], n) => {
      const away = Math.hypot(stage.toX(x) - (event.clientX - box.left), stage.toY(y) - (event.clientY - box.top));
      if (away < NEAR && (!best || away < best.away)) best = { away, number: map.numbers[n] };
    });
    return best?.number ?? null;
  }

  function choose(chosen) {
    if (chosen === null) return;
    if (ends[0] === null || ends[1] !== null) [ends[0], ends[1]] = [chosen, null]; else ends[1] = chosen;
    go({ first: ends[0], second: ends[1] }, { quiet: true });
    interpolate();
  }

  const move = (to) => { point = to; decode(); };
  area.addEventListener("pointerdown", (event) => {
    if (event.shiftKey) { choose(nearest(event)); return; }
    area.setPointerCapture(event.pointerId);
    move(place(event));
  });
  area.addEventListener("pointermove", (event) => { if (area.hasPointerCapture(event.pointerId)) move(place(event)); });
  area.addEventListener("keydown", (event) => {
    const way_ = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowDown: [0, -1], ArrowUp: [0, 1] }[event.key];
    if (!way_) return;
    event.preventDefault();
    const size = [scales.across.high - scales.across.low, scales.up.high - scales.up.low];
    move(point.map((value, axis) => value + way_[axis] * STEP * size[axis]));
    say(where.textContent);
  });
  const pair = h("p", { class: "live-only pick" }, "Way from example ", ...[0, 1].flatMap((n) => {
    const field = h("input", { type: "number", min: 0, value: ends[n] ?? "", "aria-label": n ? "Last example of the way" : "First example of the way", onchange: () => { ends[n] = field.value === "" ? null : Number(field.value); go({ first: ends[0], second: ends[1] }, { quiet: true }); interpolate(); } });
    return [n ? " to " : "", field];
  }));
  const words = `${map.points.length} ${map.split} examples; a code has ${map.dimensions} dimensions${map.dimensions > 2 ? ", and the map is the plane of their first two principal components" : ""}.`;
  fill(made.room, h("div", { class: "side-by-side map" }, h("figure", { class: "plot" }, area, legend(map), h("figcaption", {}, words)), h("div", { class: "decoding" }, h("h3", {}, "Decoded"), target, where)), pair, way);
  stage.onresize = () => { scales = draw(stage, map); mark(); };
  stage.onresize();
  decode();
  interpolate();
}
