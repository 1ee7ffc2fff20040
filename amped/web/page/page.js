/* The page: its state, what follows when something moves, and what is drawn of the answer. */
import { byId, make, tell } from "./make.js";
import * as actions from "./actions.js";
import * as address from "./address.js";
import * as controls from "./controls.js";
import * as drop from "./drop.js";
import { Latest, ask } from "./asking.js";
import { Combobox } from "./combobox.js";
import { fill, isDrawing, numbers } from "./sections.js";

/* `chosen`: the names in the state that the page chose; an answer lets go of them where they cannot run or do not fit, but not
   while something moves: that is a search. */
const desk = { state: {}, chosen: [], pinned: null, moved: "", answer: null, before: {} };
const rows = new Map();
const ROWS = {
  model: ["Model", "search: llama, moe, 70B"], system: ["System", "search: H100, TPU, NVL72"], software: ["Software", "the framework"],
};
/* What a new model, machine or framework leaves open beside the mapping, so that amped chooses it; and what a layout of stages
   belongs to. */
const SIZES = ["gbs", "seq"];
const OF_LAYOUT = ["pp", "vp"];
const NOW = ["step_time", "training_time", "model_flops_utilization", "memory_per_accelerator_bytes"];
const SPEAK_AFTER = 900;

/* --- what is drawn ------------------------------------------------------------------------------------------------- */

function mark(word) {
  document.documentElement.dataset.now = word;
}

function rested() {
  if (!numbersFollow.isBusy && !restFollows.isBusy) mark("settled");
}
const numbersFollow = new Latest(async () => {
  const question = { state: desk.state, chosen: desk.chosen, pinned: desk.pinned }, { moved } = desk;
  let answer = await ask("estimate", { ...question, held: true });
  if ((answer.problems || !answer.fits) && desk.chosen.length && !numbersFollow.isOver()) answer = await ask("estimate", question);
  const isOver = numbersFollow.isOver();
  controls.refuse(answer.problems || [], moved);
  document.body.classList.toggle("refused", Boolean(answer.problems));
  if (answer.problems) {
    clearTimeout(speaking);
    tell(byId("told"), "This cannot run; the numbers are those of the last state that could run.");
    controls.show(desk.state, null);
    return;
  }
  if (isOver) drawNumbers(answer);
  else {
    Object.assign(desk, { state: answer.state, chosen: answer.chosen });
    draw(answer);
    address.write(desk, false);
  }
  restFollows.run({ state: answer.state, settled: !isOver });
}, rested);
/* What takes longer than a slider may: the timeline, and what would make it fit. */
const restFollows = new Latest(async (question) => {
  const found = await ask("after", question);
  if (restFollows.isOver() || found.problems) return;
  found.sections.forEach((each) => fill(byId("drawn"), each.id === "answer" ? withoutNow(each) : each));
  byId("drawn").append(byId("drawn").querySelector("[data-id=numbers]"));
}, rested);
function follow() {
  mark("asking");
  return numbersFollow.run();
}

/* What is told first; beside it, what was told before this control moved, or of what is pinned. */
function now(answer) {
  const every = new Map(answer.sections.flatMap((each) => each.numbers.map((n) => [n.name, n])));
  return NOW.map((name) => every.get(name)).filter(Boolean);
}
function withoutNow(section) {
  return { ...section, numbers: section.numbers.filter((n) => !NOW.includes(n.name)) };
}
function remember() {
  if (desk.answer) desk.before = Object.fromEntries(now(desk.answer).map((n) => [n.name, n.told]));
}
function drawNow(answer) {
  const own = now(answer), [word, other] = answer.reference ? ["pinned", answer.reference] : ["before", desk.before];
  numbers(byId("now"), own);
  byId("now").querySelector("div:last-child dt").textContent += `, of ${answer.available}`;
  own.forEach((n, at) => {
    if (other[n.name] && other[n.name] !== n.told) byId("now").children[at].append(make("dd", { class: "other" }, `${word}: ${other[n.name]}`));
  });
}

function drawNumbers(answer) {
  drawNow(answer);
  byId("now").classList.toggle("lacking", !answer.fits);
  tell(byId("what"), answer.what);
  tell(byId("how"), answer.how);
  const place = byId("drawn");
  answer.sections.slice(0, -1).forEach((each) => fill(place, each.id === "answer" ? withoutNow(each) : each));
}
function draw(answer) {
  desk.answer = answer;
  drawNumbers(answer);
  const place = byId("drawn");
  fill(place, answer.sections.at(-1));
  actions.showPin(desk, answer);
  controls.show(desk.state, answer);
  showRows(answer);
  showChips();
  byId("command").textContent = answer.command;
  byId("replicas").textContent = answer.replicas;
  speak(answer);
}
/* Says the answer to a screen reader, when nothing moves any more. */
let speaking = null;
function speak(answer) {
  clearTimeout(speaking);
  const told = answer.sections[0].lines.slice(0, 2).map(([, text]) => text).join("; ");
  speaking = setTimeout(() => tell(byId("told"), told), SPEAK_AFTER);
}

