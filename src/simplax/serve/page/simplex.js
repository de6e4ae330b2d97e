// The figure that explains the method: a triangle with the density of w_t, one draw of it, and the bridges from it.
import { button, byId, make, svg } from "./dom.js";
import { alphaOf, atoms, bridge, bridgeFrom, dirichlet, logDensity, noised, uniforms } from "./simplex_math.js";

const NAMES = ["A", "B", "C"], CLASSES = ["a", "b", "c"], SIDE = 520, TOP = 34, HIGH = SIDE * Math.sqrt(3) / 2, LEFT = 30;
const CORNERS = [[LEFT + SIDE / 2, TOP], [LEFT, TOP + HIGH], [LEFT + SIDE, TOP + HIGH]];
const WIDTH = SIDE + 2 * LEFT, HEIGHT = HIGH + TOP + 34, GRID = 2, DRAWS = 150, PACE = 0.004;

const point = w => [0, 1].map(axis => w.reduce((sum, value, k) => sum + value * CORNERS[k][axis], 0));
function weights([x, y]) {
  const a = 1 - (y - TOP) / HIGH, c = (x - LEFT) / SIDE - a / 2;
  return [a, 1 - a - c, c];
}
function inside(w, least = 0) {
  const kept = w.map(value => Math.max(value, least)), sum = kept.reduce((a, b) => a + b, 0);
  return kept.map(value => value / sum);
}

