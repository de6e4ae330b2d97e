// The text tab: a prompt or a text with gaps, and the tokens on their way.
import { stream } from "./api.js";
import { button, byId, make, say, startStop } from "./dom.js";
import { Settings } from "./settings.js";
import { Transport } from "./transport.js";

export class TextTab {
  constructor(models) {
    this.message = byId("text-message");
    this.settings = new Settings("Run", models, ["steps", "eta", "temperature", "top_p", "num"]);
    byId("text-settings").append(this.settings.root);
    this.transport = new Transport(byId("text-transport"), { draw: number => this.show(number), label: (number, last) => `step ${number} of ${last}` });
    const prompt = byId("prompt");
    const gap = button("Insert a gap", () => {
      prompt.setRangeText("<gap:8>", prompt.selectionStart, prompt.selectionEnd, "end");
      prompt.focus();
    });
    const start = startStop("Denoise", this.message, signal => this.run(signal));
    start.id = "denoise";
    byId("text-actions").append(start, gap);
    this.look(null);
  }

  async run(signal) {
    this.frames = [];
    this.views = [];
    this.look(null);
    this.transport.reset();
    byId("texts").replaceChildren();
    const asked = { text: byId("prompt").value, belief: true, ...this.settings.values() };
    const answer = await stream("/v1/text/sample/stream", asked, signal, {
      start: data => this.begin(data),
      queued: data => say(this.message, data.ahead === null ? "" : `Waiting: ${data.ahead} before this one.`),
      step: data => this.add(data),
    });
    const gaps = answer.gaps[0].length ? ` First gap: “${answer.gaps[0][0].trim()}”.` : "";
    say(this.message, `${answer.calls} calls in ${answer.seconds} s.${gaps}`);
    this.show(this.transport.number);
  }

  begin({ length, given, start, num }) {
    const known = new Set(given);
    for (let n = 0; n < num; n++) {
      const text = make("div", { className: "tokens", tabIndex: 0, attributes: { role: "group", "aria-label": `answer ${n + 1}; arrow keys move between tokens` } }), cells = [];
      for (let i = 0; i < length; i++) {
        const cell = make("span", { className: known.has(i) ? "given" : "", hidden: i < start });
        if (n === 0) cell.addEventListener("mouseenter", () => this.look(i));
        cells.push(cell);
      }
      if (n === 0) text.addEventListener("keydown", event => this.key(event, length));
      text.append(...cells);
      byId("texts").append(text);
      this.views.push(cells);
    }
  }

  // A frame is every token there, and the newest belief about each position of the first answer.
  add({ changed, belief }) {
    const before = this.frames.at(-1);
    const words = changed.map((cells, n) => {
      const row = before ? [...before.words[n]] : [];
      for (const [place, word] of cells) row[place] = word;
      return row;
    });
    const beliefs = new Map(before?.beliefs ?? []);
    for (const [place, top] of belief ?? []) beliefs.set(place, { top, step: this.frames.length });
    this.frames.push({ words, beliefs });
    this.transport.extend(this.frames.length);
  }

  show(number) {
    const now = this.frames[number], before = this.frames[Math.max(number - 1, 0)], final = this.frames.at(-1);
    if (!now) return;
    this.views.forEach((cells, n) => cells.forEach((cell, i) => {
      cell.textContent = now.words[n][i] ?? "";
      const given = cell.classList.contains("given"), settled = now.words[n][i] === final.words[n][i];
      cell.classList.toggle("open", !given && !settled);
      cell.classList.toggle("changed", now.words[n][i] !== before.words[n][i]);
    }));
    if (this.looked !== null) this.look(this.looked);
  }

  key(event, length) {
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!move) return;
    event.preventDefault();
    this.look(Math.max(0, Math.min(length - 1, (this.looked ?? -1) + move)));
  }

  look(place) {
    this.looked = place;
    this.views?.[0]?.forEach((cell, i) => cell.classList.toggle("looked", i === place));
    const card = byId("token-card");
    if (place === null) {
      card.replaceChildren(make("p", { className: "hint", textContent: "Point at a token, or focus the text and use the arrow keys: here is what the network believed when it last changed." }));
      return;
    }
    const frame = this.frames[this.transport.number], said = frame?.beliefs.get(place), word = frame?.words[0][place] ?? "";
    const title = make("h2", { textContent: `Token ${place + 1}: “${word.replaceAll("\n", "↵")}”` });
    if (!said) { card.replaceChildren(title, make("p", { className: "hint", textContent: "It is given, or still pure noise." })); return; }
    const facts = make("dl", { className: "facts" });
    for (const [token, chance] of said.top) facts.append(make("dt", { textContent: `“${token.replaceAll("\n", "↵")}”` }), make("dd", { textContent: `${(chance / 10).toFixed(1)} %` }));
    card.replaceChildren(title, make("h3", { textContent: `Likeliest tokens at step ${said.step}, when it last changed` }), facts);
  }
}
