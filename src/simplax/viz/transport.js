// The controls of everything that is played: step back, play, step on, a slider, a speed and where one is.
// `draw(number)` shows a frame; frames may still be arriving, and are followed until somebody takes the slider.

const SPEEDS = [0.25, 0.5, 1, 2, 4, 8];
const FRAME_MS = 90;

function element(tag, properties, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

export class Transport {
  constructor(root, { draw, label }) {
    this.draw = draw;
    this.label = label;
    this.number = 0;
    this.last = 0;
    this.following = true;
    this.timer = null;
    this.back = this.button("Step back", "‹", () => this.go(this.number - 1));
    this.play = this.button("Play", "Play", () => (this.timer === null ? this.start() : this.stop()));
    this.play.classList.add("play");
    this.on = this.button("Step forward", "›", () => this.go(this.number + 1));
    this.slider = element("input", { type: "range", min: 0, max: 0, value: 0, step: 1 });
    this.slider.setAttribute("aria-label", "step");
    this.slider.addEventListener("input", () => this.go(Number(this.slider.value)));
    this.speed = element("select", {}, ...SPEEDS.map(value => element("option", { value, textContent: `${value}×` })));
    this.speed.setAttribute("aria-label", "speed");
    this.speed.value = "1";
    this.speed.addEventListener("change", () => { if (this.timer !== null) { this.stop(); this.start(); } });
    this.state = element("output", { className: "state" });
    root.classList.add("transport");
    root.append(this.back, this.play, this.on, this.slider, this.speed, this.state);
  }

  button(name, text, act) {
    const made = element("button", { type: "button", textContent: text, title: name });
    made.setAttribute("aria-label", name);
    made.addEventListener("click", act);
    return made;
  }

  // There are `count` frames now; the newest is shown while nobody looks elsewhere.
  extend(count) {
    this.last = Math.max(count - 1, 0);
    this.slider.max = this.last;
    if (this.following) this.show(this.last);
    else this.show(Math.min(this.number, this.last));
  }

  reset() {
    this.stop();
    this.following = true;
    this.number = this.last = 0;
    this.slider.max = this.slider.value = 0;
    this.state.textContent = "";
  }

  show(number) {
    this.number = number;
    this.slider.value = number;
    this.draw(number);
    const words = this.label(number, this.last);
    this.state.textContent = words;
    this.slider.setAttribute("aria-valuetext", words);
  }

  // Somebody chose a frame: nothing moves it from there.
  go(number) {
    this.stop();
    const chosen = Math.max(0, Math.min(number, this.last));
    this.following = chosen === this.last;
    this.show(chosen);
  }

  start() {
    if (this.last === 0) return;
    if (this.number >= this.last) this.show(0);
    this.following = false;
    this.name("Pause");
    this.timer = setInterval(() => {
      if (this.number >= this.last) { this.stop(); this.following = true; } else this.show(this.number + 1);
    }, FRAME_MS / Number(this.speed.value));
  }

  stop() {
    clearInterval(this.timer);
    this.timer = null;
    this.name("Play");
  }

  name(words) {
    this.play.textContent = this.play.title = words;
    this.play.setAttribute("aria-label", words);
  }
}
