// The panel next to the drawing: all that is shown of the edge, node or module that was chosen.

const MARKS = {
  agrees: ["✓ agrees", "finite differences of this operation give the same delta"],
  kink: ["✓ agrees, at a corner", "the operation has a corner here, and the delta lies between the two slopes"],
  mismatch: ["≠ mismatch", "finite differences of this operation give another slope than the delta"],
  cut: ["cut", "the value goes on, but no gradient comes back"],
  constant: ["no delta", "this value depends on nothing that gets a gradient"],
  unchecked: ["not checked", "the operation could not be held against finite differences"],
};

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value != null) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child != null));
  return element;
}

function show(number, digits = 4) {
  if (typeof number === "string") return number;
  if (Number.isInteger(number) && Math.abs(number) < 1e6) return String(number).replace("-", "−");
  const size = Math.abs(number);
  const text = size !== 0 && (size < 1e-3 || size >= 1e5) ? number.toExponential(digits - 2) : number.toPrecision(digits);
  return (text.includes("e") ? text : text.replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "")).replaceAll("-", "−");
}

const shapeOf = (digest) => (digest.shape.length ? digest.shape.join("×") : "number");
const inBrackets = (text) => (text.startsWith("−") ? `(${text})` : text);

function brief(digest) {
  if (!digest.size) return "empty";
  if (digest.size <= 2) return digest.size === 1 && !digest.shape.length ? show(digest.first[0]) : `[${digest.first.map((n) => show(n, 3)).join(", ")}]`;
  return `~${show(digest.rms, 3)}`;
}

function heat(cell) {
  const share = Math.sqrt(Math.abs(cell) / 127);
  return `color-mix(in oklab, var(${cell < 0 ? "--minus" : "--plus"}) ${Math.round(100 * share)}%, var(--sheet))`;
}

function heatMap(picture) {
  const cells = Int8Array.from(atob(picture.cells), (c) => c.charCodeAt(0));
  const grid = make("div", { class: "heat", style: `grid-template-columns: repeat(${picture.columns}, minmax(0, 1fr))` });
  grid.style.maxWidth = `${Math.min(330, picture.columns * 26)}px`;
  for (const cell of cells) grid.append(make("i", { style: `background:${heat(cell)}`, title: show((cell / 127) * picture.largest, 2) }));
  return grid;
}

function tensorCard(title, digest, note) {
  const card = make("section", { class: "card" }, make("h3", {}, title, make("small", {}, `${shapeOf(digest)} · ${digest.dtype}`)));
  if (note) card.append(make("p", { class: "note" }, note));
  if (digest.size > 1) {
    const facts = make("dl", { class: "facts" });
    for (const name of ["min", "mean", "max", "rms"]) facts.append(make("div", {}, make("dt", {}, name), make("dd", {}, show(digest[name]))));
    card.append(facts);
    if (digest.picture) card.append(heatMap(digest.picture));
  }
  if (digest.first?.length) {
    const rest = digest.size - digest.first.length;
    const text = digest.first.map((number) => show(number)).join("  ");
    card.append(make("pre", { class: "numbers" }, digest.size === 1 ? show(digest.first[0], 6) : text + (rest ? `  … ${rest.toLocaleString("en")} more` : "")));
  }
  return card;
}

function ruleCard(data, edge) {
  const rule = edge.rule;
  const card = make("section", { class: "card" }, make("h3", {}, "The rule"), make("p", { class: "formula" }, rule.forward));
  if (rule.value) card.append(make("p", { class: "filled" }, rule.value.replaceAll("-", "−")));
  if (edge.delta) {
    card.append(make("p", { class: "formula back" }, rule.backward));
    const filled = rule.delta;
    if (filled) {
      const place = filled.entry.length ? `[${filled.entry.join(", ")}]` : "";
      const terms = filled.terms.map(([slope, weight]) => `${inBrackets(show(slope))} · ${inBrackets(show(weight))}`);
      if (filled.more) terms.push(`${filled.more} smaller`);
      card.append(
        make("p", { class: "note" }, `its largest entry, Σ (∂y/∂${letter(edge.slot)}) · δy:`),
        make("p", { class: "filled", id: "filled" }, `δ${letter(edge.slot)}${place} = ${terms.join(" + ") || "0"} = ${show(filled.sum)}`),
      );
      if (edge.verdict.status === "mismatch") card.append(make("p", { class: "filled wrong" }, `but the delta given is ${show(filled.given)}`));
    }
  }
  const names = make("p", { class: "note" }, make("code", {}, rule.call), " with ");
  const inputs = data.edges.filter((other) => other.target === edge.target).sort((a, b) => a.slot - b.slot);
  inputs.slice(0, 12).forEach((other, i) => names.append(i ? ", " : "", make("b", {}, letter(other.slot)), ` = ${labelOf(data, other.source)}`));
  card.append(names);
  return card;
}

