// Which cells of a Sudoku board (a string of digits, 0 for blank) hold a digit that stands again in their row, column or box.

export function clashes(board, size) {
  const box = Math.round(Math.sqrt(size)), clash = new Array(board.length).fill(false), seen = new Map();
  for (let i = 0; i < board.length; i++) {
    if (board[i] === "0") continue;
    const r = Math.floor(i / size), c = i % size;
    for (const unit of [`r${r}`, `c${c}`, `b${Math.floor(r / box)}${Math.floor(c / box)}`]) {
      const key = unit + board[i];
      if (seen.has(key)) clash[i] = clash[seen.get(key)] = true;
      else seen.set(key, i);
    }
  }
  return clash;
}
