// Curves from the server: a head in JSON, then the smallest, mean and largest value of every bucket as numbers.

import { getBytes } from "./api.js";

// getCurves({name, against, runs: [ids] or groups: [[ids]], from, to, width}) -> {head, curves: [{x, low, mean, high}]}.
export async function getCurves({ runs, groups, ...asked }, options) {
  const chosen = groups ? { groups: groups.map((ids) => ids.join(".")).join(",") } : { runs: runs.join(",") };
  const buffer = await getBytes("/api/curves", { ...asked, ...chosen }, options);
  const length = new DataView(buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const numbers = new Float32Array(buffer, 4 + length);
  const x = Float64Array.from({ length: head.width }, (_, n) => head.start + n * head.size);
  const count = (head.runs ?? head.groups).length;
  const part = (n, k) => numbers.subarray((3 * n + k) * head.width, (3 * n + k + 1) * head.width);
  const curves = Array.from({ length: count }, (_, n) => ({ x, low: part(n, 0), mean: part(n, 1), high: part(n, 2) }));
  return { head, curves };
}

// The name of a curve as an axis has it, with its unit where it is known.
export function axisOf(name) {
  const [kind, ...rest] = name.split("."), what = rest.join(".");
  const unit = { nll: "nats", kl: "nats", seconds: "s" }[what || kind] ?? "";
  const named = { loss: "training loss", lr: "learning rate", grad_norm: "norm of the gradient" }[name] ?? (kind === "valid" ? `validation ${what}` : `training ${what}`);
  return { name: named.replaceAll("_", " "), unit };
}
