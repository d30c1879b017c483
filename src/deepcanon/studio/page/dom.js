// Elements of the page. Text of runs reaches it by text nodes only: nothing here reads HTML.

const SVG = "http://www.w3.org/2000/svg";
const DRAWN = new Set(["svg", "g", "path", "line", "rect", "circle", "text", "polyline", "polygon", "tspan", "marker", "defs", "title"]);

// h("button", {onclick: go, class: "plain"}, "Go"): properties that begin with "on" are listeners, "style" is an object.
export function h(tag, properties = {}, ...children) {
  const node = DRAWN.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, each] of Object.entries(value)) node.style.setProperty(key, each);
    else if (name === "value" || name === "checked" || name === "indeterminate") node[name] = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== undefined && child !== null && child !== false));
  return node;
}

export function fill(node, ...children) {
  node.replaceChildren(...children.flat(Infinity).filter((child) => child !== undefined && child !== null && child !== false));
  return node;
}

// A sentence for screen readers, at most every five seconds, so that a live page does not talk all the time.
let said = 0, waiting = null;
export function say(sentence) {
  clearTimeout(waiting);
  const wait = Math.max(0, said + 5000 - Date.now());
  waiting = setTimeout(() => { said = Date.now(); document.getElementById("status").textContent = sentence; }, wait);
}

// A number as a reader wants it: four digits that count.
export function number(value, digits = 4) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  if (Number.isInteger(value) && Math.abs(value) < 1e7) return value.toLocaleString("en").replace("-", "−");
  const size = Math.abs(value);
  const text = size >= 1e5 || (size < 1e-3 && size > 0) ? value.toExponential(digits - 2) : String(Number(value.toPrecision(digits)));
  return text.replaceAll("-", "−");
}

export function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value < 60) return `${number(value, 2)} s`;
  const minutes = Math.floor(value / 60);
  return minutes < 60 ? `${minutes} min ${Math.round(value % 60)} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  const units = ["B", "kB", "MB", "GB"];
  let unit = 0;
  while (value >= 1000 && unit < 3) { value /= 1000; unit += 1; }
  return `${number(value, 3)} ${units[unit]}`;
}
