// Pictures: curves, maps of values, points and bars. Each has named axes, and colors that follow the page.

import { Stage, colorOf, hue, scale } from "./axes.js";
import { fill, h, number } from "./dom.js";

export { Stage, colorOf, hue, scale, tickTexts, ticks } from "./axes.js";
export { curves } from "./curves.js";
export { ink } from "./raster.js";

const rgb = (color) => [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16));
const DIVERGING = ["#b2440a", "#f0a05a", "#f7f7f7", "#6fb0d8", "#0b5f94"].map(rgb);
const SEQUENTIAL = ["#fbfdff", "#cfe3f1", "#6fb0d8", "#0072b2", "#003a5c"].map(rgb);

// The color of a share, 0 to 1, as [r, g, b].
export function shade(share, diverging = false) {
  const stops = diverging ? DIVERGING : SEQUENTIAL;
  const place = Math.max(0, Math.min(1, share)) * (stops.length - 1), at = Math.min(stops.length - 2, Math.floor(place)), rest = place - at;
  return stops[at].map((value, n) => value + (stops[at + 1][n] - value) * rest);
}

// A map of values, row by row from the top, one pixel each (CSS sizes it): {low, high, diverging}; without bounds, those of the values.
export function heat(canvas, values, width, height, { low, high, diverging = false } = {}) {
  let [bottom, top] = [low ?? Infinity, high ?? -Infinity];
  if (low === undefined || high === undefined) for (const value of values) { if (low === undefined && value < bottom) bottom = value; if (high === undefined && value > top) top = value; }
  if (diverging && low === undefined) { top = Math.max(Math.abs(bottom), Math.abs(top)); bottom = -top; }
  const shades = new Uint8ClampedArray(256 * 3);
  for (let n = 0; n < 256; n += 1) shades.set(shade(n / 255, diverging), 3 * n);
  canvas.width = width;
  canvas.height = height;
  const image = new ImageData(width, height), span = top - bottom || 1;
  for (let i = 0; i < width * height; i += 1) {
    const n = Math.max(0, Math.min(255, Math.round((255 * (values[i] - bottom)) / span)));
    image.data.set([shades[3 * n], shades[3 * n + 1], shades[3 * n + 2], Number.isNaN(values[i]) ? 0 : 255], 4 * i);
  }
  canvas.getContext("2d").putImageData(image, 0, 0);
  return { low: bottom, high: top };
}

function figure(stage, redraw) {
  const caption = h("figcaption");
  const node = h("figure", { class: "plot" }, h("div", { class: "area" }, stage.node), caption);
  stage.onresize = () => { if (node.isConnected) redraw(); };
  return { node, stage, say: (sentence) => { caption.textContent = sentence; }, end: () => stage.end() };
}

const bounds = (values) => [values.reduce((a, b) => Math.min(a, b), Infinity), values.reduce((a, b) => Math.max(a, b), -Infinity)];

// scatter({x: {name, unit}, y: {name, unit}, height, range}) -> {node, draw(points)}; points: {x, y, number (color), label, size, open}.
export function scatter(options) {
  const stage = new Stage({ height: options.height ?? 320, label: options.label ?? "" });
  let points = [];
  const made = figure(stage, redraw);
  function redraw() {
    const ranges = ["x", "y"].map((axis) => options.range?.[axis] ?? bounds(points.map((point) => point[axis])));
    const [across, up] = ranges.map(([low, high]) => scale(low - (high - low) * 0.03, high + (high - low) * 0.03));
    stage.frame({ ...options.x, scale: across }, { ...options.y, scale: up });
    const context = stage.canvas.getContext("2d"), sharp = stage.canvas.width / stage.box.width;
    for (const point of points) {
      context.fillStyle = context.strokeStyle = hue(point.number ?? 0);
      context.globalAlpha = point.open ? 1 : 0.8;
      context.lineWidth = 1.5 * sharp;
      context.beginPath();
      context.arc(across.at(point.x) * stage.canvas.width, (1 - up.at(point.y)) * stage.canvas.height, (point.size ?? 3) * sharp, 0, 7);
      if (point.open) context.stroke(); else context.fill();
    }
    context.globalAlpha = 1;
    for (const point of points.filter((each) => each.label)) {
      stage.over.append(h("text", { x: stage.toX(point.x) + 6, y: stage.toY(point.y) + 4, fill: colorOf("ink"), "font-size": 12, "font-family": "system-ui, sans-serif" }, point.label));
    }
  }
  return { ...made, draw: (given) => { points = given; redraw(); } };
}

// bars({name, unit}) -> {node, draw([{name, value, number, note}])}: one row each, readable on a phone, numbers beside them.
export function bars({ name = "", unit = "", digits = 4, high: most } = {}) {
  const body = h("div", { class: "bars", role: "list" }), caption = h("figcaption");
  const node = h("figure", { class: "plot" }, name ? h("p", { class: "note" }, `${name}${unit ? ` (${unit})` : ""}`) : null, body, caption);
  return {
    node,
    say: (sentence) => { caption.textContent = sentence; },
    end: () => {},
    draw: (rows) => {
      const [low, high] = bounds([0, ...(most === undefined ? [] : [most]), ...rows.map((row) => row.value).filter(Number.isFinite)]);
      const span = high - low || 1;
      fill(body, rows.map((row) => h("div", { class: "bar", role: "listitem" }, h("span", { class: "bar-name" }, row.name),
        h("span", { class: "bar-room" }, h("i", { style: { left: `${(100 * (Math.min(0, row.value) - low)) / span}%`, width: `${(100 * Math.abs(row.value || 0)) / span}%`, background: hue(row.number ?? 0) } })),
        h("span", { class: "bar-value" }, number(row.value, digits), row.note ? ` ${row.note}` : ""))));
    },
  };
}
