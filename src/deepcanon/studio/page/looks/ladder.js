// The ladder of a comparison: a block for each kind of evidence on one scale, a row for each model, a dot for each seed.

import { h, number } from "../dom.js";
import { scale, ticks, tickTexts } from "../draw.js";

const ROW = 26, LEFT = 190, RIGHT = 70, WIDTH = 760;

// Values far below the others would press them together: they are drawn at the edge, with their number beside them.
function bounds(values) {
  const sorted = [...values].sort((a, b) => a - b), middle = sorted[Math.floor(sorted.length / 2)], best = sorted.at(-1), worst = sorted[0];
  const room = Math.max(best - middle, middle - worst ? Math.min(middle - worst, 3 * (best - middle || middle - worst)) : 0, Math.abs(best) * 1e-3, 1e-9);
  return [Math.max(worst, middle - 3 * room) - 0.05 * room, best + 0.08 * (best - Math.max(worst, middle - 3 * room) || room)];
}

export function ladder(found) {
  const values = found.groups.flatMap((group) => group.rows.flatMap((row) => row.seeds.map((seed) => seed.value)));
  if (!values.length) return null;
  const signed = found.better === "low" ? values.map((value) => -value) : values;
  const [low, high] = bounds(signed);
  const across = scale(low, high), width = WIDTH - LEFT - RIGHT;
  const at = (value) => LEFT + width * Math.max(0, Math.min(1, across.at(found.better === "low" ? -value : value)));
  const parts = [];
  let y = 8;
  for (const group of found.groups) {
    parts.push(h("text", { class: "ladder-kind", x: 0, y: y + 14 }, group.kind), group.meaning && group.meaning !== group.kind ? h("text", { class: "ladder-note", x: LEFT, y: y + 14 }, group.meaning) : null);
    y += 24;
    for (const row of group.rows) {
      const middle = y + ROW / 2, bound = group.kind.startsWith("lower bound");
      parts.push(h("line", { class: "rung", x1: LEFT, x2: LEFT + width, y1: middle, y2: middle }),
        h("text", { class: "ladder-name", x: LEFT - 10, y: middle + 4, "text-anchor": "end" }, row.label.length > 26 ? `${row.label.slice(0, 25)}…` : row.label),
        row.seeds.map((seed) => h("circle", { class: `dot ${row.baseline ? "of-baseline" : ""} ${group.kind === "exact" || !bound && found.unit === "" ? "" : "open"}`, cx: at(seed.value), cy: middle, r: 5.5 }, h("title", {}, `seed ${seed.seed}: ${number(seed.value, 5)}`))),
        bound ? h("text", { class: "ladder-arrow", x: Math.max(...row.seeds.map((seed) => at(seed.value))) + 9, y: middle + 4 }, "→") : null,
        h("text", { class: "ladder-value", x: LEFT + width + 10, y: middle + 4 }, row.text));
      y += ROW;
    }
    y += 8;
  }
  const marks = ticks(across, 5), words = tickTexts(marks.map((value) => (found.better === "low" ? -value : value)));
  const shown = marks.map((value, n) => {
    const place = LEFT + width * across.at(value);
    return [h("line", { class: "ladder-grid", x1: place, x2: place, y1: 8, y2: y }), h("text", { class: "ladder-note", x: place, y: y + 15, "text-anchor": "middle" }, words[n])];
  });
  const direction = found.better === "high" ? ", higher is better →" : found.better === "low" ? ", lower is better →" : "";
  const name = h("text", { class: "axis-name ladder-note", x: LEFT + width / 2, y: y + 33, "text-anchor": "middle" }, `${found.title}${found.unit ? ` (${found.unit})` : ""}${direction}`);
  return h("figure", { class: "plot ladder" },
    h("div", { class: "scroll" }, h("svg", { viewBox: `0 0 ${WIDTH} ${y + 40}`, role: "img", "aria-label": `Ladder: ${found.title}` }, shown, parts, name)),
    h("figcaption", {}, `${best(found)} One dot for each seed, gray of baselines; kinds of evidence stand apart, since a bound, an estimate and an exact value cannot be ranked against each other.`));
}

function best(found) {
  const sign = found.better === "low" ? -1 : 1;
  return found.groups.map((group) => {
    const first = [...group.rows].sort((a, b) => sign * (b.mean - a.mean))[0];
    return `Best ${found.unit ? `(${group.kind})` : ""} ${first.label}: ${first.text}.`.replace("  ", " ");
  }).join(" ");
}
