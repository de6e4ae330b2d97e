// The molecules tab: strings from noise, drawn once they can be read.
import { stream } from "./api.js";
import { byId, make, say, startStop } from "./dom.js";
import { Settings } from "./settings.js";
import { Transport } from "./transport.js";

export class MoleculesTab {
  constructor(models) {
    this.message = byId("molecules-message");
    this.settings = new Settings("Run", models, ["steps", "eta", "temperature", "top_p", "num"]);
    this.settings.set_num(4);
    byId("molecules-settings").append(this.settings.root);
    this.transport = new Transport(byId("molecules-transport"), { draw: number => this.show(number), label: (number, last) => `step ${number} of ${last}` });
    const start = startStop("Denoise", this.message, signal => this.run(signal));
    start.id = "draw";
    byId("molecules-actions").append(start);
  }

  async run(signal) {
    this.frames = [];
    this.transport.reset();
    const asked = this.settings.values();
    this.views = Array.from({ length: asked.num }, () => ({ picture: make("div", { className: "blank" }), words: make("figcaption") }));
    byId("structures").replaceChildren(...this.views.map(({ picture, words }) => make("figure", {}, picture, words)));
    const answer = await stream("/v1/molecules/sample/stream", asked, signal, {
      start: data => { byId("no-drawings").hidden = data.drawings; },
      queued: data => say(this.message, data.ahead === null ? "" : `Waiting: ${data.ahead} before this one.`),
      step: data => { this.frames.push(data); this.transport.extend(this.frames.length); },
    });
    Object.assign(this.frames.at(-1), { strings: answer.strings, structures: answer.structures });
    this.show(this.transport.number);
    const told = answer.valid.every(valid => valid !== null), many = answer.valid.length;
    const good = told ? `${answer.valid.filter(Boolean).length} of ${many} can be read as molecules` : `${many} strings; whether they are molecules is not known`;
    say(this.message, `${good}; ${answer.calls} calls in ${answer.seconds} s.`);
  }

  show(number) {
    const frame = this.frames[number];
    frame?.strings.forEach((text, i) => {
      const view = this.views[i], drawn = frame.structures[i];
      view.words.textContent = text || "(nothing)";
      const picture = drawn
        ? make("img", { src: `data:image/svg+xml,${encodeURIComponent(drawn)}`, alt: `structure of ${text}` })
        : make("div", { className: "blank", textContent: byId("no-drawings").hidden ? "no molecule" : "" });
      view.picture.replaceWith(picture);
      view.picture = picture;
    });
  }
}
