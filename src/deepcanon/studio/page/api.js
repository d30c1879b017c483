// Requests to the studio: each carries the token, and a refusal becomes an error with the server's own sentence.

const KEY = "deepcanon-token";

export class Refusal extends Error {
  constructor(sentence, status) { super(sentence); this.status = status; }
}

// Take the token out of the address, where it would be seen, into what only this tab has.
export function takeToken() {
  const found = /^#token=([\w-]+)/.exec(location.hash);
  if (found) {
    sessionStorage.setItem(KEY, found[1]);
    history.replaceState(null, "", `${location.pathname}#/`);
  }
  return sessionStorage.getItem(KEY);
}

export function giveToken(text) {
  const found = /(?:#token=)?([\w-]{20,})\s*$/.exec(text);
  if (found) sessionStorage.setItem(KEY, found[1]);
  return Boolean(found);
}

async function ask(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, { ...options, headers: { ...options.headers, Authorization: `Bearer ${sessionStorage.getItem(KEY)}` } });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal("the studio does not answer: is its process still running?", 0);
  }
  if (answer.ok) return answer;
  const said = await answer.json().catch(() => ({}));
  throw new Refusal(said.error ?? `the studio answered ${answer.status}`, answer.status);
}

function address(path, parameters) {
  const given = Object.entries(parameters ?? {}).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return given.length ? `${path}?${new URLSearchParams(given)}` : path;
}

export async function get(path, parameters, options) {
  return (await ask(address(path, parameters), options)).json();
}

export async function getBytes(path, parameters, options) {
  return (await ask(address(path, parameters), options)).arrayBuffer();
}

export async function post(path, body = {}, options = {}) {
  const sent = { ...options, method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  return (await ask(path, sent)).json();
}

// A picture as a data: address that an <img> can show: images cannot send a token. Nothing has to be freed: an object
// URL that is freed while its image has not begun to load, as when a view is left, is an error in the console.
export async function picture(path, parameters) {
  const blob = await (await ask(address(path, parameters))).blob();
  return new Promise((done, failed) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result);
    reader.onerror = () => failed(reader.error);
    reader.readAsDataURL(blob);
  });
}

// Server-sent events by fetch, since EventSource cannot send a token; returns a function that ends the stream.
// onEvent(kind, data) for each event, onEnd(error) when it is over, unless it was ended by the caller.
export function stream(path, onEvent, onEnd = () => {}) {
  const control = new AbortController();
  read(path, onEvent, control.signal).then(() => onEnd(null), (error) => { if (!control.signal.aborted) onEnd(error); });
  return () => control.abort();
}

async function read(path, onEvent, signal) {
  const reader = (await ask(path, { signal })).body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const text of events) {
      const lines = text.split("\n");
      const kind = lines.find((line) => line.startsWith("event: "))?.slice(7) ?? "message";
      const data = lines.filter((line) => line.startsWith("data: ")).map((line) => line.slice(6)).join("\n");
      if (data) onEvent(kind, JSON.parse(data));
    }
  }
}
