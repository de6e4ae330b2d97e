// Requests to the server this page came from: one answer, or a stream of events.

let token = sessionStorage.getItem("token") ?? "";

export function useToken(words) {
  token = words;
  sessionStorage.setItem("token", words);
}

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

const LOST = "The server cannot be reached. Is it still running?";

async function ask(path, options = {}) {
  const headers = { "content-type": "application/json" };
  if (token) headers.authorization = `Bearer ${token}`;
  let response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, LOST);
  }
  if (response.ok) return response;
  const said = await response.json().catch(() => ({}));
  if (response.status === 401) document.dispatchEvent(new CustomEvent("token-needed"));
  throw new Refused(response.status, said.error ?? `The server answered ${response.status}.`);
}

export const get = async path => (await ask(path)).json();

// Calls `on[name](data)` for each event; the promise holds the data of `done`. `signal` ends it early.
export async function stream(path, body, signal, on) {
  const response = await ask(path, { method: "POST", body: JSON.stringify(body), signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    let part;
    try {
      part = await reader.read();
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Refused(0, "The connection broke before the end; what had arrived is still here.");
    }
    if (part.done) throw new Refused(0, "The connection broke before the end; what had arrived is still here.");
    text += part.value;
    const events = text.split("\n\n");
    text = events.pop();
    for (const event of events) {
      const [, name, data] = event.match(/^event: (\w+)\ndata: (.*)$/s);
      const said = JSON.parse(data);
      if (name === "error") throw new Refused(said.status, said.error);
      if (name === "done") return said;
      on[name]?.(said);
    }
  }
}
