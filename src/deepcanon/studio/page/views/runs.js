// Runs: what was and is trained here.

import { get } from "../api.js";
import { h } from "../dom.js";

export const title = "Runs";

export async function mount(root) {
  const { runs } = await get("/api/runs");
  root.append(h("h1", {}, "Runs"), h("ul", {}, runs.map((run) => h("li", {}, run.name))));
}
