// One stream of what changes in the folder, shared by all that listens; closed while the tab is hidden, opened again when it is seen.

import { stream } from "./api.js";

const listeners = new Map();
let close = null, retry = 0, timer = null;

// listen("runs", (data) => ...) -> a function that ends it. Kinds: "runs", "jobs", and "hello" at each (new) beginning.
export function listen(kind, handler) {
  if (!listeners.has(kind)) listeners.set(kind, new Set());
  listeners.get(kind).add(handler);
  open();
  return () => {
    listeners.get(kind).delete(handler);
    if ([...listeners.values()].every((each) => each.size === 0)) shut();
  };
}

function open() {
  if (close || document.hidden) return;
  clearTimeout(timer);
  show("connecting");
  close = stream("/api/live", (kind, data) => {
    retry = 0;
    show("live");
    for (const handler of listeners.get(kind) ?? []) handler(data);
  }, () => {
    close = null;
    show("lost");
    timer = setTimeout(open, Math.min(8000, 500 * 2 ** retry++));
  });
}

function shut() {
  clearTimeout(timer);
  close?.();
  close = null;
  show("");
}

function show(state) {
  const mark = document.getElementById("live");
  if (!mark || mark.dataset.state === state) return;
  mark.dataset.state = state;
  mark.textContent = { live: "live", connecting: "…", lost: "not connected" }[state] ?? "";
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) { close?.(); close = null; show(""); }
  else if ([...listeners.values()].some((each) => each.size)) open();
});