/* --- what moves ---------------------------------------------------------------------------------------------------- */

function say(name, text) {
  const state = { ...desk.state };
  if (text) state[name] = text;
  else delete state[name];
  if (OF_LAYOUT.includes(name)) delete state.pipeline_layout;
  return state;
}
function moved(name, text) {
  byId("held").hidden = false;
  if (name !== desk.moved) remember();
  Object.assign(desk, { state: say(name, text), chosen: without(name), moved: name });
  follow();
}
/* What the page chose, without what somebody says now. */
function without(...names) {
  return desk.chosen.filter((each) => !names.includes(each));
}
/* A state that one may want to leave by going back; what differs in it is said by whoever takes it, but for what a search found. */
function take(state, name = "", found = []) {
  remember();
  const chosen = [...without(...Object.keys(state).filter((each) => state[each] !== desk.state[each])), ...found];
  Object.assign(desk, { state, chosen, moved: name });
  byId("held").hidden = true;
  address.write(desk, true);
  return follow();
}
/* Another model, machine or framework: all that nobody said of it is chosen anew. */
function chosen(name, text) {
  const state = Object.fromEntries(Object.entries(say(name, text)).filter(([each]) => ![...desk.mapping, ...SIZES].includes(each)));
  if (name === "network") delete state.model;
  if (name === "model") delete state.network;
  take(state, name === "network" ? "model" : name);
}

/* --- rows and other values ----------------------------------------------------------------------------------------- */

function buildRows(found) {
  Object.entries(ROWS).forEach(([name, [label, hint]]) => {
    rows.set(name, new Combobox({ name, label, hint, rows: found[name], chosen }));
    byId("rows").append(rows.get(name).element);
    if (name === "model") rows.get(name).element.append(drop.build((text, told) => {
      chosen("network", text);
      tell(byId("dropped"), `${told.name}, from your config.json: ${told.told}`);
    }), make("p", { id: "dropped", class: "dropped", hidden: true }));
  });
}
function showRows(answer) {
  rows.forEach((each, name) => each.show(answer.rows[name] || ""));
  if (!desk.state.network) tell(byId("dropped"), "");
}
function others() {
  return Object.keys(desk.state).filter((name) => name !== "network" && !rows.has(name) && !byId(`control-${name}`));
}
function showChips() {
  byId("chips").replaceChildren(...others().map((name) => {
    const close = make("button", { type: "button", "aria-label": `Remove ${name}` }, "×");
    close.addEventListener("click", () => take(say(name, ""), "other"));
    return make("li", {}, `${name}=${desk.state[name]} `, close);
  }));
}
function setOther(event) {
  event.preventDefault();
  if (document.activeElement.closest("[data-control]")) return; // Enter in the field of a control sets nothing else
  const [name, ...text] = byId("other").value.split("=");
  if (!text.join("=").trim()) {
    tell(byId("problem-other"), "write NAME=VALUE, as --set takes it; `amped parameters` lists the names");
    return;
  }
  tell(byId("problem-other"), "");
  byId("other").value = "";
  take(say(name.trim(), text.join("=").trim()), "other");
}

/* --- the beginning -------------------------------------------------------------------------------------------------- */

function opened(found) {
  const state = Object.keys(found.state).length > 0 ? found.state : desk.first;
  Object.assign(desk, { ...found, state, moved: "" });
  return follow();
}
async function start() {
  mark("asking");
  const first = address.read(), found = await ask("choices", {});
  if (found.problems) {
    controls.refuse(found.problems, "");
    return;
  }
  Object.assign(desk, { first: found.first, mapping: found.mapping });
  buildRows(found.rows);
  controls.build(byId("groups"), found.controls, moved);
  byId("control-gpus").closest(".control").append(make("p", { class: "replicas" }, "data parallel: ", make("output", { id: "replicas" }), " replicas"));
  byId("form").append(...Object.entries(found.formats).map(([name, title]) => make("option", { value: name }, title)));
  actions.build(desk, take);
  byId("controls").addEventListener("submit", setOther);
  byId("skip").addEventListener("click", (event) => {
    event.preventDefault();
    byId("results").focus();
  });
  address.followed(opened);
  window.ampedApp = { isDrawing };
  await opened(first);
}
start();