const letter = (slot) => "abcdefghijklmnopqrstuvwxyz"[slot] ?? `input ${slot + 1}`;

function jacobianCard(edge) {
  const card = make("section", { class: "card" }, make("h3", {}, "The local Jacobian"));
  if (!edge.jacobian) {
    card.append(make("p", { class: "note" }, "too large for this page; in Python: ", make("code", {}, `graph.jacobian(${edge.id})`)));
    return card;
  }
  const largest = Math.max(...edge.jacobian.flat().map(Math.abs), 1e-300);
  const table = make("table", { class: "jacobian", hidden: "" });
  for (const row of edge.jacobian) {
    table.append(make("tr", {}, ...row.map((n) => make("td", { style: `background:${heat((n / largest) * 100)}` }, show(n, 3)))));
  }
  const button = make("button", { onclick: () => { table.hidden = !table.hidden; button.textContent = table.hidden ? "show" : "hide"; } }, "show");
  card.append(make("p", { class: "note" }, "outputs in rows, inputs in columns ", button), make("div", { class: "scroll" }, table));
  return card;
}

function verdictCard(verdict) {
  const [mark, meaning] = MARKS[verdict.status];
  const card = make("section", { class: `card verdict ${verdict.status}` }, make("h3", {}, mark), make("p", { class: "note" }, meaning + (verdict.detail ? `: ${verdict.detail}` : "")));
  if (["agrees", "kink", "mismatch"].includes(verdict.status)) {
    const facts = make("dl", { class: "facts" });
    const rows = [["by the delta", verdict.given], ["by differences", verdict.measured], ["apart by", verdict.gap]];
    for (const [name, number] of rows) facts.append(make("div", {}, make("dt", {}, name), make("dd", {}, name === "apart by" ? show(number, 3) : show(number, 7))));
    card.append(facts);
  }
  return card;
}

function labelOf(data, id) {
  const node = data.nodes[id];
  const group = node.group == null ? "" : data.groups[node.group].name;
  return !group || node.name.startsWith(group) ? node.name : `${group}: ${node.name}`;
}

function edgePanel(data, edge) {
  const source = data.nodes[edge.source];
  const outputs = source.values.length > 1 ? ` (output ${edge.output + 1} of ${source.values.length})` : "";
  const ways = data.edges.filter((other) => other.source === edge.source && other.output === edge.output).length;
  const note = ways > 1 ? `one of ${ways} ways this value goes on; their deltas add up to its own` : "";
  return [
    make("h2", {}, make("small", {}, `edge ${edge.id}`), labelOf(data, edge.source), make("span", { class: "arrow" }, " → "), labelOf(data, edge.target)),
    outputs ? make("p", { class: "note" }, `the value${outputs}`) : null,
    verdictCard(edge.verdict),
    tensorCard("Value", source.values[edge.output]),
    edge.delta ? tensorCard("Delta δ", edge.delta, note) : null,
    ruleCard(data, edge),
    edge.delta ? jacobianCard(edge) : null,
  ];
}

function edgeList(data, edges, choose) {
  const list = make("ul", { class: "edges" });
  for (const edge of edges.slice(0, 200)) {
    const digest = data.nodes[edge.source].values[edge.output];
    const line = `${labelOf(data, edge.source)} → ${labelOf(data, edge.target)}`;
    const numbers = `${shapeOf(digest)}  ${brief(digest)}${edge.delta ? `  δ ${brief(edge.delta)}` : ""}`;
    list.append(make("li", {}, make("button", { class: edge.verdict.status, onclick: () => choose(edge) }, line, make("small", {}, numbers))));
  }
  return list;
}

function nodePanel(data, node, choose) {
  const into = data.edges.filter((edge) => edge.target === node.id);
  const out = data.edges.filter((edge) => edge.source === node.id);
  const panel = [
    make("h2", {}, make("small", {}, node.op === node.name ? "operation" : node.op), labelOf(data, node.id)),
    make("p", { class: "note" }, make("code", {}, node.call || node.name), node.where ? ` at ${node.where}` : ""),
  ];
  node.values.forEach((digest, output) => {
    const which = node.values.length > 1 ? ` ${output + 1}` : "";
    panel.push(tensorCard(`Value${which}`, digest));
    if (node.deltas[output]) panel.push(tensorCard(`Delta δ${which}`, node.deltas[output], out.length > 1 ? `the sum over ${out.length} edges` : ""));
  });
  if (into.length) panel.push(make("h3", {}, "comes from"), edgeList(data, into, choose));
  if (out.length) panel.push(make("h3", {}, "goes to"), edgeList(data, out, choose));
  return panel;
}
