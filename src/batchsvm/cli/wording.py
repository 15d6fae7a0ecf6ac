"""The command's names for what the library calls its parameters.

The library's sentences name parameters of Python functions; who types a command knows its
options.  Sentences pass through here on their way out, and only here.
"""

from __future__ import annotations

import re

OPTIONS = {
    "n_jobs": "--jobs",
    "max_epochs": "--max-epochs",
    "batch_size": "--batch-size",
    "random_state": "--seed",
    "intercept_scaling": "--intercept",
    "n_features": "--features",
    "zero_based": "--zero-based",
    "max_memory": "--max-memory",
    "class_weight": "--class-weight",
    "sample_weight": "--weights",
    "lam": "--lam",
    "tol": "--tol",
    "X": "DATA",
}
# These are also plain words: only a sentence that begins with one of them is about the option.
PLAIN = {
    "loss": "--loss",
    "method": "--method",
    "averaging": "--averaging",
    "engine": "--engine",
    "device": "--device",
    "precision": "--precision",
    "cache": "--cache",
    "checkpoint": "--checkpoint",
    "lams": "--lams",
    "cv": "--cv",
    "columns": "--columns",
    "weights": "--weights",
    "label": "--out-label",
    "name": "NAME",
    "y": "the labels of DATA",
    "targets": "the labels of DATA",
}
# What can be done in Python alone.
PHRASES = {
    "To go on from here, pass this solution as initial.": "The model holds that point.",
    "name the features as columns": "name the features by --columns",
    "name the column of labels, if this is it": "name the column of labels by --label, if this is"
    " it",
}
_ANYWHERE = re.compile(rf"(?<![\w'\"./-])({'|'.join(OPTIONS)})(?![\w'\"/=-]|\.\w)")
_FIRST = re.compile(rf"^({'|'.join(PLAIN)}) (must|names)\b")
_SETTING = re.compile(r"\b(\w+)=([\"'])(\w+)\2")


def in_options(sentence: str) -> str:
    """The sentence with options in the place of parameters.

    >>> in_options('To get closer, raise max_epochs (now 9), or use method="auto".')
    'To get closer, raise --max-epochs (now 9), or use --method auto.'
    """
    sentence = in_phrases(sentence)
    sentence = _SETTING.sub(_setting, sentence)
    sentence = _FIRST.sub(lambda found: f"{PLAIN[found[1]]} {found[2]}", sentence)
    return _ANYWHERE.sub(lambda found: OPTIONS[found[1]], sentence)


def in_phrases(sentence: str) -> str:
    """The sentence about a file, whose names of columns are nobody's parameters."""
    for phrase, ours in PHRASES.items():
        sentence = sentence.replace(phrase, ours)
    return sentence


def _setting(found: re.Match[str]) -> str:
    option = (OPTIONS | PLAIN).get(found[1])
    return found[0] if option is None else f"{option} {found[3]}"
