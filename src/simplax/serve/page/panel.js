// One board with its recording: frames as they arrive, the curve of wrong cells, attempts to choose from.
import { Board } from "./board.js";
import { button, make, svg } from "./dom.js";
import { clashes } from "./rules.js";

export class Panel {
  constructor(size, name, handlers) {
    this.name = name;  // until a run gives it another
    this.size = size;
    this.title = make("h2");
    this.board = new Board(size, name, handlers);
    this.curve = svg("svg", { class: "curve", viewBox: "0 0 100 30", preserveAspectRatio: "none", role: "img", "aria-label": "wrong cells by step" });
    this.attempts = make("div", { className: "attempts" });
    const caption = make("p", { className: "caption", textContent: "cells that are not right yet, step by step" });
    this.root = make("div", { className: "panel" }, this.title, this.board.root, this.curve, caption, this.attempts);
    this.chosen = handlers.chosen;
    this.clear("0".repeat(size * size));
  }

  clear(puzzle) {
    Object.assign(this, { puzzle, solution: null, frames: [], attempt: 0, temperature: 1, done: null, wrong: [] });
    this.curve.replaceChildren();
    this.curve.classList.toggle("empty", true);
    this.attempts.replaceChildren();
    this.title.textContent = `${this.name}: ${[...puzzle].filter(cell => cell !== "0").length} given`;
    this.board.show(puzzle, { puzzle });
  }

  begin(start) {
    this.clear(start.puzzle);
    Object.assign(this, { solution: start.solution, temperature: start.temperature, steps: start.steps });
  }

  add(frame) {
    this.frames.push(frame);
    this.wrong.push(this.mistakes(frame.boards[this.attempt]));
  }

  // Cells that differ from the solution, open ones included, or clash where it is not known.
  mistakes(board) {
    if (this.solution === null) return clashes(board, this.size).filter((bad, i) => bad && this.puzzle[i] === "0").length;
    return [...board].filter((digit, i) => digit !== this.solution[i]).length;
  }

  end(answer) {
    this.done = answer;
    this.attempts.replaceChildren();
    if (answer.boards.length === 1) return;
    this.attempts.append(`${answer.valid.filter(Boolean).length} of ${answer.valid.length} attempts valid (${Math.round(answer.share * 100)} %):`);
    answer.valid.forEach((valid, number) => {
      const made = button(`${number + 1} ${valid ? "✓" : "✗"}`, () => this.choose(number));
      made.setAttribute("aria-pressed", String(number === this.attempt));
      this.attempts.append(made);
    });
  }

  choose(number) {
    this.attempt = number;
    this.wrong = this.frames.map(frame => this.mistakes(frame.boards[number]));
    [...this.attempts.querySelectorAll("button")].forEach((one, i) => one.setAttribute("aria-pressed", String(i === number)));
    this.chosen();
  }

  revisions(step) {
    const counts = new Array(this.puzzle.length).fill(0);
    for (let n = 1; n <= step; n++) {
      const now = this.frames[n].boards[this.attempt], before = this.frames[n - 1].boards[this.attempt];
      for (let i = 0; i < counts.length; i++) counts[i] += now[i] !== before[i];
    }
    return counts;
  }

  show(step, marked) {
    if (!this.frames.length) return;
    const number = Math.min(step, this.frames.length - 1), frame = this.frames[number];
    const board = frame.boards[this.attempt], before = this.frames[Math.max(number - 1, 0)].boards[this.attempt];
    this.board.show(board, { puzzle: this.puzzle, solution: this.solution, before, revisions: marked ? this.revisions(number) : null });
    const bad = this.wrong[number], ended = this.done && number === this.frames.length - 1;
    const solved = ended && this.done.valid[this.attempt];
    const verdict = ended ? (solved ? "solved ✓" : "not solved ✗") : `step ${frame.step} of ${this.steps}`;
    const open = [...board].filter(digit => digit === "0").length, wrong = this.solution === null ? bad : bad - open;
    const counts = `, ${wrong} ${this.solution === null ? "clashing" : "wrong"}${open ? `, ${open} open` : ""}`;
    this.title.textContent = `${this.name}: ${verdict}${solved ? "" : counts}`;
    this.draw(number);
  }

  draw(number) {
    const most = Math.max(...this.wrong, 1), wide = Math.max(this.steps, 1);
    const points = this.wrong.map((bad, n) => `${(100 * n / wide).toFixed(2)},${(29 - 28 * bad / most).toFixed(2)}`);
    const at = 100 * number / wide;
    this.curve.classList.remove("empty");
    this.curve.replaceChildren(svg("path", { d: `M${points.join("L")}` }), svg("line", { x1: at, x2: at, y1: 0, y2: 30 }));
    this.curve.setAttribute("aria-label", `wrong cells by step: ${this.wrong[number]} at step ${number}`);
  }
}
