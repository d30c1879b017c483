// The drawing itself: modules that open and close, steps forward and back, and what happens on a click.

const data = JSON.parse(document.getElementById("data").textContent);
const svg = document.getElementById("graph");
const scene = document.getElementById("scene");
const panel = document.getElementById("panel");
const slider = document.getElementById("step");
const caption = document.getElementById("caption");
const MANY = 60;
const TILE = 64;
const SHARES = [0.45, 0.58, 0.34, 0.68, 0.26, 0.78, 0.18, 0.86, 0.51, 0.4, 0.63, 0.3, 0.73, 0.22];
const state = { open: new Set(), step: 0, edge: null, node: null, view: { x: 0, y: 0, k: 1 }, playing: null };
let drawing = null;

const members = new Map(data.groups.map((group) => [group.id, []]));
for (const node of data.nodes) for (let g = node.group; g != null; g = data.groups[g].parent) members.get(g).push(node.id);
const mismatching = new Set(data.edges.filter((edge) => edge.verdict.status === "mismatch").flatMap((edge) => ancestors(data.nodes[edge.target].group)));

const leaving = new Map();
for (const { source, output } of data.edges) leaving.set(`${source}.${output}`, (leaving.get(`${source}.${output}`) ?? 0) + 1);

function ancestors(group) {
  const found = [];
  for (let g = group; g != null; g = data.groups[g].parent) found.unshift(g);
  return found;
}

// What stands for a node in the drawing: itself, or the outermost closed module around it.
function standIn(id) {
  const closed = ancestors(data.nodes[id].group).find((group) => !state.open.has(group) && members.get(group).length > 1);
  return closed == null ? `n${id}` : `g${closed}`;
}

// The name of something inside the innermost of these modules, without the module's own.
function within(path, name) {
  const outer = path.length ? `${data.groups[path.at(-1)].name.replace(/ \(call \d+\)$/, "")}.` : "";
  return outer && name.startsWith(outer) ? name.slice(outer.length) : name;
}

function visible() {
  const nodes = new Map();
  for (const node of data.nodes) {
    const key = standIn(node.id);
    const isGroup = key[0] === "g";
    if (!nodes.has(key)) {
      const group = isGroup ? data.groups[+key.slice(1)] : null;
      const path = ancestors(group ? group.parent : node.group).filter((g) => state.open.has(g));
      const label = within(path, group ? group.name : node.name);
      const outside = !isGroup && ["input", "parameter", "buffer", "constant"].includes(node.op);
      const below = group ? `${group.kind} · ${members.get(group.id).length} nodes` : "";
      const width = Math.max(92, 7.3 * label.length + 26, 6 * below.length + 34);
      nodes.set(key, { key, node, group, label, below, outside, width, height: group ? 44 : 30, start: node.id, time: node.id, path });
    }
    nodes.get(key).time = node.id;
  }
  const edges = new Map();
  for (const edge of data.edges) {
    const [source, target] = [standIn(edge.source), standIn(edge.target)];
    if (source === target) continue;
    const key = `${source}:${edge.source}.${edge.output}>${target}${target[0] === "n" ? `.${edge.slot}` : ""}`;
    if (!edges.has(key)) edges.set(key, { key, source, target, edges: [] });
    edges.get(key).edges.push(edge);
  }
  return { nodes: [...nodes.values()], edges: [...edges.values()] };
}

function draw(keepView = true) {
  const { nodes, edges } = visible();
  const { cells, routes, height } = layOut(nodes, edges);
  drawing = { nodes, cells, routes, height };
  const moments = nodes.filter((node) => !node.outside).sort((a, b) => a.time - b.time);
  moments.forEach((node, i) => (cells.get(node.key).moment = i));
  Object.assign(drawing, { moments, steps: 2 * moments.length });
  slider.max = drawing.steps;
  scene.replaceChildren(...boxes(cells), ...routes.map(drawEdge), ...nodes.map((node) => drawNode(cells.get(node.key))));
  if (!keepView) fit();
  const step = Math.min(state.step, drawing.steps);
  setStep(drawing.steps);
  placeLabels();
  setStep(step);
}