export class SimplexTab {
  constructor() {
    this.t = 0.5;
    this.eta = 1;
    this.x = [0.72, 0.18, 0.1];
    this.seed = 1;
    this.canvas = make("canvas", { width: WIDTH / GRID, height: HEIGHT / GRID, attributes: { "aria-hidden": "true" } });
    this.layer = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}` });
    byId("triangle").append(this.canvas, this.layer);
    this.handle = svg("circle", { class: "belief", r: 9, tabindex: 0, role: "slider", "aria-label": "what the network believes, x̂", "aria-valuemin": 0, "aria-valuemax": 100 });
    this.handle.addEventListener("keydown", event => this.key(event));
    this.handle.addEventListener("pointerdown", event => this.handle.setPointerCapture(event.pointerId));
    this.handle.addEventListener("pointermove", event => { if (this.handle.hasPointerCapture(event.pointerId)) this.drag(event); });
    this.still = svg("g");
    this.layer.append(this.still, this.handle);
    this.controls();
    this.draw();
  }

  controls() {
    const root = make("fieldset", { className: "settings" }, make("legend", { textContent: "State" }));
    const slider = (id, words, range, read, write) => {
      const shown = make("output"), control = make("input", { type: "range", id, ...range });
      const show = () => { shown.textContent = read(Number(control.value)); control.setAttribute("aria-valuetext", shown.textContent); };
      control.addEventListener("input", () => { write(Number(control.value)); show(); this.draw(); });
      root.append(make("label", { htmlFor: id, textContent: words }), control, shown);
      show();
      return [control, show];
    };
    const eta = place => Number((10 ** place).toPrecision(2));
    [this.time, this.showTime] = slider("simplex-t", "time t", { min: 0, max: 1, step: 0.005, value: this.t }, value => value.toFixed(2), value => { this.t = value; });
    slider("simplex-eta", "concentration η", { min: -2, max: 2, step: 0.05, value: 0 }, eta, value => { this.eta = eta(value); });
    const again = button("Another draw", () => { this.seed += 1; this.draw(); });
    const animate = button("Let t run from 1 to 0", () => this.animate(animate));
    byId("simplex-settings").append(root, make("div", { className: "row simplex-row" }, again, animate));
  }

  animate(control) {
    if (this.frame) { cancelAnimationFrame(this.frame); this.frame = null; control.textContent = "Let t run from 1 to 0"; return; }
    this.t = 1;
    control.textContent = "Stop";
    const next = () => {
      this.t = Math.max(0, this.t - PACE);
      this.time.value = this.t;
      this.showTime();
      this.draw();
      if (this.t > 0) this.frame = requestAnimationFrame(next);
      else { this.frame = null; control.textContent = "Let t run from 1 to 0"; }
    };
    this.frame = requestAnimationFrame(next);
  }

  key(event) {
    const move = { ArrowUp: [0, -8], ArrowDown: [0, 8], ArrowLeft: [-8, 0], ArrowRight: [8, 0] }[event.key];
    if (!move) return;
    event.preventDefault();
    const [x, y] = point(this.x);
    this.believe(weights([x + move[0], y + move[1]]));
  }

  drag(event) {
    const box = this.layer.getBoundingClientRect();
    this.believe(weights([(event.clientX - box.left) * WIDTH / box.width, (event.clientY - box.top) * HEIGHT / box.height]));
  }

  believe(w) {
    this.x = inside(w, 0.005);
    this.draw();
  }

  draw() {
    const p = noised(this.x, alphaOf(this.t)), u = uniforms(this.seed);
    const sticks = atoms(p, this.eta, u), w = [0, 0, 0];
    for (const { category, weight } of sticks) w[category] += weight;
    const state = inside(w, 1e-9), cloud = uniforms(this.seed + 7919);
    this.density(p.map(value => this.eta * value));
    this.still.replaceChildren(
      svg("path", { class: "edge", d: `M${CORNERS.map(corner => corner.join()).join("L")}Z` }),
      ...Array.from({ length: DRAWS }, () => dot(dirichlet(p.map(value => this.eta * value), cloud), "draw", 2.2)),
      ...NAMES.map((_, k) => curve(s => bridge(this.x, k, s, this.t), this.t, `bridge ${CLASSES[k]}`)),
      curve(s => bridgeFrom(this.x, state, s, this.t), this.t, "bridge whole"),
      cross(p), dot(state, "state", 7), ...labels(),
    );
    const [x, y] = point(this.x), percent = this.x.map(value => Math.round(100 * value));
    this.handle.setAttribute("cx", x);
    this.handle.setAttribute("cy", y);
    this.handle.setAttribute("aria-valuenow", percent[0]);
    this.handle.setAttribute("aria-valuetext", NAMES.map((name, k) => `${name} ${percent[k]} %`).join(", "));
    this.explain(p, state, sticks);
  }

  // The density of Dir(eta p_t), relative to what all but the densest hundredth of the triangle has.
  density(concentration) {
    const { width, height } = this.canvas, context = this.canvas.getContext("2d"), image = context.createImageData(width, height);
    const logs = new Float64Array(width * height).fill(NaN), seen = [];
    for (let j = 0; j < height; j++) for (let i = 0; i < width; i++) {
      const w = weights([(i + 0.5) * GRID, (j + 0.5) * GRID]);
      if (Math.min(...w) > 0.002) seen.push(logs[j * width + i] = logDensity(w, concentration));
    }
    const top = seen.sort((a, b) => a - b)[Math.floor(seen.length * 0.99)];
    const colour = getComputedStyle(document.documentElement).getPropertyValue("--accent").trim().match(/\w\w/g).map(two => parseInt(two, 16));
    for (let n = 0; n < logs.length; n++) {
      if (Number.isNaN(logs[n])) continue;
      image.data.set([...colour, Math.round(190 * Math.min(1, Math.exp(logs[n] - top)) ** 0.6)], 4 * n);
    }
    context.putImageData(image, 0, 0);
  }

  explain(p, w, sticks) {
    const bar = make("div", { className: "sticks", attributes: { role: "img", "aria-label": `${sticks.length} atoms: ` + sticks.slice(0, 6).map(({ category, weight }) => `${NAMES[category]} ${Math.round(100 * weight)} %`).join(", ") } });
    for (const { category, weight } of sticks) {
      const stick = make("i", { className: CLASSES[category], textContent: weight > 0.06 ? NAMES[category] : "" });
      stick.style.width = `${100 * weight}%`;
      bar.append(stick);
    }
    const words = values => values.map((value, k) => `${NAMES[k]} ${(100 * value).toFixed(1)} %`).join("  ");
    const facts = make("dl", { className: "facts" });
    const rows = [["x̂", words(this.x)], ["pₜ (+)", words(p)], ["wₜ (●)", words(w)], ["αₜ", alphaOf(this.t).toFixed(2)],
      ["re-anchored", `${(100 * this.eta / (1 + this.eta)).toFixed(1)} % of steps: η / (1 + η)`]];
    for (const [name, value] of rows) facts.append(make("dt", { textContent: name }), make("dd", { textContent: value }));
    const many = sticks.length === 1 ? "one atom" : `${sticks.length} atoms`;
    byId("atoms").replaceChildren(
      make("h2", { textContent: `One draw of wₜ: ${many} on a stick` }), bar, facts,
      make("p", { className: "hint", textContent: "Shaded: the density of Dir(η pₜ), with some draws of it. Small η puts w at the corners, large η at pₜ. Thin lines: bridges from each corner as s falls from t to 0. Thick dashed line: the bridge from w, their average." }),
    );
  }
}

const dot = (w, name, r) => { const [cx, cy] = point(w); return svg("circle", { class: name, cx, cy, r }); };
function cross(w) {
  const [x, y] = point(w);
  return svg("path", { class: "mean", d: `M${x - 8},${y}H${x + 8}M${x},${y - 8}V${y + 8}` });
}
function curve(law, t, name) {
  const points = Array.from({ length: 41 }, (_, n) => point(law(t * (1 - n / 40))).map(value => value.toFixed(1)).join());
  return svg("path", { class: name, d: `M${points.join("L")}` });
}
function labels() {
  const places = [[0, -12, "middle"], [-4, 22, "middle"], [4, 22, "middle"]];
  return NAMES.map((name, k) => {
    const text = svg("text", { x: CORNERS[k][0] + places[k][0], y: CORNERS[k][1] + places[k][1], "text-anchor": places[k][2] });
    text.textContent = name;
    return text;
  });
}
