// The shell: takes the token, draws the head, and mounts the view that the address names. The address is the state.

import { get, giveToken, takeToken } from "./api.js";
import { fill, h } from "./dom.js";

const head = document.getElementById("head");
const main = document.getElementById("main");
let unmount = null, shown = "", about = null, turn = 0;

// "#/runs?show=loss" as {view: "runs", state: {show: "loss"}}.
export function readAddress(hash = location.hash) {
  const [path, query] = hash.replace(/^#\/?/, "").split("?");
  return { view: path || "runs", state: Object.fromEntries(new URLSearchParams(query ?? "")) };
}

export function addressOf(view, state = {}) {
  const given = Object.entries(state).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return `#/${view}${given.length ? `?${new URLSearchParams(given)}` : ""}`;
}

// What a view gets to change the address: go({show: "loss"}) keeps the other parameters; null takes one away.
// go(change, {replace: true}) leaves no step for Back; go(change, {view: "run"}) opens another view with only these.
function goFrom(view) {
  return (change, { view: other, replace = false, quiet = false } = {}) => {
    const state = other ? change : { ...readAddress().state, ...change };
    const target = addressOf(other ?? view, state);
    if (target === location.hash) return;
    if (replace || quiet) {
      history.replaceState(null, "", target);
      if (!quiet) show();
    } else location.hash = target;
  };
}

async function show() {
  const { view, state } = readAddress();
  const mine = ++turn;
  let module;
  try {
    if (!/^[a-z_]+$/.test(view)) throw new Error("no such view");
    module = await import(`./views/${view}.js`);
  } catch (error) {
    console.warn(error);
    fill(main, h("p", { class: "refusal" }, `There is no view "${view}". `, h("a", { href: "#/runs" }, "Runs")));
    return;
  }
  if (mine !== turn) return;
  unmount?.();
  unmount = null;
  for (const link of head.querySelectorAll("nav a")) {
    if (link.dataset.view === (module.under ?? view)) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${module.title} · deepcanon studio`;
  const root = h("section", { class: `view view-${view}`, "aria-busy": "true" });
  fill(main, root);
  if (shown !== view) { window.scrollTo(0, 0); shown = view; }
  try {
    const ended = await module.mount(root, state, goFrom(view));
    if (mine === turn) unmount = ended ?? null;
    else ended?.();
  } catch (error) {
    if (mine === turn) root.append(refusal(error));
    console.warn(error);
  } finally {
    root.removeAttribute("aria-busy");
  }
}

export function refusal(error) {
  return h("p", { class: "refusal", role: "alert" }, error.message);
}

function drawHead() {
  const links = about.views.map((each) => h("a", { href: `#/${each.name}`, "data-view": each.name }, each.title));
  fill(head,
    h("a", { class: "brand", href: "#/runs" }, "deepcanon ", h("b", {}, "studio")),
    h("nav", { "aria-label": "Views" }, links),
    h("span", { class: "where", title: "The folder of these runs" }, about.folder, about.read_only ? " · read-only" : ""),
    h("span", { id: "live", class: "live", title: "Whether the page hears from the server" }));
}

function askForToken(sentence) {
  const field = h("input", { type: "text", "aria-label": "Address", placeholder: "http://127.0.0.1:…/#token=…", autocomplete: "off" });
  const open = (event) => { event.preventDefault(); if (giveToken(field.value)) begin(); };
  fill(head, h("span", { class: "brand" }, "deepcanon ", h("b", {}, "studio")));
  fill(main, h("form", { class: "card token", onsubmit: open }, h("h1", {}, "Which studio is this?"),
    h("p", {}, sentence), field, h("button", { class: "main" }, "Open")));
  field.focus();
}

async function begin() {
  if (!takeToken()) {
    askForToken("Paste the address that the terminal printed: it holds the key. Other tabs do not have it.");
    return;
  }
  try {
    about = await get("/api/studio");
  } catch (error) {
    askForToken(error.status === 401 ? "The key of this tab is one of a studio that has ended. Paste the new address." : error.message);
    return;
  }
  drawHead();
  await show();
}

window.addEventListener("hashchange", () => { if (/^#token=/.test(location.hash)) begin(); else if (about) show(); });
begin();
