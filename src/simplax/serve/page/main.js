// The page: tabs, and the models that this server has.
import { get, useToken } from "./api.js";
import { byId, say } from "./dom.js";
import { MoleculesTab } from "./molecules.js";
import { SimplexTab } from "./simplex.js";
import { SudokuTab } from "./sudoku.js";
import { TextTab } from "./text.js";

const TABS = { sudoku: SudokuTab, text: TextTab, molecules: MoleculesTab };
const tabs = [...document.querySelectorAll("[role=tab]")];

function choose(tab) {
  for (const one of tabs) {
    const chosen = one === tab;
    one.setAttribute("aria-selected", String(chosen));
    one.tabIndex = chosen ? 0 : -1;
    byId(one.getAttribute("aria-controls")).hidden = !chosen;
  }
  history.replaceState(null, "", `#${tab.getAttribute("aria-controls")}`);
}

for (const tab of tabs) {
  tab.addEventListener("click", () => choose(tab));
  tab.addEventListener("keydown", event => {
    const shown = tabs.filter(one => !one.hidden), move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!move) return;
    const next = shown[(shown.indexOf(tab) + move + shown.length) % shown.length];
    choose(next);
    next.focus();
  });
}

async function load() {
  let models;
  try {
    ({ models } = await get("/v1/models"));
  } catch (error) {
    say(byId("server"), error.message, true);
    return;
  }
  byId("token").hidden = true;
  say(byId("server"), `models: ${models.map(one => one.name).join(", ")}`);
  for (const [kind, Tab] of Object.entries(TABS)) {
    const own = models.filter(one => one.kind === kind), tab = byId(`tab-${kind}`);
    tab.hidden = !own.length;
    if (own.length) new Tab(own);
  }
  const asked = tabs.find(one => `#${one.getAttribute("aria-controls")}` === location.hash && !one.hidden);
  choose(asked ?? tabs.find(one => !one.hidden));
  document.body.dataset.ready = "yes";
}

document.addEventListener("token-needed", () => { byId("token").hidden = false; });
byId("token").addEventListener("submit", event => {
  event.preventDefault();
  useToken(byId("secret").value);
  load();
});
new SimplexTab();
load();
