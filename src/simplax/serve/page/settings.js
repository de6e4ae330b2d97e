// Sliders and fields of one run; `values()` is what a request needs.
import { button, make } from "./dom.js";

// eta on a logarithmic scale, with zero at its left end
const ETA_LOW = -3, ETA_HIGH = 3, ETA_STEPS = 60;
const etaAt = place => place <= 0 ? 0 : Number((10 ** (ETA_LOW + (ETA_HIGH - ETA_LOW) * place / ETA_STEPS)).toPrecision(2));
const placeOf = eta => eta > 0 ? Math.round((Math.log10(eta) - ETA_LOW) * ETA_STEPS / (ETA_HIGH - ETA_LOW)) : 0;

const OWN = "the model's own";
const NUMBERS = {
  steps: { words: "network calls", min: 2, max: 256, step: 1 },
  temperature: { words: "temperature", min: 0.05, max: 2, step: 0.05 },
  top_p: { words: "top-p", min: 0.05, max: 1, step: 0.05 },
  attempts: { words: "attempts", min: 1, max: 16, step: 1 },
  num: { words: "how many", min: 1, max: 8, step: 1 },
};

// Simplax's sampler at a concentration at which the simplex state is neither a corner nor the mean
const SIMPLAX = "simplax", PRESET_ETA = "1";

export class Settings {
  constructor(title, models, fields, { seed = true } = {}) {
    this.models = models;
    this.readers = {};
    this.controls = {};
    this.fixed = false;
    this.root = make("fieldset", { className: "settings" }, make("legend", { textContent: title }));
    if (models.length > 1) this.choice("model", "model", models.map(one => one.name), () => this.modelChanged());
    else this.readers.model = () => models[0].name;
    if (fields.includes("eta")) this.presets();
    this.choice("sampler", "sampler", [OWN], () => this.samplerChanged());
    this.readers.sampler = () => this.chosen.name;
    for (const name of fields) name === "eta" ? this.eta() : this.slider(name, NUMBERS[name]);
    if (seed) this.seed();
    this.modelChanged();
  }

  // The chosen sampler of the model, or its own.
  get chosen() {
    const { eta, fixed_steps: fixed, steps } = this.model.defaults;
    const own = { name: null, eta, fixed_steps: fixed ? steps : null };
    return this.model.samplers.find(one => one.name === this.sampler.value) ?? own;
  }

  choose(sampler, eta = null) {
    this.sampler.value = sampler;
    this.samplerChanged();
    if (eta !== null) this.set_eta(eta);
    this.pressed();
  }

  // One press for the model's own sampler, one for Simplax's with a state to look at
  presets() {
    this.own = button("The model's own", () => this.choose(OWN));
    this.state = button(`Simplax, η = ${PRESET_ETA}`, () => this.choose(SIMPLAX, PRESET_ETA));
    this.presetRow = make("div", { className: "row presets", attributes: { role: "group", "aria-label": "sampler settings to start from" } }, this.own, this.state);
    this.root.append(this.presetRow);
  }

  pressed() {
    if (!this.presetRow) return;
    this.own.setAttribute("aria-pressed", String(this.chosen.name === null));
    this.state.setAttribute("aria-pressed", String(this.chosen.name === SIMPLAX && String(this.readers.eta?.()) === PRESET_ETA));
  }

  samplerChanged() {
    const { eta, fixed_steps: fixed } = this.chosen, control = this.controls.steps;
    control.disabled = fixed !== null;
    this.set_steps(fixed ?? (this.fixed ? this.model.defaults.steps : Number(control.value)));
    this.fixed = fixed !== null;
    this.set_eta?.(eta);
    this.pressed();
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
    this.controls[name] = control;
    this.readers[name] = () => control.disabled ? null : Number(control.value);
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
    control.addEventListener("input", () => { own = null; show(); this.pressed(); });
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

  choice(name, words, options, changed) {
    const control = make("select", {}, ...options.map(one => make("option", { value: one, textContent: one })));
    control.addEventListener("change", changed);
    this[name === "model" ? "modelChoice" : name] = this.labelled(name, words, control);
    this.readers[name] = () => control.value;
  }

  // The model's samplers and own defaults, at first and whenever another model is chosen.
  modelChanged() {
    const own = this.model.defaults, names = [OWN, ...this.model.samplers.map(one => one.name)];
    this.sampler.replaceChildren(...names.map(one => make("option", { value: one, textContent: one })));
    for (const name of ["steps", "temperature", "top_p"]) this[`set_${name}`]?.(own[name]);
    // a model whose own sampler has a concentration shows its state anyway
    if (this.presetRow) this.presetRow.hidden = own.eta !== null || !names.includes(SIMPLAX);
    this.fixed = false;
    this.samplerChanged();
  }

  setModel(name) {
    this.modelChoice.value = name;
    this.modelChanged();
  }
}
Settings.count = 0;
