// The Sudoku tab: a board to fill in, one or two runs on the same noise, and the cell that is looked at.
import { get, stream } from "./api.js";
import { readBoard } from "./board.js";
import { describeCell } from "./cell.js";
import { button, byId, make, say, startStop } from "./dom.js";
import { Panel } from "./panel.js";
import { Settings } from "./settings.js";
import { Transport } from "./transport.js";

const FEWEST = 17, MOST = 60, SIMPLAX = "simplax";
const FIRST = "030028900000900040080005130000002609002890470001000002050000020900600780103004006";

export class SudokuTab {
  constructor(models) {
    this.models = models;
    this.message = byId("sudoku-message");
    this.card = byId("cell");
    this.side = this.card.parentElement;
    this.marked = make("input", { type: "checkbox", id: "revisions" });
    this.marked.addEventListener("change", () => this.show(this.transport.number));
    this.compare = make("input", { type: "checkbox", id: "compare" });
    this.compare.addEventListener("change", () => this.compared());
    byId("load").addEventListener("click", () => this.paste());
    this.sizes = [...new Set(models.map(one => one.size))].sort((a, b) => b - a);
    this.build(this.sizes[0]);
  }

  // Everything that depends on the side of the board, with the models that fill in such boards.
  build(size) {
    this.size = size;
    this.looked = null;
    const models = this.models.filter(one => one.size === size);
    this.several = models.length > 1;
    this.first = new Settings("Run", models, ["steps", "eta", "temperature", "attempts"]);
    this.second = new Settings("Beside it, on the same noise", models, ["steps", "eta", "temperature"], { seed: false });
    if (this.several) this.second.setModel(models[1].name);
    else if (models[0].samplers.some(one => one.name === SIMPLAX)) this.second.choose(SIMPLAX, "1");
    this.panels = [this.panel("Run", 0), this.panel("Beside it", 1)];
    const wrap = make("div", { className: "panel" }), played = make("div");
    this.transport = new Transport(played, {
      draw: number => this.show(number),
      label: (number, last) => `step ${number} of ${last}`,
    });
    wrap.append(this.panels[0].root, this.keypad(), played);
    byId("boards").replaceChildren(wrap, this.panels[1].root);
    byId("sudoku-settings").replaceChildren(this.first.root, this.options(), this.second.root);
    byId("paste-hint").textContent = `${size * size} cells with . or 0 for blank, on one line or on ${size}`;
    this.actions();
    this.compared();
    this.edit(size === 9 ? FIRST : "0".repeat(size ** 2));
  }

  panel(name, number) {
    return new Panel(this.size, name, {
      typed: (cell, digit) => this.type(cell, digit),
      looked: cell => { this.looked = { cell, panel: number }; this.describe(); },
      chosen: () => this.show(this.transport.number),
    });
  }

  options() {
    const line = (control, words) => make("label", { className: "row" }, control, words);
    return make("div", { className: "row" }, line(this.compare, this.several ? "compare two models or settings" : "compare two settings"), line(this.marked, "count revisions in the cells"));
  }

  compared() {
    this.second.root.hidden = this.panels[1].root.hidden = !this.compare.checked;
    // beside two boards the settings are long: there is room below the second board
    (this.compare.checked ? this.panels[1].root : this.side).append(this.card);
  }

  keypad() {
    const keys = make("div", { className: "keys", attributes: { role: "group", "aria-label": "digits for the chosen cell" } });
    for (let digit = 0; digit <= this.size; digit++) {
      const made = button(digit ? String(digit) : "⌫", () => this.type(this.panels[0].board.focused, String(digit)));
      made.setAttribute("aria-label", digit ? `write ${digit}` : "clear the cell");
      keys.append(made);
    }
    return keys;
  }

