/* What the buttons ask: the best mapping, why it is slow, what differs from what is pinned, and what leaves the page. */
import { byId, make, tell } from "./make.js";
import { ask } from "./asking.js";
import { fill } from "./sections.js";

/* Shows that something takes its time, and what is wrong if it fails; one question at a time. */
async function asked(button, told, name, question) {
  if (button.getAttribute("aria-busy") === "true") return null;
  button.setAttribute("aria-busy", "true");
  tell(byId("busy"), told);
  const found = await ask(name, question);
  button.setAttribute("aria-busy", "false");
  tell(byId("busy"), "");
  tell(byId("problem-page"), (found.problems || []).map((each) => each.text).join("\n"));
  return found.problems ? null : found;
}

/* A table whose rows can be taken: each leads to a state of the page. */
function offer(found, take) {
  const place = byId("asked");
  place.replaceChildren();
  found.sections.forEach((each) => {
    const root = fill(place, each);
    const close = make("button", { type: "button", class: "close" }, "Close");
    close.addEventListener("click", () => place.replaceChildren());
    root.prepend(close);
    [...root.querySelectorAll("tbody tr")].forEach((row, at) => {
      const use = make("button", { type: "button", "aria-label": `Use ${row.firstChild.textContent}` }, "Use");
      use.addEventListener("click", () => take(found.states[at]));
      row.append(make("td", {}, use));
    });
    root.querySelectorAll("thead tr").forEach((row) => row.append(make("td")));
  });
  if (place.getBoundingClientRect().top > window.innerHeight) place.scrollIntoView(); // on a narrow window it is below the controls
}

export function build(desk, take) {
  const question = () => ({ state: desk.state });
  byId("best").addEventListener("click", async (event) => {
    const found = await asked(event.currentTarget, "Searching every mapping …", "best", question());
    if (!found) return;
    const takeFound = (state) => take(state, "", desk.mapping);
    offer(found, takeFound);
    if (found.feasible) takeFound(found.states[0]);
  });
  byId("why").addEventListener("click", async (event) => {
    const found = await asked(event.currentTarget, "Trying single changes …", "why", question());
    if (found) offer(found, take);
  });
  byId("pin").addEventListener("click", () => {
    desk.pinned = desk.pinned ? null : { ...desk.state };
    take(desk.state);
  });
  buildExports(question);
}

export function showPin(desk, answer) {
  byId("pin").textContent = desk.pinned ? "Unpin" : "Pin, to compare";
  byId("pin").setAttribute("aria-pressed", String(Boolean(desk.pinned)));
  if (desk.pinned && answer.beside) fill(byId("beside"), answer.beside);
  else byId("beside").replaceChildren();
}

function buildExports(question) {
  const panel = byId("exports");
  byId("export").addEventListener("click", (event) => {
    panel.hidden = !panel.hidden;
    event.currentTarget.setAttribute("aria-expanded", String(!panel.hidden));
  });
  byId("write").addEventListener("click", async (event) => {
    const found = await asked(event.currentTarget, "Writing …", "export", { ...question(), form: byId("form").value });
    if (!found) return;
    tell(byId("written"), found.text);
    offerFile(found);
  });
  byId("report").addEventListener("click", async (event) => {
    const found = await asked(event.currentTarget, "Making the report: search and sensitivity …", "report", question());
    if (!found) return;
    tell(byId("written"), "");
    offerFile(found);
    byId("save").click();
  });
}
/* A link that saves a text as a file. */
function offerFile({ text, file }) {
  const link = byId("save");
  if (link.href) URL.revokeObjectURL(link.href);
  link.href = URL.createObjectURL(new Blob([text]));
  link.download = file;
  tell(link, `Save ${file}`);
}
