/* Asks the program that serves the page. */

const GONE = { problems: [{ text: "The program that serves this page has ended. Start `amped app` again, and open the address that it prints.", controls: [] }] };

export async function ask(name, question) {
  try {
    const told = await fetch(name, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(question) });
    if (told.ok) return await told.json();
    return { problems: [{ text: `The question failed: ${told.status} ${(await told.text()).slice(0, 300)}`, controls: [] }] };
  } catch {
    return GONE;
  }
}

/* Does one piece of work at a time; of those that come in between, only the last one is done. `rested` is called when there is none. */
export class Latest {
  constructor(work, rested) {
    Object.assign(this, { work, rested, isBusy: false, next: null });
  }

  isOver() {
    return this.next !== null;
  }

  async run(value) {
    this.next = { value };
    if (this.isBusy) return;
    this.isBusy = true;
    while (this.next) {
      const { value: now } = this.next;
      this.next = null;
      await this.work(now);
    }
    this.isBusy = false;
    this.rested();
  }
}
