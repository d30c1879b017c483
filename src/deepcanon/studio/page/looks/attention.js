// Attention by head: every head small, one of them large, and what one position attends to.

import { get } from "../api.js";
import { fill, h, number } from "../dom.js";
import { heat } from "../draw.js";
import { check, paint, panel } from "./subject.js";

const FEW = 40;

function square(map, label) {
  const canvas = h("canvas", { class: "pixels", role: "img", "aria-label": label });
  heat(canvas, map.flat(), map[0].length, map.length, { low: 0, high: Math.max(...map.flat()) });
  return canvas;
}

export function attention(run, example, state, go) {
  const made = panel("Attention by head", "Rows attend to columns: each row sums to 1. A head of random weights beside it shows how much of a pattern is the architecture's own.");
  const control = state.heads_random === "1";
  const [layer, head] = (state.head ?? "0.0").split(".").map(Number);
  fill(made.tools, check("random weights beside it", control, (on) => go({ heads_random: on ? "1" : null })));
  made.load(async () => {
    const asked = { split: example.split, number: example.number };
    const [trained, random, image] = await Promise.all([get(`/api/runs/${run}/explain/attention`, asked),
      control ? get(`/api/runs/${run}/explain/attention`, { ...asked, control: 1 }) : null, example.ready]);
    const [l, k] = [Math.min(layer || 0, trained.layers - 1), Math.min(head || 0, trained.heads - 1)];
    const heads = trained.maps.map((maps, i) => h("div", { class: "strip" }, h("span", { class: "strip-name" }, `layer ${i + 1}`), maps.map((map, j) =>
      h("button", { type: "button", class: "tile head-tile", "aria-pressed": i === l && j === k, title: `layer ${i + 1}, head ${j + 1}`, onclick: () => go({ head: `${i}.${j}` }) },
        square(map, `layer ${i + 1}, head ${j + 1}`), h("small", {}, `head ${j + 1}`)))));
    const shown = h("div", { class: "side-by-side wide" },
      large(trained, l, k, `layer ${l + 1}, head ${k + 1}`, image, state, go), random ? large(random, l, k, "random weights", image, state, go) : null);
    fill(made.room, h("div", { class: "heads" }, heads), shown);
  });
  return made.node;
}

// One head, with the names of positions; a click on a position shows where it attends to.
function large(found, layer, head, title, image, state, go) {
  const map = found.maps[layer][head], names = found.names, count = names.length;
  const query = Math.min(count - 1, Math.max(0, Number.parseInt(state.query ?? String(count - 1), 10) || 0));
  const canvas = square(map, title), weights = map[query];
  const strongest = weights.indexOf(Math.max(...weights));
  canvas.classList.add("attention-map");
  canvas.addEventListener("click", (event) => {
    const box = canvas.getBoundingClientRect();
    go({ query: String(Math.min(count - 1, Math.floor(((event.clientY - box.top) / box.height) * count))) });
  });
  const most = Math.max(...weights, 1e-30);
  const tokens = count <= FEW * 4 && image.kind !== "image" ? h("p", { class: "words" }, names.map((name, n) => {
    const mark = h("button", { type: "button", class: n === query ? "word query" : "word", title: `${number(weights[n], 3)} of the attention of position ${query + 1}`, onclick: () => go({ query: String(n) }) }, name === " " ? "␣" : name === "\n" ? "⏎" : name || String(n + 1));
    mark.style.setProperty("--share", `${Math.round((100 * weights[n]) / most)}%`);
    return mark;
  })) : null;
  const words = `${title}: position ${query + 1}${names[query] ? ` (${names[query]})` : ""} attends most to position ${strongest + 1}${names[strongest] ? ` (${names[strongest]})` : ""}, ${number(weights[strongest], 3)}.`;
  return h("figure", { class: "tile attention-large" }, h("div", { class: "attention-pair" }, canvas, image.kind === "image" ? patches(image, names, weights, query, go) : null), tokens,
    h("figcaption", {}, words));
}

// The attention of one position on the patches of an image; the class token, where there is one, has no place in it.
function patches(image, names, weights, query, go) {
  const tokens = names.filter((name) => name === "<class>").length, side = Math.round(Math.sqrt(names.length - tokens));
  const most = Math.max(...weights.slice(tokens), 1e-30);
  const cells = h("div", { class: "patches", style: { "--side": side } }, names.slice(tokens).map((name, n) => {
    const patch = h("button", { type: "button", class: n + tokens === query ? "patch query" : "patch", title: `patch ${name}: ${number(weights[n + tokens], 3)}`, "aria-label": `patch ${name}`, onclick: () => go({ query: String(n + tokens) }) });
    patch.style.setProperty("--share", `${Math.round((88 * weights[n + tokens]) / most)}%`);
    return patch;
  }));
  return h("div", { class: "patched" }, paint(h("canvas", { class: "pixels" }), image), cells);
}
