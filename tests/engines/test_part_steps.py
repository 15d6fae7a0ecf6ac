"""What training on parts refuses."""

from __future__ import annotations

import pytest

from batchsvm.core.layout import Schedule
from batchsvm.engines.part_steps import refuse_schedule
from batchsvm.methods import Aggressive, Pegasos, Safe


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        (Schedule(Pegasos(), 1), 'method must be a dual one, .* on the ray engine, not "pegasos"'),
        (
            Schedule(Aggressive(sampling="subsets"), 4),
            'sampling must be "permutation" on the ray engine, where each worker visits its rows'
            ' once per epoch, not "subsets"',
        ),
        (Schedule(Safe(), 1, averaging="tail"), 'averaging must be None on the ray .*, not "tail"'),
    ],
)
def test_what_parts_do_not_offer_is_refused(schedule, words):
    with pytest.raises(ValueError, match=f"^{words}$"):
        refuse_schedule(schedule, "ray", "each worker visits its rows")


def test_a_dual_method_is_taken():
    refuse_schedule(Schedule(Safe(), 1), "ray", "each worker visits its rows")
