  legend.innerHTML = `Every step calls the network once. <span class="given">Blue</span> is given, black is right,
    <span class="wrong">red</span> is wrong, <span class="conflict">shaded</span> breaks a rule.`;

  function build(episode) {
    const size = Math.round(Math.sqrt(episode.puzzle.length)), box = Math.round(Math.sqrt(size));
    const figure = document.createElement("figure"), table = document.createElement("table");
    const caption = document.createElement("figcaption"), cells = [];
    for (let r = 0; r < size; r++) {
      const row = table.insertRow();
      for (let c = 0; c < size; c++) {
        const cell = row.insertCell();
        cell.classList.toggle("right-edge", (c + 1) % box === 0);
        cell.classList.toggle("bottom-edge", (r + 1) % box === 0);
        cells.push(cell);
      }
    }
    caption.textContent = episode.caption;
    figure.append(table, caption);
    views.append(figure);
    return { episode, size, box, cells };
  }

  function conflicts(frame, size, box) {
    const clash = new Array(frame.length).fill(false);
    for (let a = 0; a < frame.length; a++) for (let b = a + 1; b < frame.length; b++) {
      const ra = Math.floor(a / size), rb = Math.floor(b / size), ca = a % size, cb = b % size;
      const peers = ra === rb || ca === cb ||
        (Math.floor(ra / box) === Math.floor(rb / box) && Math.floor(ca / box) === Math.floor(cb / box));
      if (peers && frame[a] !== "0" && frame[a] === frame[b]) clash[a] = clash[b] = true;
    }
    return clash;
  }

  const boards = data.map(build);

  function draw(number) {
    for (const { episode, size, box, cells } of boards) {
      const frame = episode.frames[Math.min(number, episode.frames.length - 1)];
      const clash = conflicts(frame, size, box);
      cells.forEach((cell, i) => {
        const given = episode.puzzle[i] !== "0" && episode.puzzle[i] === frame[i];
        const wrong = episode.solution !== null && frame[i] !== episode.solution[i];
        cell.textContent = frame[i] === "0" ? "" : frame[i];
        cell.classList.toggle("given", given);
        cell.classList.toggle("wrong", wrong);
        cell.classList.toggle("conflict", clash[i] && !given);
      });
    }
  }

  return { frames: Math.max(...data.map(episode => episode.frames.length)), draw, step: number => number };
