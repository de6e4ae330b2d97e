// What is known about one cell at one step: the network's belief, the simplex state, and the digits it has had.
import { make } from "./dom.js";

// x_hat as the sampler uses it: a temperature sharpens or flattens what the network said
function tempered(belief, temperature) {
  const powers = belief.map(value => (value / 1000) ** (1 / temperature)), sum = powers.reduce((a, b) => a + b, 0);
  return powers.map(value => value / (sum || 1));
}

// E[w | z, x_hat] = (eta p + e_z) / (1 + eta) with p = alpha x_hat + (1 - alpha) / K
export function meanState(belief, token, alpha, eta, temperature) {
  const x = tempered(belief, temperature), size = x.length;
  return x.map((value, k) => (eta * (alpha * value + (1 - alpha) / size) + (k === token ? 1 : 0)) / (1 + eta));
}

function bars(title, values, token) {
  const row = make("div", { className: "bars", attributes: { role: "img", "aria-label": `${title}: ${values.map((v, k) => `${k + 1} ${Math.round(v * 100)} %`).join(", ")}` } });
  values.forEach((value, k) => {
    const bar = make("i");
    bar.style.height = `${Math.max(1, value * 60)}px`;
    row.append(make("div", { className: k === token ? "bar token" : "bar" },
      make("span", { textContent: value >= 0.005 ? Math.round(value * 100) : "" }), bar, make("b", { textContent: k + 1 })));
  });
  return [make("h3", { textContent: title }), row];
}

// Runs of equal digits: [{digit, from, to}]
export function trail(frames, attempt, cell) {
  const runs = [];
  frames.forEach((frame, step) => {
    const digit = frame.boards[attempt][cell], last = runs.at(-1);
    if (last?.digit === digit) last.to = step;
    else runs.push({ digit, from: step, to: step });
  });
  return runs;
}

function trailList(runs, solution, cell, now) {
  // it scrolls when it is long, which the keyboard must be able to do as well
  const list = make("ol", { className: "trail", tabIndex: 0, attributes: { "aria-label": "digits of this cell, step by step" } });
  for (const { digit, from, to } of runs) {
    const right = solution === null || digit === "0" ? null : digit === solution[cell];
    const mark = right === null ? "" : right ? " ✓" : " ✗";
    const item = make("li", { className: right === false ? "wrong" : "" }, digit === "0" ? "–" : digit, mark,
      make("small", { textContent: from === to ? ` ${from}` : ` ${from}–${to}` }));
    if (from <= now && now <= to) item.classList.add("changed");
    list.append(item);
  }
  return list;
}

// `run` is one panel's recording; `step` the frame that is shown
export function describeCell(place, run, cell, step) {
  const size = Math.round(Math.sqrt(run.puzzle.length));
  const title = make("h2", { textContent: `Row ${Math.floor(cell / size) + 1}, column ${cell % size + 1}` });
  if (run.puzzle[cell] !== "0") {
    place.replaceChildren(title, make("p", { className: "hint", textContent: `${run.puzzle[cell]} is given: it is never noised.` }));
    return;
  }
  if (!run.frames.length) {
    place.replaceChildren(title, make("p", { className: "hint", textContent: "Press Solve, then point at a cell or move to it with the arrow keys: here is what the network believes about it." }));
    return;
  }
  const frame = run.frames[step], token = Number(frame.boards[run.attempt][cell]) - 1, parts = [title];
  if (frame.belief) {
    const belief = frame.belief[run.attempt][cell], eta = frame.eta ?? frame.trained_eta;
    parts.push(...bars("Belief of the network x̂ (%)", belief.map(value => value / 1000), token));
    if (eta !== null && frame.alpha !== null && token >= 0) {
      const whose = frame.eta === null ? `the training η = ${eta}; this sampler has none` : `η = ${eta}`;
      parts.push(...bars(`Mean simplex state E[w | z, x̂] at ${whose} (%)`, meanState(belief, token, frame.alpha, eta, run.temperature), token));
    }
  } else parts.push(make("p", { className: "hint", textContent: step ? "This model gives no belief about single cells." : "Pure noise: the network has not been called yet." }));
  const runs = trail(run.frames, run.attempt, cell), changes = runs.length - 1;
  parts.push(make("h3", { textContent: `Revision trail: ${changes} change${changes === 1 ? "" : "s"} (digit, steps)` }), trailList(runs, run.solution, cell, step));
  place.replaceChildren(...parts);
  const list = parts.at(-1), here = list.querySelector(".changed");
  if (here) list.scrollTop = here.offsetTop - list.clientHeight / 2;
}
