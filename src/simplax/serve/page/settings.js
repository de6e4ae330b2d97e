// Sliders and fields of one run; `values()` is what a request needs.
import { make } from "./dom.js";

// eta on a logarithmic scale, with zero at its left end
const ETA_LOW = -3, ETA_HIGH = 3, ETA_STEPS = 60;
const etaAt = place => place <= 0 ? 0 : Number((10 ** (ETA_LOW + (ETA_HIGH - ETA_LOW) * place / ETA_STEPS)).toPrecision(2));
const placeOf = eta => eta > 0 ? Math.round((Math.log10(eta) - ETA_LOW) * ETA_STEPS / (ETA_HIGH - ETA_LOW)) : 0;

const NUMBERS = {
  steps: { words: "network calls", min: 2, max: 256, step: 1 },
  temperature: { words: "temperature", min: 0.05, max: 2, step: 0.05 },
  top_p: { words: "top-p", min: 0.05, max: 1, step: 0.05 },
  attempts: { words: "attempts", min: 1, max: 16, step: 1 },
  num: { words: "how many", min: 1, max: 8, step: 1 },
};

export class Settings {
  constructor(title, models, fields, { seed = true } = {}) {
    this.models = models;
    this.readers = {};
    this.root = make("fieldset", { className: "settings" }, make("legend", { textContent: title }));
    if (models.length > 1) this.choice("model", "model", models.map(one => one.name));
    for (const name of fields) name === "eta" ? this.eta() : this.slider(name, NUMBERS[name]);
    if (seed) this.seed();
    this.modelChanged();
  }

  get model() {
    const name = this.readers.model?.();
    return this.models.find(one => one.name === name) ?? this.models[0];
  }

  values() {
    const read = Object.entries(this.readers).map(([name, reader]) => [name, reader()]);
    return Object.fromEntries(read.filter(([, value]) => value !== null));
  }

  labelled(name, words, control, shown = null) {
    const label = make("label", { textContent: words });
    control.id = label.htmlFor = `${name}-${Settings.count++}`;
    this.root.append(label, control);
    if (shown) {
      shown.htmlFor = control.id;
      this.root.append(shown);
    }
    control.dataset.setting = name;
    return control;
  }

  slider(name, { words, ...range }) {
    const shown = make("output"), control = make("input", { type: "range", ...range });
    const show = () => { shown.textContent = Number(control.value); };
    control.addEventListener("input", show);
    this.labelled(name, words, control, shown);
    this.readers[name] = () => Number(control.value);
    this[`set_${name}`] = value => { control.value = value; show(); };
    show();
    if (name === "attempts" || name === "num") this[`set_${name}`](1);
  }

  eta() {
    const shown = make("output"), control = make("input", { type: "range", min: 0, max: ETA_STEPS, step: 1 });
    let own = null;  // a schedule that no slider can show, kept until somebody moves it
    const show = () => {
      shown.textContent = own ?? String(etaAt(Number(control.value)));
      control.setAttribute("aria-valuetext", shown.textContent);
    };
    control.addEventListener("input", () => { own = null; show(); });
    this.labelled("eta", "η", control, shown);
    this.readers.eta = () => control.disabled ? null : own ?? etaAt(Number(control.value));
    this.set_eta = spelled => {
      control.disabled = spelled === null;
      own = spelled === null || Number.isFinite(Number(spelled)) ? null : spelled;
      control.value = placeOf(own === null ? Number(spelled ?? 0) : 1);
      if (own === null && spelled !== null && etaAt(Number(control.value)) !== Number(spelled)) own = spelled;
      show();
      if (spelled === null) shown.textContent = "none";
    };
  }

  seed() {
    const control = make("input", { type: "number", min: 0, max: 2 ** 30 - 1, step: 1, value: 0 });
    this.labelled("seed", "seed", control);
    this.readers.seed = () => Math.max(0, Math.min(2 ** 30 - 1, Math.round(Number(control.value) || 0)));
    this.set_seed = value => { control.value = value; };
  }

  choice(name, words, options) {
    const control = make("select", {}, ...options.map(one => make("option", { value: one, textContent: one })));
    control.addEventListener("change", () => this.modelChanged());
    this.labelled(name, words, control);
    this.readers[name] = () => control.value;
  }

  // The model's own defaults, once they are known and whenever another model is chosen.
  modelChanged() {
    const own = this.model?.defaults;
    if (own) for (const name of ["steps", "temperature", "top_p", "eta"]) this[`set_${name}`]?.(own[name]);
  }
}
Settings.count = 0;
