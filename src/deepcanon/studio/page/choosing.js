// Which runs are shown: a line of words filters them, a setting groups them.

// "mlp lr=0.02 seed<3": each word must be in the run's name, model, data, status, tags or note, or hold of one of its settings.
export function matches(run, line) {
  return line.trim().split(/\s+/).filter(Boolean).every((word) => {
    const [, name, sign, wanted] = /^([\w.]+)(<=|>=|=|<|>)(.+)$/.exec(word) ?? [];
    if (sign) {
      const value = valueOf(run, name);
      if (value === undefined) return false;
      if (sign === "=") return String(value).toLowerCase() === wanted.toLowerCase() || (value !== null && value !== "" && Number(value) === Number(wanted));
      const [left, right] = [Number(value), Number(wanted)];
      return value !== null && { "<": left < right, ">": left > right, "<=": left <= right, ">=": left >= right }[sign];
    }
    const text = [run.name, run.model, run.data, run.status, run.note, ...(run.tags ?? [])].join(" ").toLowerCase();
    return text.includes(word.toLowerCase());
  });
}

export function valueOf(run, name) {
  if (name === "tag") return run.tags.join(", ") || null;
  return name in run.settings ? run.settings[name] : { status: run.status, name: run.name }[name];
}

// The settings in which these runs differ, by name.
export function differing(runs) {
  const names = [...new Set(runs.flatMap((run) => Object.keys(run.settings)))];
  return names.filter((name) => new Set(runs.map((run) => JSON.stringify(run.settings[name] ?? null))).size > 1);
}

// The groups of runs with the same value of a setting, in the order of the values: [{title, runs}].
export function grouped(runs, name) {
  const groups = new Map();
  for (const run of runs) {
    const value = valueOf(run, name);
    const key = value === undefined || value === null ? "none" : String(value);
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(run);
  }
  const order = [...groups.keys()].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
  return order.map((key) => ({ title: `${name} = ${key} (${groups.get(key).length} ${groups.get(key).length === 1 ? "run" : "runs"})`, runs: groups.get(key) }));
}

const SCORES = ["accuracy", "r2", "exact_match", "log_prob"], LOSSES = ["nll", "loss"];

// The measures worth a column: a score and a loss that half of the runs have.
export function measures(runs) {
  const names = [...new Set(runs.flatMap((run) => [...Object.keys(run.test), ...Object.keys(run.valid)]))];
  const common = names.filter((name) => runs.filter((run) => name in run.test || name in run.valid).length * 2 >= runs.length);
  const found = [SCORES, LOSSES].map((list) => list.find((name) => common.includes(name))).filter(Boolean);
  return found.length ? found : common.slice(0, 1);
}
