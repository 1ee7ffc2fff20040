"""The line DAYS: how many of the days train, in one line of a screen of 80 columns."""

import pytest

import amped
from amped.report.screen import answers, calendar_in_words

RUN = {"model": "Llama 3 8B", "system": "DGX H100", "number_of_accelerators": 16}


def line(**asked: object) -> list[str]:
    return [text for _, text, _ in calendar_in_words(amped.estimate(**RUN | asked))]


def test_it_says_how_many_days_train_and_how_often_a_failure_and_a_checkpoint_come() -> None:
    (text,) = line(accelerator_mean_time_between_failures="320 day", checkpoint_time="1 minute")
    # √(2·60 s·20 d) = 4 h, less a minute. Lost: 1/240 + 2 h/20 d for checkpoints, 17 min/20 d for restarts, 1/300 to evaluate.
    assert text == "98.8 % train; failure every 20 days, checkpoint every 3.99 hours"


@pytest.mark.parametrize("mean", ["12 hour", "1 day", "4000 day"])
def test_it_has_room(mean: str) -> None:
    assert all(len(text) <= 69 for text in line(accelerator_mean_time_between_failures=mean, restart_time="1 minute"))


def test_a_run_without_failures_has_none_and_says_that_it_was_asked_for() -> None:
    ideal = amped.estimate(**RUN, goodput_fraction=1)
    told = {word: text for word, text, _ in answers(ideal)}
    assert "DAYS" not in told
    assert told["TRAINING"].endswith("(goodput fraction given, not predicted)")
    assert ideal["training_time"] == pytest.approx(ideal["number_of_steps"] * ideal["step_time"], rel=1e-12)


def test_the_closed_form_knows_no_failures() -> None:
    assert line(performance_model="amped") == []
