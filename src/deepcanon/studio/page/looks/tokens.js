// The next token: its probabilities after a prompt that you type, and what the temperature makes of them.

import { get } from "../api.js";
import { fill, h, number, say } from "../dom.js";
import { panel } from "./subject.js";

const visible = (token) => ({ " ": "␣", "\n": "⏎", "\t": "⇥" })[token] ?? token;

export function nextToken(run, state, go) {
  const made = panel("The next token", "Type a beginning: the bars are the probabilities of what comes next. A low temperature sharpens them, a high one flattens them.");
  const prompt = h("textarea", { rows: 2, maxlength: 400, "aria-label": "Prompt", value: state.prompt ?? "", placeholder: "type a beginning" });
  const heat = h("input", { type: "range", min: -2, max: 2, step: 0.05, "aria-label": "Temperature", value: Math.log2(Number(state.temperature) || 1) });
  const degrees = h("output");
  const bars = h("div", { class: "token-bars" }), words = h("figcaption", {});
  let turn = 0, waiting = null;

  async function ask() {
    const temperature = Number((2 ** Number(heat.value)).toPrecision(3)), mine = ++turn;
    degrees.textContent = `temperature ${number(temperature, 3)}`;
    go({ prompt: prompt.value, temperature: temperature === 1 ? null : temperature }, { quiet: true });
    await made.load(async () => {
      const found = await get(`/api/runs/${run}/next-token`, { prompt: prompt.value, temperature });
      if (mine !== turn) return;
      if (!bars.isConnected) fill(made.room, room);
      const most = Math.max(...found.tokens.flatMap((each) => [each.heated, each.probability]));
      fill(bars, found.tokens.map((each) => h("button", { type: "button", class: "token-bar", title: "Go on with this one", onclick: () => { prompt.value += each.token; ask(); prompt.focus(); } },
        h("code", {}, visible(each.token)), h("span", { class: "bar-room" },
          h("i", { class: "heated", style: { width: `${(100 * each.heated) / most}%` } }), h("i", { class: "plain-mark", style: { left: `${(100 * each.probability) / most}%` } })),
        h("span", { class: "bar-value" }, number(each.heated, 3)))));
      const first = found.tokens[0];
      words.textContent = `The likeliest of ${number(found.vocabulary)} tokens is ${visible(first.token)}, with ${number(first.heated, 3)}; entropy ${number(found.entropy, 3)} nats. The tick is the probability at temperature 1.`;
      say(words.textContent);
    });
  }

  const later = () => { clearTimeout(waiting); waiting = setTimeout(ask, 180); };
  prompt.addEventListener("input", later);
  heat.addEventListener("input", later);
  const room = [h("div", { class: "prompt live-only" }, prompt, h("label", { class: "pick" }, heat, " ", degrees)), h("figure", { class: "plot" }, bars, words)];
  fill(made.room, room);
  ask();
  return made.node;
}
