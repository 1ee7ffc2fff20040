/* Draws sections: sentences, numbers by name, pictures with their tables. What is there already is filled anew, so that a
   chart, an open table and the place of the keyboard stay while a slider moves. */
import { make } from "./make.js";

function value(told, exact, name, config) {
  const made = make("data", { value: exact }, told);
  if (name) {
    made.dataset.name = name;
    made.dataset.config = config === null || config === undefined ? 0 : config;
  }
  return made;
}

export function numbers(list, of) {
  list.replaceChildren(...of.map((n) => make("div", {}, make("dt", {}, n.label), make("dd", {}, value(n.told, n.exact, n.name)))));
}

function lines(of) {
  return of.map(([word, text]) => {
    const told = make("p", { class: word === "NO FIT" ? "warning" : null });
    if (word) told.append(make("b", { class: "word" }, word), " ");
    told.append(text);
    return told;
  });
}

function cell([told, exact, name, config, isNumber], place) {
  const kind = place === 0 ? make("th", { scope: "row" }) : make("td", { class: isNumber ? "number" : null });
  kind.append(value(told, exact, name, config));
  return kind;
}

function table(of) {
  const head = make("thead", {}, make("tr", {}, ...of.heads.map((each) => make("th", { scope: "col" }, each))));
  const rows = of.rows.map((row) => make("tr", {}, ...row.map(cell)));
  const whole = make("table", {}, make("caption", {}, of.caption), head, make("tbody", {}, ...rows));
  const made = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": of.caption }, whole);
  made.shown = of;
  return made;
}

/* Tables in a place: where one of the same shape is there, only what differs is written anew. */
function renew(place, of) {
  const there = [...place.children];
  if (there.length !== of.length || !there.every((each, at) => isAlike(each.shown, of[at]))) place.replaceChildren(...of.map(table));
  else there.forEach((each, at) => rewrite(each, of[at]));
}
function isAlike(one, other) {
  const shape = (each) => JSON.stringify([each.caption, each.heads, each.rows.length]);
  return one !== undefined && shape(one) === shape(other);
}
function rewrite(element, of) {
  const rows = element.querySelector("tbody").rows;
  of.rows.forEach((row, y) => row.forEach((now, x) => {
    if (String(now) !== String(element.shown.rows[y][x])) rows[y].cells[x].replaceWith(cell(now, x));
  }));
  element.shown = of;
}

/* A picture is drawn when the numbers stand: the browser shows them first. */
const waiting = new Map();
function later(element, data) {
  if (waiting.size === 0) requestAnimationFrame(() => requestAnimationFrame(drawWaiting));
  waiting.set(element, data);
}
function drawWaiting() {
  const every = [...waiting];
  waiting.clear();
  every.filter(([element]) => element.isConnected).forEach(([element, data]) => window.ampedPictures.draw(element, data));
}
export function isDrawing() {
  return waiting.size > 0;
}

function figure(root, of) {
  let found = root.querySelector(`[data-picture="${of.id}"]`);
  if (!found) {
    const folded = make("details", {}, make("summary", {}, `The same as a table: ${of.title}`), make("div"));
    const drawn = make("div", { class: `picture ${of.kind}`, role: "img" });
    found = make("figure", { "data-picture": of.id }, drawn, make("figcaption", {}, of.title), folded);
    folded.addEventListener("toggle", () => fold(found));
  }
  found.tableOf = of.table;
  fold(found);
  const { table: _, ...data } = of;
  later(found.querySelector(".picture"), data);
  return found;
}
/* The table of a picture is made where somebody looks at it. */
function fold(found) {
  const folded = found.querySelector("details");
  if (folded.open) renew(folded.lastChild, [found.tableOf]);
}

/* The section of a topic in a place; it is made where it is not there. */
export function fill(place, of) {
  let root = place.querySelector(`section[data-id="${of.id}"]`);
  if (!root) {
    const list = make("dl", { class: "numbers" });
    root = make("section", { "data-id": of.id, "aria-labelledby": `title-${of.id}` },
      make("h2", { id: `title-${of.id}` }), make("div", { class: "lines" }), list, make("div", { class: "figures" }), make("div", { class: "tables" }));
    place.append(root);
  }
  root.querySelector("h2").textContent = of.title;
  root.querySelector(".lines").replaceChildren(...lines(of.lines));
  numbers(root.querySelector(".numbers"), of.numbers);
  root.querySelector(".numbers").hidden = of.numbers.length === 0;
  arrange(root.querySelector(".figures"), of.pictures.map((each) => figure(root, each)));
  renew(root.querySelector(".tables"), of.tables);
  return root;
}
function arrange(place, figures) {
  const there = [...place.children];
  if (there.length !== figures.length || figures.some((each, i) => each !== there[i])) place.replaceChildren(...figures);
}
