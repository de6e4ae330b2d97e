// How each kind of run is drawn. A view has `frames`, how many there are; `draw(number)`; `name(number)` of a frame.

function add(parent, tag, properties = {}) {
  const made = Object.assign(document.createElement(tag), properties);
  parent.append(made);
  return made;
}

function marked(parent, parts) {
  const line = add(parent, "p");
  for (const [words, name] of parts) add(line, "span", { textContent: words, className: name ?? "" });
}

class Boards {
  constructor(root, run) {
    this.run = run;
    const some = test => run.episodes.some(test);
    const given = some(episode => /[1-9]/.test(episode.puzzle)) ? [["blue", "given"], [" is given, "]] : [];
    const wrong = some(episode => episode.solution !== null) ? [["plain is right, "], ["underlined", "wrong"], [" is wrong, "]] : [];
    marked(root, [["Every step calls the network once: "], ...given, ...wrong, ["shaded", "conflict"], [" breaks a rule."]]);
    const place = add(root, "div", { className: "boards" });
    this.boards = run.episodes.map(episode => this.build(place, episode));
    this.frames = Math.max(...run.episodes.map(episode => episode.frames.length));
  }

  build(place, episode) {
    const size = Math.round(Math.sqrt(episode.puzzle.length)), box = Math.round(Math.sqrt(size)), cells = [];
    const figure = add(place, "figure"), table = add(figure, "table", { className: "board" });
    for (let r = 0; r < size; r++) {
      const row = table.insertRow();
      for (let c = 0; c < size; c++) {
        const cell = row.insertCell();
        cell.classList.toggle("right-edge", (c + 1) % box === 0);
        cell.classList.toggle("bottom-edge", (r + 1) % box === 0);
        cells.push(cell);
      }
    }
    add(figure, "figcaption", { textContent: episode.caption });
    return { episode, size, cells };
  }

  draw(number) {
    for (const { episode, size, cells } of this.boards) {
      const at = Math.min(number, episode.frames.length - 1), frame = episode.frames[at], before = episode.frames[Math.max(at - 1, 0)];
      const clash = clashes(frame, size);
      cells.forEach((cell, i) => {
        const given = episode.puzzle[i] !== "0" && episode.puzzle[i] === frame[i];
        cell.textContent = frame[i] === "0" ? "" : frame[i];
        cell.classList.toggle("given", given);
        cell.classList.toggle("wrong", episode.solution !== null && frame[i] !== episode.solution[i]);
        cell.classList.toggle("conflict", clash[i] && !given);
        cell.classList.toggle("changed", frame[i] !== before[i] && !clash[i]);
      });
    }
  }

  name(number) { return `step ${this.run.steps?.[number] ?? number}`; }
}

class Texts {
  constructor(root, run) {
    this.run = run;
    marked(root, [["Blue", "given"], [" is given, plain is already final, grey is not, "], ["shaded", "changed"], [" has just changed."]]);
    this.texts = run.samples.map(sample => this.build(root, sample));
    this.frames = run.steps.length;
  }

  build(root, sample) {
    const figure = add(root, "figure"), given = new Set(sample.given), cells = [];
    add(figure, "figcaption", { textContent: `seed ${sample.seed}` });
    const text = add(figure, "div", { className: "text" });
    for (let i = 0; i < sample.end; i++) cells.push(add(text, "span", { className: given.has(i) ? "given" : "" }));
    return { frames: sample.frames, cells };
  }

  draw(number) {
    for (const { frames, cells } of this.texts) {
      const now = frames[number], before = frames[Math.max(number - 1, 0)], final = frames.at(-1);
      cells.forEach((cell, i) => {
        cell.textContent = this.run.words[now[i]];
        cell.classList.toggle("settled", now[i] === final[i]);
        cell.classList.toggle("changed", now[i] !== before[i]);
      });
    }
  }

  name(number) { return `step ${this.run.steps[number]}`; }
}

// Strings, and what they are drawn as once they can be read.
class Molecules {
  constructor(root, run) {
    this.run = run;
    const drawn = run.structures.some(picture => picture !== null);
    marked(root, [[drawn ? "A string is drawn as soon as it can be read as a molecule." : "Strings only: nothing was drawn, or RDKit is not installed."]]);
    const place = add(root, "div", { className: "molecules" });
    this.samples = run.samples.map(sample => this.build(place, sample, drawn));
    this.frames = run.steps.length;
  }

  build(place, sample, drawn) {
    const figure = add(place, "figure"), picture = add(figure, "div", { className: "picture", hidden: !drawn });
    // an image, for the text of an SVG from another page's data may hold a script, and in an image it never runs
    const image = add(picture, "img", { hidden: true }), none = add(picture, "span", { textContent: "no molecule yet" });
    const string = add(figure, "code");
    add(figure, "figcaption", { textContent: `seed ${sample.seed}` });
    return { frames: sample.frames, image, none, string };
  }

  draw(number) {
    for (const { frames, image, none, string } of this.samples) {
      const text = this.run.strings[frames[number]], svg = this.run.structures[frames[number]];
      string.textContent = text || "(empty)";
      image.hidden = svg === null;
      none.hidden = svg !== null;
      if (svg !== null) Object.assign(image, { src: `data:image/svg+xml,${encodeURIComponent(svg)}`, alt: `structure of ${text}` });
    }
  }

  name(number) { return `step ${this.run.steps[number]}`; }
}

const WIDE = 560, HIGH = 360, EDGE = 56, MARKS = ["circle", "square", "diamond", "triangle"];
const COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];

