// Scales, ticks and the frame of a picture, in SVG: text stays sharp, and the ink below it is a canvas.

import { fill, h, number } from "./dom.js";

// A scale takes values to shares of an axis, 0 to 1, and back.
export function scale(low, high, log = false) {
  if (log && !(low > 0)) low = high > 0 ? high / 1e6 : 1;
  if (!(high > low)) { const room = Math.abs(low) * 0.05 || 1; [low, high] = log ? [low / 2, low * 2] : [low - room, low + room]; }
  const [from, to] = log ? [Math.log10(low), Math.log10(high)] : [low, high];
  return {
    low, high, log,
    at: (value) => ((log ? Math.log10(value) : value) - from) / (to - from),
    value: (share) => { const place = from + share * (to - from); return log ? 10 ** place : place; },
  };
}

// Round numbers on a scale, about so many: powers of ten where it is logarithmic and wide.
export function ticks(of, about = 5) {
  if (of.log) {
    const decades = [];
    const every = Math.max(1, Math.ceil((Math.log10(of.high) - Math.log10(of.low)) / about));
    for (let power = Math.ceil(Math.log10(of.low) - 1e-9); power <= Math.log10(of.high) + 1e-9; power += every) decades.push(10 ** power);
    if (decades.length > 1) return decades;
    const between = [];
    for (let power = Math.floor(Math.log10(of.low)); power <= Math.log10(of.high); power += 1) between.push(...[1, 2, 5].map((digit) => digit * 10 ** power).filter((value) => value >= of.low && value <= of.high));
    if (between.length > 1) return between;
  }
  const rough = (of.high - of.low) / about, size = 10 ** Math.floor(Math.log10(rough));
  const step = size * ([1, 2, 5, 10].find((each) => each * size >= rough) ?? 10);
  const found = [];
  for (let count = Math.ceil(of.low / step - 1e-9); count * step <= of.high + step * 1e-9; count += 1) found.push(count * step);
  return found;
}

function tickText(value) {
  const size = Math.abs(value);
  if (size >= 1e6) return `${number(value / 1e6, 4)}M`;
  if (size >= 1e4) return `${number(value / 1e3, 4)}k`;
  return number(Number(value.toPrecision(6)), 4);
}

// The texts of ticks, with as many digits as tell them apart.
export function tickTexts(values) {
  const texts = values.map(tickText);
  return new Set(texts).size === texts.length ? texts : values.map((value) => number(Number(value.toPrecision(10)), 8));
}

export function colorOf(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

// The color of series number n; above ten, dashes tell them apart.
export function hue(n) {
  return colorOf(`hue${((n % 10) + 10) % 10}`);
}

// A stage: a canvas for ink and an SVG for axes over it, which fit themselves to their place.
// x and y are {name, unit, scale}; frame() draws them and returns how to get from values to pixels.
export class Stage {
  constructor({ height = 320, label = "" } = {}) {
    this.canvas = h("canvas", { "aria-hidden": "true" });
    this.svg = h("svg", { role: "img", "aria-label": label });
    this.node = h("div", { class: "stage", style: { height: `${height}px` } }, this.svg, this.canvas);
    this.height = height;
    this.onresize = () => {};
    this.watcher = new ResizeObserver(() => { if (this.node.clientWidth !== this.width) this.onresize(); });
    this.watcher.observe(this.node);
    this.theme = matchMedia("(prefers-color-scheme: dark)");
    this.changed = () => this.onresize();
    this.theme.addEventListener("change", this.changed);
  }

  frame(x, y) {
    const width = (this.width = Math.max(160, this.node.clientWidth)), height = this.height;
    const rows = ticks(y.scale, Math.max(2, Math.round(height / 60))), words = tickTexts(rows), labels = rows.map((value, n) => [value, words[n]]);
    const left = 30 + 6.6 * Math.max(2, ...labels.map(([, text]) => text.length)), right = 12, top = 10, bottom = 42;
    const box = (this.box = { left, top, width: width - left - right, height: height - top - bottom });
    this.toX = (value) => left + box.width * x.scale.at(value);
    this.toY = (value) => top + box.height * (1 - y.scale.at(value));
    this.x = x;
    this.y = y;
    const muted = colorOf("muted"), line = colorOf("line");
    const text = (where, anchor, words, more = {}) => h("text", { ...where, "text-anchor": anchor, fill: muted, "font-size": 12, "font-family": "system-ui, sans-serif", ...more }, words);
    const parts = [];
    for (const [value, words] of labels) {
      const place = this.toY(value);
      parts.push(h("line", { x1: left, x2: left + box.width, y1: place, y2: place, stroke: line }));
      parts.push(text({ x: left - 6, y: place + 4 }, "end", words));
    }
    const columns = ticks(x.scale, Math.max(2, Math.round(box.width / 110))), below = tickTexts(columns);
    for (const [n, value] of columns.entries()) {
      const place = this.toX(value);
      parts.push(h("line", { x1: place, x2: place, y1: top + box.height, y2: top + box.height + 4, stroke: muted }));
      parts.push(text({ x: place, y: top + box.height + 17 }, "middle", below[n]));
    }
    parts.push(h("line", { x1: left, x2: left + box.width, y1: top + box.height, y2: top + box.height, stroke: muted }));
    const named = (axis) => `${axis.name}${axis.unit ? ` (${axis.unit})` : ""}${axis.scale.log ? ", log scale" : ""}`;
    parts.push(text({ x: left + box.width / 2, y: height - 6 }, "middle", named(x), { class: "axis-name" }));
    const middle = top + box.height / 2;
    parts.push(text({ x: 12, y: middle }, "middle", named(y), { transform: `rotate(-90 12 ${middle})`, class: "axis-name" }));
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.over = h("g");
    fill(this.svg, parts, this.over);
    const sharp = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(box.width * sharp);
    this.canvas.height = Math.round(box.height * sharp);
    for (const [key, value] of Object.entries({ left: box.left, top: box.top, width: box.width, height: box.height })) {
      this.canvas.style.setProperty(key, `${value}px`);
    }
    return box;
  }

  end() {
    this.watcher.disconnect();
    this.theme.removeEventListener("change", this.changed);
  }
}
