"""The page of `amped app` as somebody feels it, measured in a browser: the first number, and numbers after moves. See README.md."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

HERE = Path(__file__).resolve().parents[1]
QUESTION = ["--model", "Llama 3 70B", "--system", "DGX H100", "--gpus", "64"]
# The sliders that are moved in turn, each one place up or around, and back; the goals in seconds.
SLIDERS = ["tp", "pp", "mbs", "gbs", "cp", "seq"]
FIRST, MOVE, SHARE = 3.0, 0.150, 0.95
STARTS = 5
NUMBER = "document.querySelector('#now data[data-name=step_time]')"
# One move of a slider: milliseconds from its event until the browser shows the frame with the numbers of its answer.
MOVED = """async ([name, by]) => {
  const slider = document.getElementById(`slider-${name}`), now = document.getElementById('now');
  const shown = new Promise((then) => {
    const seen = new MutationObserver(() => { seen.disconnect(); requestAnimationFrame(() => setTimeout(() => then(performance.now()))); });
    seen.observe(document.getElementById('controls'), {subtree: true, attributes: true, attributeFilter: ['aria-invalid']});
    seen.observe(now, {childList: true});
  });
  const places = Number(slider.max) + 1;
  slider.value = String((Number(slider.value) + by + places) % places);
  const start = performance.now();
  slider.dispatchEvent(new Event('input', {bubbles: true}));
  const end = await shown;
  return [end - start, document.body.classList.contains('refused')];
}"""
SETTLED = "document.documentElement.dataset.now === 'settled' && !window.ampedApp.isDrawing()"


def started() -> tuple[subprocess.Popen[str], str]:
    """A server, and its address."""
    server = subprocess.Popen(
        [sys.executable, "-m", "amped", "app", *QUESTION], stdout=subprocess.PIPE, text=True, cwd=HERE,
        env=os.environ | {"PYTHONPATH": str(HERE), "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    if server.stdout is None:
        raise SystemExit("the server prints nothing")
    return server, re.findall(r"http://\S+", server.stdout.readline())[0]


def until(page: Any, holds: str) -> None:
    """Waits until an expression is true; the page's policy keeps the driver from waiting inside it."""
    while not page.evaluate(holds):
        time.sleep(0.005)


def first_number(browser: Any) -> float:
    """Seconds from the command to the first number, in a browser that is open."""
    page = browser.new_page()
    start = time.perf_counter()
    server, address = started()
    page.goto(address)
    until(page, f"{NUMBER} !== null")
    took = time.perf_counter() - start
    page.close()
    server.terminate()
    server.wait()
    return took


def moves(browser: Any, number: int) -> tuple[list[float], int]:
    """Seconds of each move that has numbers or a refusal, and how many are refused."""
    server, address = started()
    page = browser.new_page()
    page.goto(address)
    until(page, SETTLED)
    times, refused = [], 0
    for move in range(number):
        took, is_refused = page.evaluate(MOVED, [SLIDERS[move // 2 % len(SLIDERS)], -1 if move % 2 else 1])
        until(page, SETTLED)
        times.append(took / 1000)
        refused += is_refused
    page.close()
    server.terminate()
    server.wait()
    return times, refused


def told(name: str, seconds: float, goal: float) -> None:
    """Prints a measurement with its goal."""
    print(f"{name:<44}{seconds * 1000:>7,.0f} ms   <= {goal * 1000:,.0f} ms   {'met' if seconds <= goal else 'missed'}")


def main() -> None:
    """Measures, and prints."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--moves", type=int, default=200)
    number = asked.parse_args().moves
    path = os.environ.get("AMPED_CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        starts = [first_number(browser) for _ in range(STARTS)]
        told(f"first number, median of {STARTS}", statistics.median(starts), FIRST)
        told(f"first number, slowest of {STARTS}", max(starts), FIRST)
        times, refused = moves(browser, number)
        told(f"a move to its number, median of {number}", statistics.median(times), MOVE)
        told("a move to its number, 95th percentile", sorted(times)[int(SHARE * number) - 1], MOVE)
        print(f"the slowest {max(times) * 1000:,.0f} ms; {refused} of the moves were refused, which is told as quickly")
        browser.close()


if __name__ == "__main__":
    main()