// Put the words of each edge where they hide neither nodes nor words, and where no other line crosses them, if there is
// such a place. What is near is found in tiles, since a drawing may have thousands of edges.
function placeLabels() {
  const tiles = new Map();
  const within = ({ left, right, top, bottom }, visit) => {
    for (let i = Math.floor(left / TILE); i <= Math.floor(right / TILE); i++)
      for (let j = Math.floor(top / TILE); j <= Math.floor(bottom / TILE); j++) visit(`${i},${j}`);
  };
  const put = (box) => within(box, (key) => (tiles.has(key) ? tiles.get(key).push(box) : tiles.set(key, [box])));
  const hidden = (box, own) => {
    const near = new Set();
    within(box, (key) => tiles.get(key)?.forEach((other) => near.add(other)));
    return [...near].reduce((sum, other) => sum + (other.line === own ? 0 : overlap(box, other)), 0);
  };
  for (const node of drawing.nodes) {
    const { x, y, width, height } = drawing.cells.get(node.key);
    put({ left: x - width / 2 - 2, right: x + width / 2 + 2, top: y - height / 2 - 2, bottom: y + height / 2 + 2 });
  }
  for (const frame of scene.querySelectorAll(".frame-label")) put(around(frame.getBBox()));
  const lengths = new Map();
  for (const { element } of drawing.routes) {
    const line = element.children[1];
    const length = line.getTotalLength();
    lengths.set(line, length);
    for (let at = 0; at < length; at += 8) {
      const { x, y } = line.getPointAtLength(at);
      put({ line, left: x - 1.5, right: x + 1.5, top: y - 1.5, bottom: y + 1.5 });
    }
  }
  for (const { element } of drawing.routes) {
    const [, line, value, delta] = element.children;
    const words = [value, delta].filter((text) => text.textContent);
    if (!words.length) continue;
    const width = Math.max(...words.map((text) => text.getComputedTextLength()));
    let best = null;
    for (const share of SHARES) {
      const { x, y } = line.getPointAtLength(share * lengths.get(line));
      for (const side of [6, -6 - width, 26, -26 - width]) {
        const box = { left: x + side, right: x + side + width, top: y - 14, bottom: y + 13 };
        const loss = hidden(box, line);
        if (best == null || loss < best.loss) best = { x, y, side, box, loss };
      }
      if (best.loss === 0) break;
    }
    put(best.box);
    for (const [text, below] of [[value, -3], [delta, 10]]) {
      text.setAttribute("x", best.x + best.side);
      text.setAttribute("y", best.y + below);
    }
  }
}

const around = ({ x, y, width, height }) => ({ left: x, right: x + width, top: y, bottom: y + height });
const overlap = (a, b) => Math.max(0, Math.min(a.right, b.right) - Math.max(a.left, b.left)) * Math.max(0, Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top));

function svgMake(tag, attributes, ...kids) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) if (value != null) element.setAttribute(name, value);
  element.append(...kids);
  return element;
}

