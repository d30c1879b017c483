// The film of a training: the same pictures at growing steps by the same random numbers, on one slider.

import { picture } from "../api.js";
import { fill, h, number, say } from "../dom.js";
import { choice, panel } from "./subject.js";

const PACE = 700;

export function film(run, films, state, go) {
  const made = panel("Film of the training", "The same pictures at a dozen steps, with the same random numbers: what changes is what was learned.");
  const names = Object.keys(films), name = names.includes(state.film) ? state.film : names.includes("samples") ? "samples" : names[0];
  const steps = films[name], frames = new Map();
  let at = Math.max(0, state.frame === undefined ? steps.length - 1 : steps.indexOf(Number(state.frame))), playing = null, turn = 0;
  const image = h("img", { class: "frame-image", alt: "" }), words = h("figcaption");
  const slider = h("input", { type: "range", min: 0, max: steps.length - 1, step: 1, value: at, "aria-label": "Frame" });
  const play = h("button", { type: "button", onclick: () => (playing ? stop() : begin()) }, "▶ play");

  async function address(step) {
    if (!frames.has(step)) frames.set(step, picture(`/api/runs/${run}/film`, { name, step }));
    return frames.get(step);
  }

  async function show() {
    const mine = ++turn, step = steps[at];
    slider.value = at;
    slider.setAttribute("aria-valuetext", `step ${step}`);
    await made.load(async () => {
      const source = await address(step);
      if (mine !== turn) return;
      image.src = source;
      image.alt = `${name.replaceAll("_", " ")} at step ${step}`;
      words.textContent = `${name.replaceAll("_", " ")} at step ${number(step)} of ${number(steps.at(-1))} (frame ${at + 1} of ${steps.length}).`;
      say(words.textContent);
    });
    go({ film: name, frame: step }, { quiet: true });
    steps.forEach((each) => address(each).catch(() => {}));
  }

  function begin() {
    if (at === steps.length - 1) at = -1;
    play.textContent = "❚❚ pause";
    playing = setInterval(() => { at += 1; show(); if (at >= steps.length - 1) stop(); }, PACE);
  }

  function stop() { clearInterval(playing); playing = null; play.textContent = "▶ play"; }

  slider.addEventListener("input", () => { stop(); at = Number(slider.value); show(); });
  fill(made.tools, names.length > 1 ? choice("Show", names.map((each) => [each, each.replaceAll("_", " ")]), name, (value) => go({ film: value, frame: null })) : null);
  fill(made.room, h("figure", { class: "plot film" }, image, h("div", { class: "film-tools live-only" }, play, slider), words));
  show();
  return { node: made.node, end: stop };
}
