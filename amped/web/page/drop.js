/* A Hugging Face config.json that is dropped on the page, or chosen from the disk, becomes the model. */
import { byId, make, tell } from "./make.js";
import { ask } from "./asking.js";

const LARGEST = 100000;

export function build(taken) {
  const file = make("input", { type: "file", id: "file", accept: ".json,application/json" });
  const area = make("div", { class: "drop", id: "drop" }, make("label", { for: "file" }, "or your own: drop a Hugging Face config.json here"), file);
  file.addEventListener("change", () => {
    if (file.files.length > 0) read(file.files[0], taken);
    file.value = "";
  });
  window.addEventListener("dragover", (event) => {
    event.preventDefault();
    area.classList.add("over");
  });
  window.addEventListener("dragleave", () => area.classList.remove("over"));
  window.addEventListener("drop", (event) => {
    event.preventDefault();
    area.classList.remove("over");
    if (event.dataTransfer.files.length > 0) read(event.dataTransfer.files[0], taken);
  });
  return area;
}

async function read(file, taken) {
  const problem = byId("problem-model");
  if (file.size > LARGEST) {
    tell(problem, `${file.name} is too large for a config.json: ${file.size} bytes, at most ${LARGEST}`);
    return;
  }
  const text = shortened(await file.text());
  const found = await ask("network", { text });
  if (found.problems) tell(problem, found.problems.map((each) => each.text).join("\n"));
  else taken(text, found);
}
/* JSON without blanks, for the address; what is not JSON stays, and the program says what is wrong with it. */
function shortened(text) {
  try {
    return JSON.stringify(JSON.parse(text));
  } catch {
    return text;
  }
}