// The frames of modules that are open.
function boxes(cells) {
  const found = [];
  const framed = new Map();
  for (const group of [...state.open].sort((a, b) => b - a)) {  // the inner ones first: the outer must go around them
    const inside = members.get(group).map((id) => cells.get(standIn(id))).filter(Boolean);
    if (inside.length < 2) continue;
    const nested = Math.max(0, ...[...state.open].map((g) => ancestors(g).indexOf(group) < 0 ? 0 : ancestors(g).length - ancestors(group).length));
    const pad = 10 + 7 * nested;
    const inner = [...framed].filter(([g]) => ancestors(g).includes(group)).flatMap(([, rows]) => rows);
    const rows = [...Map.groupBy(inside, (cell) => cell.row)].sort(([a], [b]) => a - b).map(([number, row]) => {
      const frames = inner.filter((other) => other.number === number);
      const left = Math.min(...row.map((c) => c.x - c.width / 2 - pad), ...frames.map((other) => other.left - 7));
      const right = Math.max(...row.map((c) => c.x + c.width / 2 + pad), ...frames.map((other) => other.right + 7));
      return { number, left, right, y: row[0].y };
    });
    framed.set(group, rows);
    // a plain frame where nothing else stands in it, else one that goes around
    const [west, east] = [Math.min(...rows.map((row) => row.left)), Math.max(...rows.map((row) => row.right))];
    const others = [...cells.values()].some((cell) => !cell.bend && !inside.includes(cell) && cell.x + cell.width / 2 > west
      && cell.x - cell.width / 2 < east && cell.y >= rows[0].y && cell.y <= rows.at(-1).y);
    if (!others) for (const row of rows) Object.assign(row, { left: west, right: east });
    const top = rows[0].y - drawing.height / 2 - 24 - 17 * nested;
    const bottom = rows.at(-1).y + drawing.height / 2 + pad;
    const { left } = rows[0];
    const [down, up] = [[`M${left},${top}`], []];
    rows.forEach((row, i) => {
      const end = i + 1 < rows.length ? (row.y + rows[i + 1].y) / 2 : bottom;
      down.push(`V${end}H${rows[i + 1]?.left ?? row.right}`);
      up.unshift(`V${i ? (rows[i - 1].y + row.y) / 2 : top}H${rows[i - 1]?.right ?? left}`);
    });
    const label = svgMake("text", { class: "frame-label", x: left + 10, y: top + 14 }, `− ${data.groups[group].name}`);
    label.addEventListener("click", () => toggle(group));
    found.unshift(svgMake("g", { class: "frame" }, svgMake("path", { d: `${down.join("")}${up.join("")}Z` }), label));
  }
  return found;
}

function ports(routeList, end) {
  const byNode = Map.groupBy(routeList, (r) => r.points.at(end).key);
  for (const group of byNode.values()) {
    const cell = group[0].points.at(end);
    const near = end === 0 ? 1 : -2;
    group.sort((a, b) => a.points.at(near).x - b.points.at(near).x);
    const room = Math.min(cell.width - 24, 26 * (group.length - 1));
    group.forEach((r, i) => (r[end === 0 ? "from" : "to"] = cell.x + (group.length > 1 ? (i / (group.length - 1) - 0.5) * room : 0)));
  }
}

function drawEdge(r, index, all) {
  if (index === 0) {
    ports(all, 0);
    ports(all, -1);
  }
  const points = r.points.map((cell) => [cell.x, cell.y]);
  points[0] = [r.from, r.points[0].y + r.points[0].height / 2];
  points[points.length - 1] = [r.to, r.points.at(-1).y - r.points.at(-1).height / 2 - 5];
  let path = `M${points[0]}`;
  for (let i = 1; i < points.length; i++) {
    const [[x0, y0], [x1, y1]] = [points[i - 1], points[i]];
    const bend = (y1 - y0) * 0.45;
    path += `C${x0},${y0 + bend} ${x1},${y1 - bend} ${x1},${y1}`;
  }
  const siblings = all.filter((other) => other.points[0] === r.points[0]);
  const alone = siblings.length === 1;
  const at = alone || points.length > 2 ? 0 : points.length - 2;
  const share = alone ? 0.42 : siblings.indexOf(r) % 2 ? 0.68 : 0.46;
  const x = points[at][0] + (points[at + 1][0] - points[at][0]) * share * share * (3 - 2 * share);
  const y = points[at][1] + (points[at + 1][1] - points[at][1]) * share;
  const wrong = r.edge.edges.some((edge) => edge.verdict.status === "mismatch");
  const cut = r.edge.edges.every((edge) => !edge.delta);
  const moves = data.edited ? (r.edge.edges.some((edge) => edge.moved) ? " moved" : " still") : "";
  const element = svgMake(
    "g",
    { class: `edge${wrong ? " mismatch" : ""}${cut ? " nodelta" : ""}${moves}`, "data-edges": r.edge.edges.map((edge) => edge.id).join(" ") },
    svgMake("path", { class: "grip", d: path }),
    svgMake("path", { class: "line", d: path, "marker-end": "url(#tip)" }),
    svgMake("text", { class: "value", x: x + 6, y: y - 3 }),
    svgMake("text", { class: "delta", x: x + 6, y: y + 10 }),
  );
  if (wrong) element.append(svgMake("circle", { class: "badge", cx: x - 9, cy: y, r: 8 }), svgMake("text", { class: "badge-mark", x: x - 9, y: y + 4 }, "≠"));
  element.addEventListener("click", () => (r.edge.edges.length === 1 ? chooseEdge(r.edge.edges[0]) : chooseBundle(r.edge)));
  r.element = element;
  return element;
}