  actions() {
    const clues = make("input", { type: "range", min: FEWEST, max: MOST, value: 30, id: "clues", attributes: { "aria-label": "clues of a new puzzle" } });
    const fresh = button("New puzzle, 30 clues", () => this.fresh(Number(clues.value)));
    clues.addEventListener("input", () => { fresh.textContent = `New puzzle, ${clues.value} clues`; });
    this.solve = startStop("Solve", this.message, signal => this.run(signal));
    this.solve.id = "solve";
    const sizes = make("select", { id: "board-size", attributes: { "aria-label": "size of the board" } },
      ...this.sizes.map(size => make("option", { value: size, textContent: `${size}×${size}`, selected: size === this.size })));
    sizes.addEventListener("change", () => { if (!this.running) this.build(Number(sizes.value)); else sizes.value = this.size; });
    byId("sudoku-actions").replaceChildren(this.solve, ...(this.size === 9 ? [fresh, clues] : []),
      button("Clear", () => this.edit("0".repeat(this.size ** 2))), ...(this.sizes.length > 1 ? [sizes] : []));
  }

  get running() { return this.solve.textContent === "Stop"; }

  edit(puzzle) {
    this.puzzle = puzzle;
    this.transport.reset();
    for (const panel of this.panels) panel.clear(puzzle);
    this.describe();
  }

  type(cell, digit) {
    if (this.running) return;
    say(this.message, "");
    this.edit(this.puzzle.slice(0, cell) + digit + this.puzzle.slice(cell + 1));
  }

  paste() {
    const read = readBoard(byId("pasted").value, this.size);
    if (read.error) { say(this.message, read.error, true); return; }
    this.edit(read.board);
    say(this.message, "The puzzle is on the board.");
  }

  async fresh(clues) {
    try {
      const made = await get(`/v1/sudoku/puzzle?clues=${clues}&seed=${Math.floor(Math.random() * 2 ** 30)}`);
      this.edit(made.puzzle);
      say(this.message, `A puzzle with ${made.clues} clues and one solution.`);
    } catch (error) { say(this.message, error.message, true); }
  }

  async run(signal) {
    const shared = { puzzle: this.puzzle, seed: this.first.values().seed, attempts: this.first.values().attempts, belief: true };
    const runs = [[this.panels[0], { ...this.first.values(), ...shared }]];
    if (this.compare.checked) runs.push([this.panels[1], { ...this.second.values(), ...shared }]);
    this.transport.reset();
    for (const panel of this.panels) panel.clear(this.puzzle);
    if (this.several) runs.forEach(([panel, { model }]) => { panel.name = model; });
    const answers = await Promise.all(runs.map(([panel, asked]) => this.one(panel, asked, signal)));
    this.show(this.transport.number);
    say(this.message, answers.map((answer, n) => `${this.several ? `${runs[n][1].model}: ` : ""}${Math.round(answer.share * 100)} % valid with ${answer.calls} calls in ${answer.seconds} s`).join("; ") + ".");
  }

  async one(panel, asked, signal) {
    const answer = await stream("/v1/sudoku/solve/stream", asked, signal, {
      start: data => panel.begin(data),
      queued: data => say(this.message, data.ahead === null ? "" : `Waiting: ${data.ahead} before this one.`),
      step: frame => { panel.add(frame); this.transport.extend(Math.max(...this.panels.map(each => each.frames.length))); },
    });
    panel.frames.at(-1).boards = answer.boards;
    panel.end(answer);
    return answer;
  }

  // Both runs at the same share of their steps, so that they stay side by side whatever their number of calls.
  show(number) {
    const most = Math.max(...this.panels.map(panel => panel.frames.length));
    for (const panel of this.panels) {
      const planned = Math.max(...this.panels.filter(one => one.frames.length).map(one => one.steps), 1);
      const own = most > 1 && panel.steps !== planned ? Math.round(number * panel.steps / planned) : number;
      panel.show(own, this.marked.checked);
    }
    this.describe();
  }

  describe() {
    const panel = this.panels[this.looked?.panel ?? 0];
    this.panels.forEach((one, i) => one.board.mark(this.looked && i === this.looked.panel ? this.looked.cell : -1));
    const cell = this.looked?.cell ?? [...panel.puzzle].indexOf("0");
    describeCell(this.card, panel, Math.max(cell, 0), Math.min(this.transport.number, Math.max(panel.frames.length - 1, 0)));
  }
}
