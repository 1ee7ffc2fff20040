/* Makes elements; a text never becomes markup. */

export function make(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  Object.entries(attributes).forEach(([name, value]) => {
    if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  });
  made.append(...children);
  return made;
}

export function byId(id) {
  return document.getElementById(id);
}

/* A text, or nothing where it is empty. */
export function tell(element, text) {
  element.textContent = text;
  element.hidden = !text;
}