function drawNode(cell) {
  const { group, node } = cell;
  const kind = group ? "module" : cell.outside ? node.op : "operation";
  const element = svgMake(
    "g",
    { class: `node ${kind}${group && mismatching.has(group.id) ? " mismatch" : ""}`, transform: `translate(${cell.x},${cell.y})`, tabindex: 0, "data-key": cell.key },
    svgMake("rect", { x: -cell.width / 2, y: -cell.height / 2, width: cell.width, height: cell.height, rx: cell.outside ? cell.height / 2 : 8 }),
    svgMake("text", { y: group ? -3 : 4 }, group ? `+ ${cell.label}` : cell.label),
  );
  if (group) element.append(svgMake("text", { class: "below", y: 13 }, cell.below));
  const pick = () => (group ? toggle(group.id) : chooseNode(node));
  element.addEventListener("click", pick);
  element.addEventListener("keydown", (event) => event.key === "Enter" && pick());
  cell.element = element;
  return element;
}

const logs = (found) => found.filter((n) => typeof n === "number" && n > 0).map(Math.log10);
const range = (found) => (found.length ? [Math.min(...found), Math.max(...found)] : [0, 0]);
const valueRange = range(logs(data.nodes.flatMap((node) => node.values.map((digest) => digest.rms))));
const deltaRange = range(logs(data.edges.map((edge) => edge.delta?.rms)));

function paint(line, digest, [low, high]) {
  const lean = digest.rms > 0 ? digest.mean / digest.rms : 0;
  const share = digest.rms > 0 && high > low ? (Math.log10(digest.rms) - low) / (high - low) : 0.3;
  line.style.stroke = `color-mix(in oklab, var(${lean < 0 ? "--minus" : "--plus"}) ${Math.round(30 + 70 * Math.min(1, Math.abs(lean) * 1.5))}%, var(--wire))`;
  line.style.strokeWidth = (1.1 + 2.6 * Math.max(0, share)).toFixed(2);
}

function setStep(step) {
  state.step = Math.max(0, Math.min(step, drawing.steps));
  slider.value = state.step;
  const count = drawing.moments.length;
  const done = Math.min(state.step, count);
  const returned = state.step - count;
  const current = state.step === 0 || state.step === drawing.steps ? null : state.step <= count ? state.step - 1 : count - returned;
  for (const { edge, points, element } of drawing.routes) {
    const [source, target] = [points[0], points.at(-1)];
    const hasValue = source.outside || source.moment < done;
    const first = edge.edges.find((each) => each.delta) ?? edge.edges[0];
    const hasDelta = edge.edges.some((each) => each.delta) && target.moment >= count - returned;
    const maker = data.nodes[first.source];
    const digest = maker.values[first.output];
    const [, line, value, delta] = element.children;
    element.classList.toggle("ahead", !hasValue);
    const shape = digest.shape.length ? `${shapeOf(digest)}  ` : "";
    value.replaceChildren(svgMake("tspan", { class: "shape" }, shape), hasValue ? brief(digest) : "");
    const all = edge.edges.length === leaving.get(`${first.source}.${first.output}`);
    const back = all ? maker.deltas[first.output] : first.delta;
    delta.textContent = hasDelta ? `δ ${brief(back)}${all || edge.edges.length === 1 ? "" : ` and ${edge.edges.length - 1} more`}` : "";
    if (hasDelta) paint(line, back, deltaRange);
    else if (hasValue && returned <= 0) paint(line, digest, valueRange);
    else line.removeAttribute("style");
  }
  for (const node of drawing.nodes) {
    const cell = drawing.cells.get(node.key);
    cell.element.classList.toggle("ahead", !node.outside && cell.moment >= done);
    cell.element.classList.toggle("current", cell.moment === current && current != null);
    cell.element.classList.toggle("returned", !node.outside && cell.moment >= count - returned);
  }
  caption.textContent = captionFor(current, count);
  if (current != null) follow(drawing.cells.get(drawing.moments[current].key));
  remember();
}

