/* Sliders, numbers and choices: one for each control, with what is wrong with it beside it. */
import { byId, make, tell } from "./make.js";

const SHARES = [0, 0.25, 0.5, 0.75, 1];
const fields = new Map();

function frame(control, ...inside) {
  const { name, label, hint } = control;
  return make("div", { class: `control ${control.kind}`, "data-control": name },
    make("div", { class: "naming" }, make("label", { for: `control-${name}` }, label, " ", make("code", {}, name.length < 10 ? `--${name}` : "")),
      make("small", { id: `hint-${name}` }, hint)), ...inside, make("p", { class: "problem", id: `problem-${name}`, role: "alert", hidden: true }));
}
function described(name) {
  return { "aria-describedby": `hint-${name} problem-${name}` };
}

/* A slider over places, and beside it a field that takes any number. */
function slider(control, moved) {
  const { name, label } = control;
  const range = make("input", { type: "range", id: `slider-${name}`, min: 0, max: 0, step: 1, "aria-label": `${label}, slider`, ...described(name) });
  const number = make("input", { type: "number", id: `control-${name}`, min: 1, step: 1, inputmode: "numeric", ...described(name) });
  const field = { element: frame(control, make("div", { class: "moving" }, range, number)), places: [1], value: "" };
  range.addEventListener("input", () => {
    const value = String(field.places[Number(range.value)]);
    number.value = value;
    range.setAttribute("aria-valuetext", value);
    moved(name, value);
  });
  number.addEventListener("input", () => moved(name, number.value));
  field.show = (value, places) => {
    field.places = [...new Set([...(places || field.places), ...(value ? [Number(value)] : [])])].sort((a, b) => a - b);
    range.max = field.places.length - 1;
    range.value = Math.max(field.places.indexOf(Number(value)), 0);
    range.setAttribute("aria-valuetext", value);
    if (document.activeElement !== number) number.value = value;
  };
  number.addEventListener("blur", () => field.show(field.value, field.places));
  return field;
}

function choice(control, moved) {
  const { name } = control;
  const select = make("select", { id: `control-${name}`, ...described(name) }, ...control.options.map((each) => make("option", { value: each }, each)));
  select.addEventListener("change", () => moved(name, select.value));
  const field = { element: frame(control, select) };
  field.show = (value) => {
    if (value && ![...select.options].some((each) => each.value === value)) select.append(make("option", { value }, value));
    select.value = value;
  };
  return field;
}

/* A share of one: nothing of it is the same as not to ask for it. */
function share(control, moved) {
  const { name } = control;
  const range = make("input", { type: "range", id: `control-${name}`, min: 0, max: SHARES.length - 1, step: 1, ...described(name) });
  const told = make("output", { for: `control-${name}` });
  const field = { element: frame(control, make("div", { class: "moving" }, range, told)) };
  range.addEventListener("input", () => {
    const value = SHARES[Number(range.value)];
    say(value);
    moved(name, value ? String(value) : "");
  });
  function say(value) {
    told.textContent = `${Math.round(100 * value)} %`;
    range.setAttribute("aria-valuetext", told.textContent);
  }
  field.show = (value) => {
    const nearest = SHARES.findIndex((each) => each >= Number(value || 0));
    range.value = nearest < 0 ? SHARES.length - 1 : nearest;
    say(Number(value || 0));
  };
  return field;
}

/* A number with its unit. Where nobody gave one, the number of the answer stands there as a pale placeholder. */
function words(control, moved) {
  const { name } = control;
  const input = make("input", { type: "text", id: `control-${name}`, spellcheck: "false", ...described(name) });
  input.addEventListener("change", () => moved(name, input.value));
  const field = { element: frame(control, input) };
  field.show = (value, _, isSaid, found) => {
    if (document.activeElement !== input) input.value = isSaid ? value : "";
    if (found) input.placeholder = found;
  };
  return field;
}

const KINDS = { slider, choice, share, words };

/* All controls, in their groups; `moved` is called with a name and a text. */
export function build(place, controls, moved) {
  [...new Set(controls.map((each) => each.group))].forEach((group) => {
    const own = controls.filter((each) => each.group === group);
    own.forEach((each) => fields.set(each.name, KINDS[each.kind](each, moved)));
    place.append(make("fieldset", {}, make("legend", {}, group), ...own.map((each) => fields.get(each.name).element)));
  });
}

/* What the controls show: what somebody said, and where nobody said anything, what the answer has. */
export function show(state, answer) {
  fields.forEach((field, name) => {
    field.value = state[name] || (answer && answer.shown[name]) || field.value || "";
    field.show(field.value, answer && answer.places[name], Boolean(state[name]), answer && answer.shown[name]);
  });
}

/* What is wrong stands beside the control that caused it: the one that was moved, if the sentence names it, else the first that it names. */
export function refuse(problems, moved) {
  document.querySelectorAll("[data-control]").forEach((each) => complain(each.dataset.control, ""));
  tell(byId("problem-page"), "");
  problems.forEach(({ text, controls }) => {
    const known = controls.filter((name) => byId(`problem-${name}`));
    const place = known.includes(moved) ? moved : known[0] || (byId(`problem-${moved}`) ? moved : "page");
    complain(place, text);
  });
}
function complain(name, text) {
  const place = byId(`problem-${name}`);
  tell(place, text && place.textContent ? `${place.textContent}\n${text}` : text);
  const input = byId(`control-${name}`);
  if (input) input.setAttribute("aria-invalid", String(Boolean(text)));
}
