// Small helpers that every part uses.

export const byId = id => document.getElementById(id);

export function make(tag, properties = {}, ...children) {
  const { attributes = {}, ...plain } = properties;
  const made = Object.assign(document.createElement(tag), plain);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

export function button(words, act, className = "") {
  const made = make("button", { type: "button", textContent: words, className });
  made.addEventListener("click", act);
  return made;
}

const SVG = "http://www.w3.org/2000/svg";
export function svg(tag, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// A line for people: plain, or a problem. Sentences of the library begin in lower case.
export function say(place, words, bad = false) {
  place.textContent = bad ? words.charAt(0).toUpperCase() + words.slice(1) : words;
  place.classList.toggle("bad", bad);
}

// A button that starts something and, while it runs, stops it. `work(signal)` is what it starts.
export function startStop(words, message, work) {
  let control = null;
  const made = button(words, async () => {
    if (control) { control.abort(); return; }
    control = new AbortController();
    made.textContent = "Stop";
    say(message, "");
    try {
      await work(control.signal);
    } catch (error) {
      if (error.name === "AbortError") say(message, "Stopped.");
      else say(message, error.message, true);
    } finally {
      control = null;
      made.textContent = words;
    }
  }, "primary");
  return made;
}