function captionFor(current, count) {
  if (state.step === 0) return "Nothing computed yet: inputs and parameters are given";
  if (state.step === drawing.steps) return "All values and all deltas";
  const name = drawing.moments[current].label;
  return state.step <= count ? `Forward ${state.step} of ${count}: ${name} computes its value` : `Back ${state.step - count} of ${count}: ${name} hands its delta to its inputs`;
}

function setView() {
  const { x, y, k } = state.view;
  scene.setAttribute("transform", `translate(${x},${y}) scale(${k})`);
}

function extent() {
  const cells = [...drawing.cells.values()];
  return {
    left: Math.min(...cells.map((c) => c.x - c.width / 2)) - 30, right: Math.max(...cells.map((c) => c.x + c.width / 2)) + 70,
    top: Math.min(...cells.map((c) => c.y)) - 60, bottom: Math.max(...cells.map((c) => c.y)) + 50,
  };
}

function fit(whole = false) {
  const { left, right, top, bottom } = extent();
  const [width, height] = [svg.clientWidth, svg.clientHeight];
  const across = width / (right - left);
  const k = whole ? Math.min(across, height / (bottom - top), 1.4) : Math.min(Math.max(across, 0.6), 1.15);
  state.view = { k, x: width / 2 - (k * (left + right)) / 2, y: Math.max(34, (height - k * (bottom - top)) / 2) - k * top };
  setView();
}

function follow(cell) {
  const { x, y, k } = state.view;
  const [px, py] = [x + k * cell.x, y + k * cell.y];
  const [width, height] = [svg.clientWidth, svg.clientHeight];
  if (px < 90 || px > width - 90) state.view.x = width / 2 - k * cell.x;
  if (py < 90 || py > height - 110) state.view.y = height / 2 - k * cell.y;
  setView();
}

function zoom(factor, cx = svg.clientWidth / 2, cy = svg.clientHeight / 2) {
  const { x, y, k } = state.view;
  const next = Math.max(0.05, Math.min(4, k * factor));
  state.view = { k: next, x: cx - ((cx - x) * next) / k, y: cy - ((cy - y) * next) / k };
  setView();
}

function toggle(group) {
  if (state.open.has(group)) for (const g of data.groups) { if (ancestors(g.id).includes(group)) state.open.delete(g.id); }
  else state.open.add(group);
  const before = { ...state.view };
  const atEnd = state.step === drawing.steps;
  if (atEnd) state.step = Infinity;
  draw();
  state.view = before;
  setView();
  const shown = members.get(group).map((id) => drawing.cells.get(standIn(id)));
  follow(shown.reduce((a, b) => (a.y < b.y ? a : b)));
}

function setAll(open) {
  const atEnd = state.step === drawing.steps;
  state.open = new Set(open ? data.groups.map((group) => group.id) : []);
  if (atEnd) state.step = Infinity;
  draw(false);
}

function mark(ids) {
  for (const { edge, element } of drawing.routes) element.classList.toggle("chosen", edge.edges.some((each) => ids.has(each.id)));
  for (const node of drawing.nodes) drawing.cells.get(node.key).element.classList.toggle("chosen", state.node != null && node.key === `n${state.node}`);
}

function fill(...parts) {
  panel.replaceChildren(...parts.flat().filter(Boolean));
  panel.scrollTop = 0;
}

function chooseEdge(edge) {
  reveal(edge.source);
  reveal(edge.target);
  Object.assign(state, { edge: edge.id, node: null });
  fill(edgePanel(data, edge));
  mark(new Set([edge.id]));
  follow(drawing.cells.get(standIn(edge.target)));
  remember();
}

