"""A visit order, drawn segment by segment: which places are written, and what stands there."""

from __future__ import annotations

import numpy as np
import pytest

from batchsvm.compiled import Kernel
from batchsvm.core.layout import Schedule
from batchsvm.core.parallel import StopFlag
from batchsvm.core.problem import make_problem
from batchsvm.core.tuning import DEFAULT_TUNING, Tuning
from batchsvm.engines import place_on
from batchsvm.engines.sampling import make_block_sampler
from batchsvm.engines.trainer import sampler_for
from batchsvm.engines.visit_order import UNSCREENED, Random, make_visit_order
from batchsvm.losses import LOSSES
from batchsvm.methods import Aggressive, Blocks, Guarded, Pegasos, Safe
from helpers import HOST_ENGINES, LAM, toy


@Kernel
def compiled_redraw(visits, block):
    visits.redraw(block)
    return visits.longest_segment()


def redraw(visits, block):
    with np.errstate(over="ignore"):  # of the random generator, whose numbers wrap around
        visits.redraw(block)
        return visits.longest_segment()


@pytest.fixture(params=[redraw, compiled_redraw], ids=["python", "compiled"])
def draw(request):
    return request.param


def grouped(group, groups_in_window):
    """A tuning with groups of so many rows, for rows of one byte."""
    return Tuning(
        min_grouped_bytes=0, max_group_rows=group, max_group_bytes=8192,
        window_bytes=group * groups_in_window,
    )  # fmt: skip


def make(n, blocks, seed=0, group=1, min_rows=0, groups_in_window=3):
    visits = make_visit_order(
        n, blocks, seed, 1.0, grouped(group, groups_in_window), min_rows=min_rows
    )
    assert visits.group == group
    visits.order[:] = untouched(n)
    return visits


def untouched(n):
    """What stands at places that nobody has written to: no rows, and no two the same."""
    return -1 - np.arange(n)


def own_places(visits, block):
    """What stands at the places of a block; all other places are untouched."""
    mine = np.zeros(visits.order.size, np.bool_)
    mine[visits.edges[block] : visits.edges[block + 1]] = True
    np.testing.assert_array_equal(visits.order[~mine], untouched(mine.size)[~mine])
    return visits.order[mine]


# Which rows, and where.


@pytest.mark.parametrize("group", [1, 3])
@pytest.mark.parametrize("block", [0, 1, 2])
def test_too_few_rows_bring_back_all_of_their_block_at_its_own_places(draw, block, group):
    for seed in range(20):
        visits = make(31, 3, seed, group, min_rows=4)
        states = visits.states.copy()
        start, stop = visits.edges[block], visits.edges[block + 1]
        visits.keep[start:stop] = False
        visits.keep[start + 2 : start + 5] = True  # three rows are fewer than four
        longest = draw(visits, block)
        mine = own_places(visits, block)
        assert sorted(mine) == list(range(start, stop))
        assert visits.active[block, 0] == stop - start == longest
        assert not np.delete(visits.active[:, 0], block).any()
        changed = np.any(visits.states != states, axis=1)
        assert changed.tolist() == [number == block for number in range(3)]


@pytest.mark.parametrize("group", [1, 3])
@pytest.mark.parametrize("block", [0, 1, 2])
def test_rows_that_are_kept_stand_at_the_front_of_their_block(draw, block, group):
    for seed in range(20):
        visits = make(31, 3, seed, group, min_rows=4)
        visits.keep[:] = np.random.default_rng(seed).random(31) < 0.3
        start, stop = visits.edges[block], visits.edges[block + 1]
        visits.keep[start : start + 4] = True  # as many as are needed
        draw(visits, block)
        mine = own_places(visits, block)
        count = visits.active[block, 0]
        expected = start + np.flatnonzero(visits.keep[start:stop])
        assert sorted(mine[:count]) == expected.tolist()


