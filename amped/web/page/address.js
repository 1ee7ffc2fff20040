/* What the page says stands in its address behind #: names of options with their values, those that the page chose, and what is
   pinned. */

const LATER = 300;
let waiting = null;

export function read() {
  const state = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  const pinned = state.pinned ? Object.fromEntries(new URLSearchParams(state.pinned)) : null;
  const chosen = (state.chosen || "").split(" ").filter(Boolean);
  delete state.pinned;
  delete state.chosen;
  return { state, chosen, pinned };
}

function written({ state, chosen, pinned }) {
  const found = new URLSearchParams(state);
  if (chosen.length) found.set("chosen", chosen.join(" "));
  if (pinned) found.set("pinned", new URLSearchParams(pinned).toString());
  return "#" + found.toString();
}

/* A step that one may want back is kept in the history; moves of a slider are not, and are written when they end. */
export function write(desk, isStep) {
  clearTimeout(waiting);
  if (isStep) {
    if (location.hash !== written(desk)) history.pushState(null, "", written(desk));
  } else {
    waiting = setTimeout(() => history.replaceState(null, "", written(desk)), LATER);
  }
}

/* Calls with what the address says when somebody goes back or changes it. */
export function followed(call) {
  window.addEventListener("popstate", () => {
    clearTimeout(waiting);
    call(read());
  });
}