function chooseBundle(bundle) {
  Object.assign(state, { edge: null, node: null });
  fill(make("h2", {}, make("small", {}, `${bundle.edges.length} edges`), "between these modules"), edgeList(data, bundle.edges, chooseEdge));
  mark(new Set(bundle.edges.map((edge) => edge.id)));
}

function chooseNode(node) {
  Object.assign(state, { edge: null, node: node.id });
  fill(nodePanel(data, node, chooseEdge));
  mark(new Set());
}

// Open the modules around a node, if an edge inside was chosen from a list or a link.
function reveal(id) {
  const groups = ancestors(data.nodes[id].group);
  const inSight = drawing.cells.has(`n${id}`) || drawing.routes.some(({ edge }) => edge.edges.some((each) => each.id === state.edge));
  if (inSight || groups.every((group) => state.open.has(group))) return;
  groups.forEach((group) => state.open.add(group));
  const atEnd = state.step === drawing.steps;
  if (atEnd) state.step = Infinity;
  draw();
  follow(drawing.cells.get(standIn(id)));
}

function remember() {
  const words = [`step=${state.step === drawing.steps ? "end" : state.step}`];
  if (state.edge != null) words.push(`edge=${state.edge}`);
  // A page inside a notebook has no address of its own that could be changed.
  if (location.protocol !== "about:") history.replaceState(null, "", `#${words.join("&")}`);
}

function play() {
  if (state.playing) {
    clearInterval(state.playing);
    state.playing = null;
  } else {
    if (state.step === drawing.steps) setStep(0);
    const pause = Math.max(90, Math.min(700, 24000 / drawing.steps));
    state.playing = setInterval(() => (state.step >= drawing.steps ? play() : setStep(state.step + 1)), pause);
  }
  document.getElementById("play").textContent = state.playing ? "❚❚" : "▶";
}

const keys = {
  ArrowRight: () => setStep(state.step + 1), ArrowLeft: () => setStep(state.step - 1),
  Home: () => setStep(0), End: () => setStep(drawing.steps), " ": play,
  "+": () => zoom(1.25), "-": () => zoom(0.8), 0: () => fit(true), o: () => setAll(true), c: () => setAll(false),
};
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key] || event.target.tagName === "INPUT") return;
  event.preventDefault();
  keys[event.key]();
});
svg.addEventListener("wheel", (event) => {
  event.preventDefault();
  const frame = svg.getBoundingClientRect();
  if (event.ctrlKey || event.metaKey) return zoom(Math.exp(-event.deltaY / 200), event.clientX - frame.left, event.clientY - frame.top);
  state.view.x -= event.deltaX;
  state.view.y -= event.deltaY;
  setView();
}, { passive: false });
let grab = null;
svg.addEventListener("pointerdown", (event) => (grab = { x: event.clientX, y: event.clientY, view: { ...state.view } }));
addEventListener("pointerup", () => (grab = null));
addEventListener("pointermove", (event) => {
  if (!grab) return;
  state.view = { ...grab.view, x: grab.view.x + event.clientX - grab.x, y: grab.view.y + event.clientY - grab.y };
  setView();
});
slider.addEventListener("input", () => setStep(+slider.value));
const buttons = {
  play, back: keys.ArrowLeft, on: keys.ArrowRight, start: keys.Home, end: keys.End, open: keys.o, close: keys.c,
  nearer: keys["+"], further: keys["-"], fit: keys[0],
};
for (const [id, action] of Object.entries(buttons)) document.getElementById(id).addEventListener("click", action);
addEventListener("resize", () => fit());

const asked = new URLSearchParams(location.hash.slice(1));
if (data.nodes.length <= MANY) data.groups.forEach((group) => state.open.add(group.id));
if (!data.groups.length) for (const id of ["open", "close"]) document.getElementById(id).hidden = true;
state.step = Infinity;
draw(false);
if (asked.has("open")) setAll(true);
if (data.edges[asked.get("edge")] && asked.get("edge") !== "") chooseEdge(data.edges[+asked.get("edge")]);
if (/^\d+$/.test(asked.get("step") ?? "")) setStep(+asked.get("step"));
document.body.dataset.ready = "yes";
