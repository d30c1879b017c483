// The jobs of the page: what trains, waits or has failed, with a button that stops it.

import { post } from "./api.js";
import { fill, h } from "./dom.js";
import { listen } from "./live.js";

// jobStrip() -> {node, end()}: empty while there is nothing to say.
export function jobStrip() {
  const node = h("ul", { class: "jobs live-only", "aria-label": "Jobs" });
  const dismissed = new Set();
  let jobs = [];
  function draw() {
    const shown = jobs.filter((job) => ["running", "waiting"].includes(job.status) || (job.status === "failed" && !dismissed.has(job.id)));
    fill(node, shown.map((job) => h("li", { class: job.status, title: job.command }, h("b", {}, `${job.what} ${job.title}`), " ", h("span", {}, job.status === "failed" ? `failed: ${job.said || "its log may say why"}` : job.status),
      job.status === "failed"
        ? h("button", { type: "button", class: "plain", onclick: () => { dismissed.add(job.id); draw(); } }, "Dismiss")
        : h("button", { type: "button", class: "plain", onclick: () => post(`/api/jobs/${job.id}/stop`) }, "Stop"))));
  }
  const end = listen("jobs", (news) => { jobs = news.jobs; draw(); });
  return { node, end };
}
