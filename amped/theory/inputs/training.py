"""The training: its data and length, its optimizer and precisions, and the model that predicts the time."""

import numpy as np

from amped.theory.language.quantity import NETWORK, quantity


@quantity("count", category=NETWORK, replaces=("samples", "number_of_steps"))
def tokens_to_train(tokens_per_parameter, number_of_parameters):
    """The number of tokens of the whole training, if nobody gives it. Source: arXiv 2203.15556, table 3."""
    return tokens_per_parameter * number_of_parameters


@quantity("count", category=NETWORK, when_given=("samples",), even_with=("training_tokens", "number_of_steps"))
def tokens_to_train__of_samples(samples, context, sequence_fill):
    """The number of tokens of the whole training, from the given number of sequences. Source: definition."""
    return samples * context * sequence_fill


@quantity("count", category=NETWORK, when_given=("number_of_steps",), even_with=("training_tokens",))
def tokens_to_train__of_steps(number_of_steps, batch_size, context, sequence_fill):
    """The number of tokens of the whole training, from the given number of steps. Source: definition."""
    return number_of_steps * batch_size * context * sequence_fill


@quantity("count", category=NETWORK, replaces=("tokens_to_train", "number_of_steps"))
def samples(tokens_to_train, context, sequence_fill):
    """The number of sequences of the whole training. Source: definition."""
    return tokens_to_train / context / sequence_fill


@quantity("count", category=NETWORK, replaces=("tokens_to_train", "samples"))
def number_of_steps(tokens_to_train, batch_size, context, sequence_fill):
    """The number of optimizer steps of the whole training; the last batch may be partly empty. Padding trains nothing.

    Source: AMPeD, training time.
    """
    return np.ceil(tokens_to_train / (batch_size * context * sequence_fill))


# --- rules -----------------------------------------------------------------------------------------------------------


@quantity("boolean", constrains="samples")
def samples_and_tokens_agree(samples, context, tokens_to_train, sequence_fill):
    """The number of sequences times their length is the number of tokens of the training. Source: definition."""
    return np.abs(samples * context * sequence_fill - tokens_to_train) < context


@quantity("boolean", constrains="number_of_steps")
def steps_and_tokens_agree(number_of_steps, batch_size, context, tokens_to_train, sequence_fill):
    """The number of steps is the number that the tokens of the training need. Source: definition."""
    return number_of_steps == np.ceil(tokens_to_train / (batch_size * context * sequence_fill))


@quantity("boolean", constrains="document_tokens")
def documents_fit_into_a_sequence(
    document_tokens, documents_per_sequence, sequence_fill, context, longest_microbatch_factor
):
    """Documents are no longer than their sequence, and no longer on average than the mean of their own lengths.

    A token lies in a longer document than the mean document: document_tokens ≥ filled tokens / documents.

    Source: definition.
    """
    mean = sequence_fill * context / documents_per_sequence
    return (document_tokens <= context * longest_microbatch_factor) & (document_tokens >= mean * (1 - 1e-9))
