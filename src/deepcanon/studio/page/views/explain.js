// Explain and latent: what a model sees in an example, and the space of its codes. The run decides which panels there are.

import { get } from "../api.js";
import { fill, h } from "../dom.js";
import { attention } from "../looks/attention.js";
import { film } from "../looks/film.js";
import { latent } from "../looks/latent.js";
import { activations, gradCam, receptiveField } from "../looks/maps.js";
import { examplePicker, noRuns, opening, runPicker } from "../looks/subject.js";
import { nextToken } from "../looks/tokens.js";
import { saveButton } from "../save.js";

export const title = "Explain and latent";

const OF_EXAMPLES = ["activations", "grad_cam", "receptive_field", "attention", "latent"];

export async function mount(root, state, go) {
  const picker = await runPicker(state.id, (id) => go({ id }, { view: "explain" }));
  if (picker.empty) { root.append(h("h1", {}, title), noRuns()); return () => {}; }
  const head = h("div", { class: "look-head" }, h("h1", {}, title), picker.node, saveButton(root, () => `explain ${picker.name}`));
  const room = h("div", { class: "looks" });
  root.append(head, room);
  const about = await opening(room, get(`/api/runs/${picker.id}/explain`));
  if (!about) return () => {};
  const ends = [], offered = new Set(about.panels);
  let example = null;
  if (OF_EXAMPLES.some((name) => offered.has(name))) {
    example = examplePicker(picker.id, about.splits, state, (chosen) => go({ ...chosen, query: null }));
    head.append(example.node);
  }
  const take = (made) => { if (made.end) ends.push(made.end); return made.node ?? made; };
  const panels = {
    film: () => film(picker.id, about.films, state, go),
    latent: () => latent(picker.id, example, state, go),
    grad_cam: () => gradCam(picker.id, example, about, state, go),
    activations: () => activations(picker.id, example, state, go),
    receptive_field: () => receptiveField(picker.id, example, state, go),
    attention: () => attention(picker.id, example, state, go),
    next_token: () => nextToken(picker.id, state, go),
  };
  fill(room, Object.keys(panels).filter((name) => offered.has(name)).map((name) => take(panels[name]())));
  if (!offered.size) {
    room.append(h("p", { class: "card note" }, `${about.model} on ${about.data} offers nothing to look at here: it has no convolutions over images, no attention maps, no codes and no text. A film is drawn by `,
      h("code", {}, "deepcanon train … --film"), "; the ", h("a", { href: `#/microscope?id=${picker.id}` }, "microscope"), " works for every run."));
  }
  return () => ends.forEach((end) => end());
}
