// A picture of curves: drag or + and − zoom, pointing or arrows read a value, a button shows the numbers as a table.

import { Stage, colorOf, hue, scale } from "./axes.js";
import { fill, h, number } from "./dom.js";
import { ink } from "./raster.js";
import { savePng } from "./save.js";

const dots = (n) => n >= 10;

// curves({x: {name, unit}, y: {name, unit}, log, height, label, onZoom(from, to), onPick(key)}) ->
// {node, draw(series, {from, to}), axes(x, y, label), log(on), point(key), end()}. series: [{key, name, number, x, low, mean, high, faint}]; `number` chooses color
// and dashes; low and high may be missing. onZoom(null, null) asks for everything.
export function curves(options) {
  const stage = new Stage({ height: options.height ?? 320, label: options.label ?? "" });
  const keys = () => `${options.label ?? "Curves"}: arrows read values, plus and minus zoom, Escape shows everything`;
  const tip = h("div", { class: "tip", hidden: true });
  const caption = h("figcaption");
  const numbers = h("div", { class: "behind", hidden: true });
  const tools = h("div", { class: "tools" },
    h("button", { type: "button", class: "plain", onclick: () => zoomBy(0.5), title: "Zoom in (+)" }, "+"),
    h("button", { type: "button", class: "plain", onclick: () => zoomBy(2), title: "Zoom out (−)" }, "−"),
    h("button", { type: "button", class: "plain", onclick: () => options.onZoom?.(null, null), title: "Show everything (Esc)" }, "all"),
    h("button", { type: "button", class: "plain", onclick: toggleNumbers, title: "The numbers as a table" }, "numbers"),
    h("button", { type: "button", class: "plain", onclick: () => savePng(node, options.y.name), title: "Save this picture" }, "PNG"));
  const area = h("div", { class: "area", tabindex: 0, role: "group", "aria-label": keys() }, stage.node, tip);
  const node = h("figure", { class: "plot" }, tools, area, caption, numbers);
  let series = [], range = {}, log = Boolean(options.log), front = -1, cursor = null, drag = null, place = null;

  function draw(given, span = {}) {
    const key = series[front]?.key;
    series = given.map((one) => ({ ...one, dashed: one.dashed ?? dots(one.number) }));
    range = span;
    front = key === undefined ? -1 : series.findIndex((one) => one.key === key);
    redraw();
  }

  function redraw() {
    if (!node.isConnected && !stage.width) requestAnimationFrame(() => { if (node.isConnected) redraw(); });
    let [from, to, low, high] = [range.from ?? Infinity, range.to ?? -Infinity, Infinity, -Infinity];
    for (const one of series) {
      for (let i = 0; i < one.mean.length; i += 1) {
        const value = one.mean[i];
        if (Number.isNaN(value)) continue;
        if (range.from === undefined) { if (one.x[i] < from) from = one.x[i]; if (one.x[i] > to) to = one.x[i]; }
        const bottom = one.low ? one.low[i] : value, top = one.high ? one.high[i] : value;
        if (bottom < low && (!log || bottom > 0)) low = bottom;
        if (top > high) high = top;
      }
    }
    if (!(high >= low)) [low, high] = [0, 1];
    if (!(to >= from)) [from, to] = [0, 1];
    const room = log ? 1 : (high - low) * 0.04;
    const across = scale(from, to), up = scale(log ? low : low - room, log ? high : high + room, log);
    stage.frame({ ...options.x, scale: across }, { ...options.y, scale: up });
    const sharp = stage.canvas.width / stage.box.width || 1, { width, height } = stage.canvas;
    const bottom = up.low, rise = height / (log ? Math.log10(up.high / bottom) : up.high - bottom);
    place = { x: (value) => across.at(value) * width, y: log ? (value) => height - rise * Math.log10(Math.max(value, bottom) / bottom) : (value) => height - rise * (value - bottom), sharp };
    const hues = Array.from({ length: 10 }, (_, n) => hue(n));
    for (const one of series) one.color = hues.at(one.number % 10);
    ink(stage.canvas, series, place, front);
    if (!numbers.hidden) fillNumbers();
    mark();
  }

  // The value of a series nearest to a place on the x axis, as an index.
  function nearest(one, value) {
    let best = -1, gap = Infinity;
    for (let i = 0; i < one.mean.length; i += 1) {
      if (Number.isNaN(one.mean[i])) continue;
      const far = Math.abs(one.x[i] - value);
      if (far < gap) { gap = far; best = i; }
    }
    return best;
  }

  function mark() {
    fill(stage.over);
    tip.hidden = !cursor || front < 0;
    if (drag) {
      const [left, right] = [Math.min(drag.from, drag.to), Math.max(drag.from, drag.to)];
      stage.over.append(h("rect", { x: left, y: stage.box.top, width: right - left, height: stage.box.height, fill: colorOf("accent"), opacity: 0.15 }));
    }
    if (tip.hidden) return;
    const one = series[front], i = cursor.index;
    if (!(i >= 0) || i >= one.mean.length || Number.isNaN(one.mean[i])) { tip.hidden = true; return; }
    const x = stage.toX(one.x[i]), y = stage.box.top + place.y(one.mean[i]) / place.sharp;
    stage.over.append(h("line", { x1: x, x2: x, y1: stage.box.top, y2: stage.box.top + stage.box.height, stroke: colorOf("muted"), "stroke-dasharray": "3 3" }),
      h("circle", { cx: x, cy: y, r: 4, fill: one.color, stroke: colorOf("sheet"), "stroke-width": 1.5 }));
    const spread = one.low && one.high[i] > one.low[i] ? ` (${number(one.low[i])} to ${number(one.high[i])})` : "";
    fill(tip, h("b", {}, one.name), h("span", {}, `${options.x.name} ${number(Math.round(one.x[i] * 1000) / 1000, 6)}: ${number(one.mean[i])}${spread}`));
    const inside = Math.min(Math.max(0, x + 12), Math.max(0, stage.width - tip.offsetWidth - 4));
    tip.style.setProperty("left", `${x + 12 + tip.offsetWidth > stage.width ? Math.max(0, x - tip.offsetWidth - 12) : inside}px`);
    tip.style.setProperty("top", `${Math.max(0, Math.min(y - 20, stage.height - 70))}px`);
  }

  function pointAt(event) {
    const bounds = area.getBoundingClientRect(), x = event.clientX - bounds.left, y = event.clientY - bounds.top;
    const value = stage.x.scale.value((x - stage.box.left) / stage.box.width);
    let best = -1, gap = Infinity, index = -1;
    series.forEach((one, n) => {
      const i = nearest(one, value);
      if (i < 0) return;
      const far = Math.abs(stage.box.top + place.y(one.mean[i]) / place.sharp - y) + Math.abs(stage.toX(one.x[i]) - x) / 4;
      if (far < gap) { gap = far; best = n; index = i; }
    });
    return { best: gap < 60 ? best : -1, index, x };
  }

  function turnTo(n, index) {
    const changed = n !== front;
    front = n;
    cursor = n < 0 ? null : { index };
    if (changed) { ink(stage.canvas, series, place, front); options.onPoint?.(series[front]?.key ?? null); }
    mark();
  }

  area.addEventListener("pointermove", (event) => {
    if (!place) return;
    if (drag) { drag.to = Math.max(stage.box.left, Math.min(stage.box.left + stage.box.width, event.clientX - area.getBoundingClientRect().left)); mark(); return; }
    const { best, index } = pointAt(event);
    turnTo(best, index);
  });
  area.addEventListener("pointerleave", () => { if (!drag) turnTo(-1); });
  area.addEventListener("pointerdown", (event) => {
    if (!options.onZoom || event.button !== 0 || !place || event.pointerType === "touch") return;
    const x = event.clientX - area.getBoundingClientRect().left;
    drag = { from: x, to: x };
    area.setPointerCapture(event.pointerId);
  });
  area.addEventListener("pointerup", (event) => {
    if (!drag) return;
    const { from, to } = drag;
    drag = null;
    mark();
    if (Math.abs(to - from) < 5) { const { best } = pointAt(event); if (best >= 0) options.onPick?.(series[best].key); return; }
    const [low, high] = [from, to].sort((a, b) => a - b).map((x) => stage.x.scale.value((x - stage.box.left) / stage.box.width));
    options.onZoom(low, high);
  });
  area.addEventListener("dblclick", () => options.onZoom?.(null, null));
  area.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key], turn = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (event.key === "+" || event.key === "=") zoomBy(0.5);
    else if (event.key === "-") zoomBy(2);
    else if (event.key === "Escape") { turnTo(-1); options.onZoom?.(null, null); }
    else if (series.length && turn) turnTo((Math.max(front, 0) + turn + series.length) % series.length, cursor?.index ?? 0);
    else if (series.length && move) {
      const n = Math.max(front, 0), { mean } = series[n];
      let index = (cursor?.index ?? (move > 0 ? -1 : mean.length)) + move * (event.shiftKey ? 20 : 1);
      while (index >= 0 && index < mean.length && Number.isNaN(mean[index])) index += move;
      turnTo(n, Math.max(0, Math.min(mean.length - 1, index)));
    } else return;
    event.preventDefault();
  });

  function zoomBy(factor) {
    if (!options.onZoom || !stage.x) return;
    const { low, high } = stage.x.scale;
    const middle = front >= 0 && cursor ? series[front].x[cursor.index] : (low + high) / 2, half = ((high - low) / 2) * factor;
    options.onZoom(middle - half, middle + half);
  }

  function toggleNumbers() {
    numbers.hidden = !numbers.hidden;
    if (!numbers.hidden) fillNumbers();
  }

  function fillNumbers() {
    const rows = series.map((one) => {
      const there = Array.from(one.mean).map((value, i) => i).filter((i) => !Number.isNaN(one.mean[i]));
      const last = there.at(-1), low = one.low ?? one.mean, high = one.high ?? one.mean;
      return h("tr", {}, h("th", { scope: "row" }, one.name), ...[one.x[last], one.mean[last], Math.min(...there.map((i) => low[i])), Math.max(...there.map((i) => high[i]))].map((value) => h("td", {}, number(value))));
    });
    fill(numbers, h("table", {}, h("thead", {}, h("tr", {}, ["curve", `last ${options.x.name}`, "last", "smallest", "largest"].map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, rows)));
  }

  // What the axes are: what is drawn next has them.
  function axes(x, y, label) {
    Object.assign(options, { x, y, label });
    stage.svg.setAttribute("aria-label", label);
    area.setAttribute("aria-label", keys());
  }

  stage.onresize = () => { if (node.isConnected) redraw(); };
  return {
    node, caption, draw, axes,
    say: (sentence) => { caption.textContent = sentence; },
    log: (on) => { log = on; redraw(); },
    point: (key) => { const n = series.findIndex((one) => one.key === key); if (n !== front && place) { front = n; cursor = null; ink(stage.canvas, series, place, front); mark(); } },
    end: () => stage.end(),
  };
}