// Perplexity against entropy: a curve per model and number of steps, the points of one temperature marked.
class Frontier {
  constructor(root, run) {
    this.run = run;
    this.frames = run.temperatures.length;
    add(root, "p", { textContent: run.setting });
    const holder = document.createElement("div");
    holder.innerHTML = "<svg></svg>";
    this.chart = holder.firstChild;
    this.chart.setAttribute("viewBox", `0 0 ${WIDE} ${HIGH}`);
    this.chart.setAttribute("class", "chart");
    this.chart.setAttribute("role", "img");
    this.chart.setAttribute("aria-label", "perplexity against entropy; the table below has the numbers");
    root.append(this.chart);
    this.table = add(root, "table", { className: "values" });
    const points = [...run.curves.flatMap(curve => curve.points), run.data];
    const spread = read => { const all = points.map(read); return [Math.min(...all), Math.max(...all)]; };
    [this.left, this.right] = spread(point => point.entropy);
    [this.low, this.high] = spread(point => Math.log(point.perplexity));
  }

  x(entropy) { return EDGE + (WIDE - 2 * EDGE) * (entropy - this.left) / (this.right - this.left || 1); }
  y(perplexity) { return HIGH - EDGE - (HIGH - 2 * EDGE) * (Math.log(perplexity) - this.low) / (this.high - this.low || 1); }

  shape(tag, attributes, words = "") {
    const made = document.createElementNS(this.chart.namespaceURI, tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.textContent = words;
    this.chart.append(made);
  }

  mark(kind, x, y, size, fill, stroke) {
    const d = { circle: `M${x - size},${y}a${size},${size} 0 1 0 ${2 * size},0a${size},${size} 0 1 0 ${-2 * size},0`,
      square: `M${x - size},${y - size}h${2 * size}v${2 * size}h${-2 * size}z`, diamond: `M${x},${y - size * 1.3}l${size * 1.3},${size * 1.3}l${-size * 1.3},${size * 1.3}l${-size * 1.3},${-size * 1.3}z`,
      triangle: `M${x},${y - size}l${size},${2 * size}h${-2 * size}z` }[kind];
    this.shape("path", { d, fill, stroke });
  }

  draw(number) {
    const { curves, data, temperatures } = this.run, now = temperatures[number];
    this.chart.replaceChildren();
    this.shape("path", { class: "axis", d: `M${EDGE},${EDGE / 2}V${HIGH - EDGE}H${WIDE - EDGE / 2}` });
    this.shape("path", { class: "data", d: `M${this.x(data.entropy)},${EDGE / 2}V${HIGH - EDGE}M${EDGE},${this.y(data.perplexity)}H${WIDE - EDGE / 2}` });
    this.shape("text", { x: this.x(data.entropy) + 4, y: EDGE / 2 + 10 }, "data");
    this.shape("text", { x: WIDE / 2, y: HIGH - 14, "text-anchor": "middle" }, "entropy of a sequence (nats)");
    this.shape("text", { x: EDGE, y: 18 }, "perplexity (log scale)");
    for (const end of [this.left, this.right]) this.shape("text", { x: this.x(end), y: HIGH - EDGE + 16, "text-anchor": "middle" }, end.toFixed(2));
    for (const end of [this.low, this.high]) this.shape("text", { x: EDGE - 6, y: this.y(Math.exp(end)) + 4, "text-anchor": "end" }, Math.exp(end).toFixed(0));
    this.table.replaceChildren();
    const head = this.table.insertRow();
    for (const words of ["model", "steps", "T", "entropy", "perplexity", "first sample"]) add(head, "th", { textContent: words });
    curves.forEach((curve, n) => this.curve(curve, COLOURS[n % COLOURS.length], MARKS[n % MARKS.length], now));
  }

  curve({ name, steps, points }, colour, kind, now) {
    const d = points.map(point => `${this.x(point.entropy)},${this.y(point.perplexity)}`).join("L");
    this.shape("path", { class: "curve", d: `M${d}`, stroke: colour });
    for (const point of points) {
      const chosen = point.temperature === now;
      this.mark(kind, this.x(point.entropy), this.y(point.perplexity), chosen ? 7 : 3, chosen ? colour : "none", colour);
      if (!chosen) continue;
      const row = this.table.insertRow();
      for (const words of [name, steps, point.temperature, point.entropy.toFixed(3), point.perplexity.toPrecision(4), point.text]) row.insertCell().textContent = words;
      Object.assign(row.cells[0].style, { borderLeft: `4px solid ${colour}`, paddingLeft: ".5rem" });
    }
  }

  name(number) { return `temperature ${this.run.temperatures[number]}`; }
}

// One column of a table after the other, a bar per line; published numbers are hollow.
class Scores {
  constructor(root, run) {
    this.run = run;
    this.frames = run.columns.length;
    this.caption = add(root, "h3");
    this.table = add(root, "table", { className: "scores" });
    for (const note of run.notes) add(root, "p", { textContent: note });
  }

  draw(number) {
    const { title, bars } = this.run.columns[number], most = Math.max(...bars.map(bar => Math.abs(bar.value ?? 0))) || 1;
    this.caption.textContent = title;
    this.table.replaceChildren();
    for (const bar of bars) {
      const row = this.table.insertRow();
      add(row, "th", { textContent: bar.title, scope: "row" });
      const place = row.insertCell(), length = 100 * Math.abs(bar.value ?? 0) / most;
      add(place, "span", { className: `bar ${bar.kind}` }).style.width = `${length}%`;
      row.insertCell().textContent = bar.words;
    }
  }

  name(number) { return `column ${number + 1}`; }
}

const VIEWS = { boards: Boards, texts: Texts, molecules: Molecules, frontier: Frontier, scores: Scores };
