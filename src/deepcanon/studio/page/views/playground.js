// The playground: any model of points in the plane trains live, and everything can be touched.

import { post, stream } from "../api.js";
import { fill, h, number, say } from "../dom.js";
import { curves } from "../draw.js";
import { chooser } from "../play/chooser.js";
import { network } from "../play/network.js";
import { plane } from "../play/plane.js";
import { sketch } from "../play/sketch.js";
import { sentence, titles } from "../play/words.js";
import { saveButton, savePng } from "../save.js";

export const title = "Playground";

export async function mount(root, state, go) {
  let id = null, scene = null, frame = null, curve = [], endStream = null, turn = 0, moved = 0, drawnCurve = 0, beginning = false, pending = null;

  // What the training does, and how to hold it.
  const play = h("button", { type: "button", class: "main play", onclick: () => (frame?.state === "running" ? tell({ do: "pause" }) : tell({ do: "go", pace: "run" })) }, "▶ Play");
  const step = h("button", { type: "button", onclick: () => tell({ do: "go", pace: "step" }), title: "One step of the training (.)" }, "Step");
  const oneTurn = h("button", { type: "button", onclick: () => tell({ do: "go", pace: "turn" }), title: "One turn of a step: of a GAN, one of its players" }, "Turn");
  const slow = h("button", { type: "button", onclick: () => tell({ do: "go", pace: "slow" }), title: "Turn by turn, each shown for a second" }, "Slow motion");
  const again = h("button", { type: "button", onclick: () => begin(wanted, "run"), title: "From the first weights, those of the seed" }, "Restart");
  const stop = h("button", { type: "button", onclick: () => end(true), title: "End this session" }, "Stop");
  const count = h("output", { class: "count", "aria-live": "off" }, "");
  const transport = h("div", { class: "transport", role: "toolbar", "aria-label": "Training" }, play, step, oneTurn, slow, again, stop, count);

  const trouble = h("p", { class: "refusal", role: "alert", hidden: true });
  const caption = h("figcaption"), looks = h("div", { class: "chips looks", role: "group", "aria-label": "What is shown" });
  const pens = sketch((points, done) => { picture.points({ points: points.map((each) => each.slice(0, 2)), labels: points.map((each) => each[2]), unlabeled: [] }); if (done) choose.drawn(points); });
  const picture = plane({ label: "The plane", onPoint: (...given) => { if (choose.drawing()) pens.point(...given); } });
  const figure = h("figure", { class: "plot", "aria-busy": "true" }, picture.node, caption);
  const loss = curves({ x: { name: "step" }, y: { name: "loss" }, height: 190, label: "The loss of the training" });
  const measures = h("dl", { class: "measures" });
  const net = network({ onEdit: edit, onUnit: (layer, index) => picture.unit(layer, index) });
  const code = h("pre", { class: "code", tabindex: 0, hidden: true });
  const codeButton = h("button", { type: "button", onclick: showCode, title: "Python that repeats this session bit for bit" }, "Show me the code");
  const copy = h("button", { type: "button", hidden: true, onclick: async () => { await navigator.clipboard.writeText(code.textContent); copy.textContent = "Copied"; } }, "Copy");
  const choose = chooser(state, (asked, address) => { go(Object.fromEntries([...Object.keys(state), ...Object.keys(address)].map((key) => [key, address[key] || null])), { quiet: true }); state = address; begin(asked); });
  let wanted = null;

  fill(root,
    h("div", { class: "view-head" }, h("h1", {}, "Playground"), h("span", { class: "spread" }), codeButton, h("button", { type: "button", onclick: () => savePng(figure, `${scene?.model ?? "plane"}-step-${frame?.step ?? 0}`) }, "PNG"), saveButton(root, () => `playground-${scene?.model ?? ""}`)),
    h("div", { class: "playground" }, choose.node,
      h("div", { class: "card middle" }, transport, trouble, pens.node, figure, looks),
      h("div", { class: "side" }, h("div", { class: "card" }, h("h2", {}, "Loss"), loss.node, measures), h("div", { class: "card network-card" }, h("h2", {}, "Neurons and weights"), net.node))),
    h("div", { class: "card code-card", hidden: true }, h("div", { class: "view-head" }, h("h2", {}, "The Python that repeats this session, bit for bit"), h("span", { class: "spread" }), copy), code));
  const codeCard = root.querySelector(".code-card"), networkCard = root.querySelector(".network-card");

  function refuse(words) { trouble.textContent = words; trouble.hidden = !words; if (words) figure.removeAttribute("aria-busy"); }

  // A session, and how it goes on at once: at this pace, or at the one that was asked for before it was there.
  async function begin(asked, pace = null) {
    const mine = ++turn;
    wanted = asked;
    beginning = Boolean(asked);
    pending = asked ? pace ?? pending : null;
    pens.node.hidden = !choose.drawing();
    pens.set(choose.pile());
    await end(false);
    root.dataset.state = asked ? "beginning" : "empty";
    if (!asked) { blank(); return; }
    refuse("");
    transport.classList.add("busy");
    try {
      const begun = await post("/api/play", asked);
      if (mine !== turn) { post(`/api/play/${begun.id}`, { do: "end" }).catch(() => {}); return; }
      ({ id, scene } = begun);
      curve = [];
      codeCard.hidden = true;
      picture.morph(1);
      picture.scene(scene);
      drawLooks();
      endStream = stream(`/api/play/${id}/frames`, take, (error) => { if (mine === turn && error) refuse(error.message); });
      beginning = false;
      if (pending) tell({ do: "go", pace: pending });
    } catch (error) { if (mine === turn) refuse(error.message); } finally { if (mine === turn) { beginning = false; transport.classList.remove("busy"); } }
  }

  // An empty sheet to draw on.
  function blank() {
    scene = null;
    frame = null;
    figure.removeAttribute("aria-busy");
    picture.scene({ window: { left: -1.35, bottom: -1.35, side: 2.7 }, axes: ["x₁", "x₂"], points: choose.pile().map((each) => each.slice(0, 2)), labels: choose.pile().map((each) => each[2]), unlabeled: [] });
    net.show([]);
    networkCard.hidden = true;
    fill(looks);
    fill(measures);
    loss.draw([]);
    caption.textContent = "Press and drag to draw points; the training can begin as soon as there are some.";
  }

  async function end(said) {
    endStream?.();
    endStream = null;
    const last = id;
    id = null;
    if (last) await post(`/api/play/${last}`, { do: "end" }).catch(() => {});
    if (said) { turn += 1; beginning = false; pending = null; if (frame) take("frame", { ...frame, state: "stopped", curve: [] }); }
  }

  async function tell(command) {
    if (command.do === "go") {
      pending = beginning || choose.picking() ? command.pace : null;  // for the session that is about to be there
      if (pending) return null;
    }
    if (!id) {
      if (command.do === "go" && wanted) await begin(wanted, command.pace);
      return null;
    }
    try { return await post(`/api/play/${id}`, command); } catch (error) { refuse(error.message); return null; }
  }

  // A frame: the newest one there is; of the curve, what has come since the last.
  function take(kind, given) {
    if (kind === "over") { if (given.says) refuse(given.says); id = null; take("frame", { ...frame, state: "stopped", curve: [] }); return; }
    if (kind !== "frame" || !scene) return;
    frame = given;
    figure.removeAttribute("aria-busy");
    curve.push(...given.curve);
    picture.show(frame);
    networkCard.hidden = !frame.layers.length;
    if (frame.layers.length && Date.now() > moved + 250) net.show(frame.layers, scene.axes);
    const running = frame.state === "running";
    play.textContent = running ? "❚❚ Pause" : "▶ Play";
    oneTurn.hidden = scene.turns.length < 2;
    for (const button of [step, oneTurn, slow]) button.disabled = frame.state === "done";
    play.disabled = frame.state === "done";
    root.dataset.state = frame.state;
    root.dataset.step = frame.step;
    count.textContent = `step ${number(frame.step)} of ${number(scene.total)}${frame.turn ? `, after the ${frame.turn}'s turn` : ""}`;
    caption.textContent = sentence(scene, frame);
    if (Date.now() > drawnCurve + 200 || !running) { drawnCurve = Date.now(); drawCurve(); }
    say(count.textContent);
  }

  function drawCurve() {
    loss.draw(curve.length ? [{ key: "loss", name: "loss", number: 0, x: curve.map((each) => each[0]), mean: curve.map((each) => each[1]) }] : [], { from: 0, to: Math.max(1, curve.at(-1)?.[0] ?? 1) });
    loss.say(curve.length ? `The loss at step ${number(curve.at(-1)[0])} is ${number(curve.at(-1)[1])}; at step ${number(curve[0][0])} it was ${number(curve[0][1])}.` : "No step is taken yet.");
    const shown = { ...frame.valid, ...frame.terms };
    fill(measures, Object.entries(shown).filter(([, value]) => value !== null).map(([name, value]) => [h("dt", {}, frame.valid?.[name] === undefined ? name : `validation ${name}`), h("dd", {}, number(value))]));
  }

  // An edited weight is sent at once; while one is under way, only the latest of those that follow.
  let sending = false, waiting = null;
  async function edit(parameter, index, value) {
    moved = Date.now();
    waiting = { do: "edit", parameter, index, value };
    if (sending) return;
    sending = true;
    while (waiting) { const next = waiting; waiting = null; await tell(next); }
    sending = false;
  }

  function drawLooks() {
    let shown = new Set(scene.shown);
    const box = (name) => {
      const input = h("input", { type: "checkbox", checked: shown.has(name), onchange: () => { if (input.checked) shown.add(name); else shown.delete(name); tell({ do: "show", looks: [...shown] }); } });
      return h("label", { class: "chip" }, input, " ", titles[name] ?? name);
    };
    const moving = scene.movements.length ? h("label", {}, "moving points ", h("select", { onchange: (event) => tell({ do: "show", moving: event.target.value }) },
      h("option", { value: "" }, "none"), scene.movements.map((name) => h("option", { value: name, selected: name === scene.moving }, titles[name] ?? name)))) : null;
    const given = scene.conditional ? h("label", {}, "given class ", h("select", { onchange: (event) => tell({ do: "show", given: Number(event.target.value) }) },
      Array.from({ length: scene.classes }, (_, n) => h("option", { value: n }, scene.names[n] ?? String(n))))) : null;
    const morph = scene.looks.includes("grid") ? h("label", { class: "morph" }, "noise ", h("input", { type: "range", min: 0, max: 1, step: 0.01, value: 1, "aria-label": "From noise to data", oninput: (event) => picture.morph(Number(event.target.value)) }), " data") : null;
    fill(looks, [...scene.looks, ...(scene.shown.includes("network") ? ["network"] : [])].map(box), moving, given, morph);
  }

  async function showCode() {
    const found = await tell({ do: "code" });
    if (!found) return;
    code.textContent = found.code;
    code.hidden = codeCard.hidden = copy.hidden = false;
    copy.textContent = "Copy";
    codeCard.scrollIntoView({ block: "nearest", behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
  }

  root.addEventListener("keydown", (event) => {
    if (event.target.closest("input, select, textarea, button, pre")) return;
    if (event.key === " ") play.click(); else if (event.key === ".") step.click(); else return;
    event.preventDefault();
  });

  caption.textContent = "The library is being imported for the first session; this takes some seconds once.";
  pens.node.hidden = true;
  choose.begin().catch((error) => refuse(error.message)).finally(() => { if (!wanted) figure.removeAttribute("aria-busy"); });
  return () => { turn += 1; end(false); picture.end(); loss.end(); };
}
