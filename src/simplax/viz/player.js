// All runs of the page, and of other pages that are put beside it, at the same share of their frames.

const views = [];
const position = (view, number, last) => last ? Math.round(number * (view.frames - 1) / last) : 0;
const transport = new Transport(document.getElementById("controls"), {
  draw: number => { for (const view of views) view.draw(position(view, number, transport.last)); },
  label: (number, last) => `${views[0].name(position(views[0], number, last))} of ${views[0].name(views[0].frames - 1).replace(/^\D*/, "")}`,
});

function show(runs) {
  for (const run of runs) {
    const section = document.createElement("section"), title = document.createElement("h2");
    title.textContent = run.name;
    section.append(title);
    document.getElementById("runs").append(section);
    views.push(new VIEWS[run.kind](section, run));
  }
  const shown = transport.last ? transport.number / transport.last : 0;
  transport.following = false;
  transport.extend(Math.max(...views.map(view => view.frames)));
  transport.go(Math.round(shown * transport.last));
}

document.getElementById("other").addEventListener("change", async event => {
  const message = document.getElementById("message");
  try {
    const page = new DOMParser().parseFromString(await event.target.files[0].text(), "text/html");
    show(JSON.parse(page.getElementById("data").textContent));
    message.textContent = "";
  } catch {
    message.textContent = "This file is no page that simplax wrote.";
  }
});

show(JSON.parse(document.getElementById("data").textContent));