def test_just_enough_rows_are_enough(draw):
    visits = make(20, 2, min_rows=4)
    visits.keep[10:] = False
    visits.keep[[11, 13, 17, 19]] = True
    draw(visits, 1)
    assert visits.active[1, 0] == 4
    assert sorted(visits.order[10:14]) == [11, 13, 17, 19]


def test_a_block_without_rows_is_not_visited_unless_a_minimum_says_so(draw):
    for min_rows, expected in ((0, 0), (1, 10)):
        visits = make(20, 2, min_rows=min_rows)
        visits.keep[10:] = False
        draw(visits, 1)
        assert visits.active[1, 0] == expected


def test_the_longest_segment(draw):
    visits = make(20, 3)
    visits.keep[[0, 1, 2, 3, 4]] = False
    visits.keep[7] = False
    longest = [draw(visits, block) for block in (0, 1, 2)]
    assert visits.active[:, 0].tolist() == [1, 6, 7]
    assert longest == [1, 6, 7]
    visits.keep[13:] = False
    assert draw(visits, 2) == 6


def rows_of_blocks(sampler, position):
    """The rows that each block takes in the iteration at this position."""
    found = []
    for block in range(sampler.visits.edges.size - 1):
        out = np.full(sampler.visits.order.size, -1)
        count = sampler.list_rows(block, position, out, 0)
        assert (out[count:] == -1).all()
        found.append(out[:count])
    return found


@pytest.mark.parametrize(("blocks", "batch"), [(1, 5), (2, 2), (2, 12), (3, 12), (4, 40), (5, 15)])
def test_blocks_take_rows_of_every_segment(blocks, batch):
    sampler, share = make_block_sampler(make(200, blocks), batch), batch // blocks
    visits = sampler.visits
    for segment in range(blocks):
        redraw(visits, segment)
    if share >= blocks:
        for rows in rows_of_blocks(sampler, 0):
            assert (np.histogram(rows, visits.edges)[0] > 0).all()
    epoch = [rows_of_blocks(sampler, at) for at in range(0, visits.longest_segment(), share)]
    for taken in epoch[:-2]:  # the last rows are shared out as they come
        assert [len(rows) for rows in taken] == [share] * blocks
        assert np.histogram(np.concatenate(taken), visits.edges)[0].tolist() == [share] * blocks
    assert sorted(np.concatenate([rows for taken in epoch for rows in taken])) == list(range(200))


@pytest.mark.parametrize("blocks", [2, 5, 16, 64])
def test_an_iteration_of_a_block_takes_few_rows_more_than_its_share(blocks):
    """Kernels have room for so many."""
    rng = np.random.default_rng(blocks)
    for share in (1, 7, 48):
        sampler = make_block_sampler(make(32 * blocks, blocks), share * blocks)
        visits = sampler.visits
        for _ in range(5):
            visits.keep[:] = rng.random(visits.keep.size) < rng.uniform(0.2, 1.0)
            visits.renew()
            for segment in range(blocks):
                redraw(visits, segment)
            epoch = [
                rows_of_blocks(sampler, at) for at in range(0, visits.longest_segment(), share)
            ]
            rows = [own for taken in epoch for own in taken]
            assert max(map(len, rows)) <= share + blocks
            assert sorted(np.concatenate(rows)) == np.flatnonzero(visits.keep).tolist()


def test_rows_that_were_left_out_come_back_after_renew_alone(draw):
    """The others are not looked at: there may be a thousand times as many."""
    visits = make(60, 2)
    visits.keep[:] = False
    visits.keep[[2, 3, 40, 50]] = True
    for expected in ([2, 3], [3], [3]):
        draw(visits, 0)
        assert sorted(visits.order[: visits.active[0, 0]]) == expected
        visits.keep[[2, 20]] = False, True
    draw(visits, 1)  # is listed for the first time
    assert sorted(visits.order[30 : 30 + visits.active[1, 0]]) == [40, 50]
    visits.renew()
    for segment, expected in ((0, [3, 20]), (1, [40, 50])):
        draw(visits, segment)
        start = 30 * segment
        assert sorted(visits.order[start : start + visits.active[segment, 0]]) == expected


