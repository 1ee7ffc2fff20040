/* A field to search in the rows of a table: words of a name in any order, by keyboard or pointer. */
import { make } from "./make.js";

const MOST = 60;

function fits(text, words) {
  const plain = text.toLowerCase();
  return words.every((word) => plain.includes(word));
}

export class Combobox {
  constructor({ name, label, hint, rows, chosen }) {
    Object.assign(this, { name, rows, chosen, shown: "", place: -1 });
    this.list = make("ul", { id: `list-${name}`, role: "listbox", "aria-label": label, class: "options", hidden: true });
    this.input = make("input", {
      id: `control-${name}`, type: "text", role: "combobox", "aria-expanded": "false", "aria-controls": `list-${name}`,
      "aria-autocomplete": "list", "aria-describedby": `hint-${name} problem-${name}`, spellcheck: "false", autocapitalize: "off",
    });
    this.element = make("div", { class: "control", "data-control": name },
      make("div", { class: "naming" }, make("label", { for: `control-${name}` }, label), make("small", { id: `hint-${name}` }, hint)),
      make("div", { class: "searching" }, this.input, this.list), make("p", { class: "problem", id: `problem-${name}`, role: "alert", hidden: true }));
    this.listen();
  }

  listen() {
    this.input.addEventListener("focus", () => this.input.select());
    this.input.addEventListener("click", () => this.open(""));
    this.input.addEventListener("input", () => this.open(this.input.value));
    this.input.addEventListener("blur", () => setTimeout(() => this.close(true), 150));
    this.input.addEventListener("keydown", (event) => this.pressed(event));
    this.list.addEventListener("mousedown", (event) => event.preventDefault());
    this.list.addEventListener("click", (event) => {
      const option = event.target.closest("[role=option]");
      if (option) this.take(option.dataset.value);
    });
  }

  pressed(event) {
    const { key } = event;
    if (key === "ArrowDown" || key === "ArrowUp") {
      if (this.list.hidden) this.open("");
      else this.go(this.place + (key === "ArrowDown" ? 1 : -1));
      event.preventDefault();
    } else if (key === "Enter") {
      event.preventDefault();
      const option = this.list.children[Math.max(this.place, 0)];
      this.take(!this.list.hidden && option && option.dataset.value ? option.dataset.value : this.input.value);
    } else if (key === "Escape") this.close(true);
  }

  open(text) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    const found = this.rows.filter(([name, more]) => fits(`${name} ${more}`, words));
    const options = found.slice(0, MOST).map(([name, more], place) => make("li",
      { role: "option", id: `option-${this.name}-${place}`, "aria-selected": "false", "data-value": name }, make("span", {}, name), make("small", {}, more)));
    const rest = found.length - options.length;
    const told = found.length === 0 ? "no name has these words" : rest > 0 ? `${rest} more: type a word of the name` : "";
    if (told) options.push(make("li", { class: "rest", role: "option", "aria-disabled": "true", "aria-selected": "false" }, told));
    this.list.replaceChildren(...options);
    this.place = -1;
    this.list.hidden = false;
    this.input.setAttribute("aria-expanded", "true");
  }

  go(place) {
    const options = [...this.list.querySelectorAll("[data-value]")];
    if (options.length === 0) return;
    this.place = (place + options.length) % options.length;
    options.forEach((each, at) => each.setAttribute("aria-selected", String(at === this.place)));
    this.input.setAttribute("aria-activedescendant", options[this.place].id);
    options[this.place].scrollIntoView({ block: "nearest" });
  }

  take(value) {
    this.close(false);
    if (value && value !== this.shown) this.chosen(this.name, value);
    else this.show(this.shown);
  }

  close(isLeft) {
    this.list.hidden = true;
    this.input.setAttribute("aria-expanded", "false");
    this.input.removeAttribute("aria-activedescendant");
    if (isLeft) this.show(this.shown);
  }

  show(value) {
    this.shown = value;
    this.input.value = value;
  }
}
