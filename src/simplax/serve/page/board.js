// A Sudoku board: one grid that is typed into, and shows whatever board it is given.
import { make } from "./dom.js";
import { clashes } from "./rules.js";

const MOVES = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

export class Board {
  // `typed(cell, digit)` is called for keys, `looked(cell)` when a cell is pointed at or focused
  constructor(size, name, { typed, looked }) {
    this.size = size;
    this.box = Math.round(Math.sqrt(size));
    this.typed = typed;
    this.looked = looked;
    this.root = make("div", { className: size === 4 ? "board four" : "board", attributes: { role: "grid", "aria-label": name } });
    this.cells = [];
    for (let r = 0; r < size; r++) {
      const row = make("div", { attributes: { role: "row" } });
      for (let c = 0; c < size; c++) row.append(this.cell(r, c));
      this.root.append(row);
    }
    this.cells[0].tabIndex = 0;
    this.root.addEventListener("keydown", event => this.key(event));
  }

  cell(r, c) {
    const made = make("div", { tabIndex: -1, attributes: { role: "gridcell" } }), number = this.cells.length;
    made.classList.toggle("right-edge", (c + 1) % this.box === 0 && c + 1 < this.size);
    made.classList.toggle("bottom-edge", (r + 1) % this.box === 0 && r + 1 < this.size);
    made.classList.toggle("last-column", c + 1 === this.size);
    made.classList.toggle("last-row", r + 1 === this.size);
    made.addEventListener("focus", () => this.look(number));
    made.addEventListener("mouseenter", () => this.looked(number));
    made.addEventListener("click", () => made.focus());
    this.cells.push(made);
    return made;
  }

  look(number) {
    for (const cell of this.cells) cell.tabIndex = -1;
    this.cells[number].tabIndex = 0;
    this.looked(number);
  }

  get focused() {
    return this.cells.findIndex(cell => cell.tabIndex === 0);
  }

  key(event) {
    const at = this.focused, move = MOVES[event.key];
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (move) {
      const row = Math.floor(at / this.size) + move[0], column = at % this.size + move[1];
      if (row >= 0 && row < this.size && column >= 0 && column < this.size) this.cells[row * this.size + column].focus();
    } else if (event.key >= "1" && event.key <= String(this.size) && event.key.length === 1) this.typed(at, event.key);
    else if (["0", ".", "Delete", "Backspace", " "].includes(event.key)) this.typed(at, "0");
    else return;
    event.preventDefault();
  }

  mark(number) {
    this.cells.forEach((cell, i) => cell.classList.toggle("looked", i === number));
  }

  // `board` and `before` are strings of digits; `revisions` counts per cell, or null
  show(board, { puzzle, solution = null, before = board, revisions = null }) {
    const clash = clashes(board, this.size);
    this.cells.forEach((cell, i) => {
      const digit = board[i], given = puzzle[i] !== "0";
      const wrong = !given && digit !== "0" && solution !== null && digit !== solution[i];
      const changed = !given && digit !== before[i];
      cell.textContent = digit === "0" ? "" : digit;
      cell.classList.toggle("given", given);
      cell.classList.toggle("wrong", wrong);
      cell.classList.toggle("clash", clash[i] && !given);
      cell.classList.toggle("changed", changed);
      if (revisions?.[i] && !given) cell.dataset.revisions = revisions[i];
      else delete cell.dataset.revisions;
      const words = [digit === "0" ? "blank" : digit, given && "given", wrong && "wrong", clash[i] && "against a rule"];
      cell.setAttribute("aria-label", `row ${Math.floor(i / this.size) + 1} column ${i % this.size + 1}: ${words.filter(Boolean).join(", ")}`);
    });
  }
}

// The board in what somebody pasted: digits and blanks, anything else between rows; a sentence if there is none.
export function readBoard(text, size) {
  const cells = text.replace(/[|+\-\s,]/g, "").replace(/[._*]/g, "0");
  const strange = cells.replace(new RegExp(`[0-${size}]`, "g"), "");
  if (strange) return { error: `“${strange[0]}” is no digit of a ${size}×${size} puzzle: use 1 to ${size}, and . or 0 for blank.` };
  if (cells.length !== size * size) return { error: `The text has ${cells.length} cells: a puzzle has ${size * size}.` };
  return { board: cells };
}