def test_a_renewal_that_keeps_no_row_brings_all_back():
    visits = make(6, 1)
    visits.keep[:] = False
    visits.renew()
    assert visits.keep.all()
    visits.keep[:] = [False, True, False, False, False, False]
    visits.renew()
    assert visits.keep.tolist() == [False, True, False, False, False, False]


@pytest.mark.parametrize("blocks", [2, 3])
def test_neighbours_in_memory_are_visited_by_one_block(blocks):
    """Two threads would wait for each other to write to one cache line."""
    sampler, group = make_block_sampler(make(960, blocks, group=8), 12 * blocks), 8
    visits = sampler.visits
    for segment in range(blocks):
        redraw(visits, segment)
    block_of = np.zeros(960, int)
    for at in range(0, visits.longest_segment(), 12):
        for block, rows in enumerate(rows_of_blocks(sampler, at)):
            block_of[rows] = block
    split = np.count_nonzero(np.diff(block_of))
    # A group has neighbours of any block on either side, and few are cut in the middle.
    assert 960 / group / 4 < split <= 960 / group + blocks**2 * group


def test_blocks_share_the_few_rows_that_are_left():
    """Not one block all of them, and the other none."""
    sampler = make_block_sampler(make(200, 2), 96)
    visits = sampler.visits
    visits.keep[:] = False
    visits.keep[[3, 5, 7, 11, 150, 160, 170, 180, 190]] = True
    for segment in range(2):
        redraw(visits, segment)
    taken = rows_of_blocks(sampler, 0)
    assert sorted(np.concatenate(taken)) == [3, 5, 7, 11, 150, 160, 170, 180, 190]
    for rows in taken:
        assert (rows < 100).sum() == 2
        assert 2 <= (rows >= 100).sum() <= 3
    assert [len(rows) for rows in rows_of_blocks(sampler, 48)] == [0, 0]


def test_rows_are_listed_as_far_as_there_is_room():
    sampler = make_block_sampler(make(40, 2), 8)
    for segment in range(2):
        redraw(sampler.visits, segment)
    whole, few = np.empty(40, np.int64), np.empty(3, np.int64)
    assert sampler.list_rows(0, 4, whole, 0) == 4
    assert sampler.list_rows(0, 4, few, 1) == 3
    assert few[1:].tolist() == whole[:2].tolist()


def test_compiled_and_plain_orders_are_the_same():
    for group, blocks in ((1, 1), (1, 3), (4, 2)):
        drawn = []
        for draw in (redraw, compiled_redraw):
            visits = make(101, blocks, seed=5, group=group, min_rows=9)
            visits.keep[::3] = False
            orders = []
            for _ in range(3):
                for block in range(blocks):
                    draw(visits, block)
                orders.append(visits.order.copy())
            drawn.append(orders)
        np.testing.assert_array_equal(*drawn)
        assert not np.array_equal(drawn[0][0], drawn[0][1])


def test_blocks_and_seeds_have_orders_of_their_own(draw):
    orders = []
    for seed in (0, 1):
        visits = make(40, 2, seed)
        for block in (0, 1):
            draw(visits, block)
        orders += [visits.order[:20].copy(), visits.order[20:] - 20]
    assert len({tuple(order) for order in orders}) == 4


# Groups and windows.


@pytest.mark.parametrize("n", [40, 43])
def test_groups_of_neighbours_are_visited_window_by_window_a_row_of_each_in_turn(draw, n):
    group, window = 4, 3
    first_members = set()
    for seed in range(10):
        visits = make(n, 1, seed, group, groups_in_window=window)
        with np.errstate(over="ignore"):
            first = int(Random(visits.states[0].copy()).uniform() * n)
        draw(visits, 0)
        assert sorted(visits.order) == list(range(n))
        rank = (visits.order.astype(int) - first) % n  # counted from the first row
        whole = n // group
        for begin in range(0, whole, window):
            size = min(window, whole - begin)
            ranks = rank[begin * group : (begin + size) * group]
            numbers, members = ranks // group, ranks % group
            assert len(set(numbers)) == size  # whole groups, and no others
            for turn in range(group):
                here = slice(turn * size, (turn + 1) * size)
                assert numbers[here].tolist() == numbers[:size].tolist()
            for k in range(size):
                assert sorted(members[k::size]) == list(range(group))
            first_members |= set(members[:size])
        # Rows of a group that is not full come last.
        assert rank[whole * group :].tolist() == list(range(whole * group, n))
    assert len(first_members) > 1  # not all groups begin with their first row


