// What is seen, in words.

import { number } from "../dom.js";

export const titles = {
  classes: "classes", mean: "predicted mean", discriminator: "discriminator", density: "density", energy: "energy", grid: "grid of noise", score: "score",
  reconstruction: "reconstruction", fakes: "generated points", samples: "samples", pseudo_labels: "pseudo-labels", network: "neurons",
  reverse: "reverse process", langevin: "Langevin dynamics",
};

const drawn = (look) => (look.classes?.length ? "Larger points, in the color of the class that they were asked for, are" : "Orange points are");

const of = {
  classes: () => "Color is the most probable class, the stronger the surer.",
  mean: (look) => `Color is the predicted mean, from ${number(look.low)} to ${number(look.high)}.`,
  discriminator: () => "Blue is where the discriminator sees data, orange where it sees fakes.",
  density: (look) => `Blue is the density; its highest value here has the logarithm ${number(look.highest)} nats${look.likelihood === "exact" ? "" : ` (${look.likelihood})`}.`,
  energy: (look) => `Color is the energy, from ${number(look.low)} to ${number(look.high)}.`,
  grid: () => "The lines are a square grid of noise, bent by the flow.",
  score: () => "Arrows are the score: they point where the density grows.",
  reconstruction: () => "Arrows lead to reconstructions.",
  fakes: (look) => `${drawn(look)} generated, from the same noise each time; on each, the gradient of the discriminator's number, which pushes it.`,
  samples: (look) => `${drawn(look)} samples, from the same noise each time.`,
  pseudo_labels: (look) => `Large points have labels; the others wear the class that the model gives them, ${number(look.probability.filter((each) => each >= 0.95).length)} of ${number(look.probability.length)} with a probability of at least 0.95.`,
};

// What the picture shows, and how well the model does.
export function sentence(scene, frame) {
  const shown = Object.entries(frame.looks).map(([name, look]) => (look.kind === "refused" ? `${titles[name] ?? name}: ${look.says}.` : `${of[name]?.(look) ?? ""}${look.of_step === undefined ? "" : ` (Of step ${number(look.of_step)}: it takes long.)`}`));
  const accuracy = frame.valid?.accuracy;
  const begin = accuracy === undefined || accuracy === null ? "" : `${number(100 * accuracy, 4)} % of the validation points are right. `;
  const moving = frame.moving ? ` Moving points: ${frame.moving.says}.` : "";
  return `${begin}${shown.join(" ")}${moving}`.trim() || scene.says;
}