def test_which_groups_share_a_window_changes(draw):
    visits = make(48, 1, group=4)
    with_row_0 = set()
    for _ in range(5):
        draw(visits, 0)
        place = int(np.flatnonzero(visits.order == 0)[0]) // 12 * 12
        with_row_0.add(tuple(sorted(visits.order[place : place + 12])))
    assert len(with_row_0) > 1


@pytest.mark.parametrize(
    ("n", "bytes_per_row", "group", "window"),
    [
        (100_000, 100.0, 8, 1304),  # as many rows as allowed; 2**17 bytes hold 163 groups
        (100_000, 2000.0, 4, 64),
        (100_000, 8192.0, 1, 16),
        (100_000, 1e6, 1, 1),
        (1000, 100.0, 1, 1001),  # all of the data are near: no groups
        (10_485, 100.0, 1, 1310),
        (10_486, 100.0, 8, 1304),
        (2_000_000, 0.0, 8, 131_072),  # rows without entries
    ],
)
def test_how_large_groups_and_windows_are(n, bytes_per_row, group, window):
    visits = make_visit_order(n, 2, 0, bytes_per_row, DEFAULT_TUNING)
    assert (visits.group, visits.windows.shape) == (group, (2, window))
    assert visits.min_rows == 0
    assert visits.keep.all()
    assert visits.edges.tolist() == [0, n // 2, n]


# Methods that leave no row out.

WITHOUT = [
    (Pegasos(), 5, None),
    (Aggressive(), 7, None),
    (Safe(sampling="subsets"), 1, None),
    (Safe(skips=False), 1, None),
    (Safe(), 1, "tail"),
    (Guarded(sampling="subsets"), 7, None),
]
WITH = [(Safe(), 1), (Guarded(), 7), (Blocks(blocks=2), 6), (Aggressive(), 1)]


def test_only_screened_methods_have_a_visit_order():
    for method, batch_size, averaging in WITHOUT:
        schedule = Schedule(method, batch_size, averaging=averaging)
        sampler = sampler_for(60, schedule, 48.0, DEFAULT_TUNING)
        assert sampler.visits is UNSCREENED
        assert sampler.order.size > 0
        assert sampler.active_rows() == 60
    for method, batch_size in WITH:
        visits = sampler_for(60, Schedule(method, batch_size), 48.0, DEFAULT_TUNING).visits
        assert visits is not UNSCREENED
        blocks = 2 if isinstance(method, Blocks) else 1
        assert visits.edges.size == blocks + 1
        assert visits.min_rows == (0 if blocks > 1 else batch_size)


@pytest.mark.parametrize("engine", HOST_ENGINES)
def test_the_order_of_methods_that_leave_no_row_out_is_never_used(engine):
    before = [np.copy(array) for array in UNSCREENED[:7]]
    X, y = toy("hinge")
    with place_on(engine, X, 1) as data:
        problem = make_problem(data.targets(y), LOSSES["hinge"](), LAM)
        for method, batch_size, averaging in WITHOUT:
            trainer = data.trainer(problem)
            trainer.start(Schedule(method, batch_size, beta_b=2.0, averaging=averaging))
            trainer.run(150, np.array([-np.inf]), StopFlag())
            trainer.sums(trainer.point(), screen=True)
            for array, expected in zip(UNSCREENED[:7], before, strict=True):
                np.testing.assert_array_equal(array, expected)
