"""Programs that failed once, the smallest of their kind. `corpus(front)` has those of a front end."""

_R0, _BOTH = [[0, 2], [1, 3]], [[[0, 2], [1, 3]], [[0, 2], [1, 3]]]
_ONE_RANK = [_R0, [[0, 2]]]  # rank 1 does not use the second parameter


def _backward(uses, hold=()):
    return {"do": "backward", "uses": uses, "hold": list(hold), "square": False}


def _zero(opt=0):
    return {"do": "zero_grad", "opt": opt, "none": True}


def _step(opt=0):
    return {"do": "step", "opt": opt}


def _freeze(number):
    return {"do": "freeze", "params": [number]}


def _program(ops, kinds=("float64", "float64"), optimizers=None, optimizer="sgd", **options):
    """One optimizer of all parameters, unless `optimizers` says which each has."""
    members = optimizers or [list(range(len(kinds)))]
    return {
        "ranks": 2,
        "params": [{"shape": [3, 2] if kind == "sparse" else [2], "kind": kind, "start": 0}
                   for kind in kinds],
        "optimizers": [{"params": params, "optimizer": optimizer, "options": options}
                       for params in members],
        "ops": ops,
    }


_TWO_STEPS_OF_TWO = [op for _ in range(3) for op in (
    _zero(0), _zero(1), _backward(_ONE_RANK), _step(0), _step(1))]
_REPLACED = [_step(), {"do": "rewrap", "opt": 0, "keep": True}]
_ONE = [[[0, 1]], [[0, 2]]]
_MADE = [_zero(), _backward(_ONE), _step()]  # a step with one parameter

_OPTIMIZERS = {
    "l1_held_pass_counts_on_some_ranks_only":
        _program([_backward(_BOTH, [0]), _backward(_ONE_RANK), _step()]),
    "l1_held_pass_that_is_the_last_of_a_window":
        _program([_backward(_BOTH), _backward(_BOTH, [0]), _backward(_ONE_RANK), _step()],
                 backward_passes_per_step=2),
    "l1_second_window_of_a_parameter_that_one_rank_uses":
        _program([_backward(_ONE_RANK), _backward(_ONE_RANK), _step()]),
    "l1_second_window_opens_after_a_full_one":
        _program([_backward(_BOTH), _backward(_ONE_RANK), _step()]),
    "l2_batch_of_one_rank_does_not_touch_an_optimizer":
        _program(_TWO_STEPS_OF_TWO, optimizers=[[0], [1]]),
    "l3_held_pass_is_averaged":
        _program([_backward(_BOTH, [0]), _backward(_BOTH), _step()],
                 average_aggregated_gradients=True),
    "l3_held_pass_of_a_window_of_two_is_averaged":
        _program([_backward(_BOTH, [0]), _backward(_BOTH), _step()],
                 backward_passes_per_step=2, average_aggregated_gradients=True),
    "l3_two_held_passes_are_averaged":
        _program([_backward(_BOTH, [0]), _backward(_BOTH, [0]), _backward(_BOTH), _step()],
                 backward_passes_per_step=2, average_aggregated_gradients=True),
    "l5_frozen_between_backward_and_step":
        _program([_backward(_ONE), _freeze(0), _step()]),
    "l5_frozen_after_a_pass_of_one_rank":
        _program([_backward([[], [[0, 1]]]), _freeze(0), _step()], kinds=("float64",),
                 backward_passes_per_step=2),
    "l5_frozen_in_a_window_of_two_passes":
        _program([_backward(_ONE), _freeze(0), _step()], backward_passes_per_step=2),
    "l5_frozen_with_a_gradient_of_the_step_before":
        _program([_backward([[[1, 2]], [[1, 3]]]), _step(), _freeze(1), _backward(_ONE), _step()],
                 op="Sum"),
    "l5_rows_that_are_averaged_and_frozen_before_step":
        _program([_backward([[], [[0, 1]]]), _backward([[[0, 4]], [[0, 3]]]), _freeze(0), _step()],
                 kinds=("sparse",), average_aggregated_gradients=True, backward_passes_per_step=3),
    "l6_averages_do_not_depend_on_the_neighbour":
        _program([_backward([[[0, 2]], [[0, 2]]]), _backward([[[0, 2]], [[0, 2]]]), _step()],
                 average_aggregated_gradients=True),
    "l7_synchronized_and_then_used_on_one_rank":
        _program([{"do": "synchronize", "opt": 0}, _backward([[[0, 2]], []]), _step()]),
    "l7_rows_of_one_rank_after_synchronize":
        _program([{"do": "synchronize", "opt": 0}, _backward([[], [[0, 4]]]), _step()],
                 kinds=("sparse",)),
    "l7_used_on_one_rank_after_synchronize":
        _program([_backward(_BOTH), {"do": "synchronize", "opt": 0},
                  _backward([[[0, 2]], []]), _step()]),
    "l7_clipped_before_it_is_reduced_after_synchronize":
        _program([{"do": "synchronize", "opt": 0}, _backward(_ONE), _step()],
                 clip_grad_norm=0.5, clip_when="before"),
    "l7_clipped_once_if_it_was_frozen_at_first":
        _program([_freeze(0), _step(), {"do": "thaw", "params": [0]}, _backward([[[0, 4]], []]),
                  _step()], kinds=("float64",), clip_grad_norm=2.0, clip_when="before"),
    "l8_rows_that_no_rank_uses_at_first":
        _program([*_MADE, _zero(), _backward([[[0, 1]], [[0, 2], [1, 1]]]), _step()],
                 kinds=("float64", "sparse")),
    "l9_rows_that_no_rank_uses_any_more":
        _program([_backward([[[0, 1], [1, 2]], [[0, 1], [1, 1]]]), _step(), *_MADE],
                 kinds=("float64", "sparse"), optimizer="adagrad"),
    "t1_newest_of_two_optimizers_reduces":
        _program([*_REPLACED, *_MADE, *_MADE], kinds=("float64",)),
    "t1_replaced_optimizer_says_so":
        _program([*_MADE, {"do": "rewrap", "opt": 0, "keep": True}, _zero(), _backward(_ONE),
                  {"do": "old_step", "opt": 0}], kinds=("float64",)),
}
_TORCH = {
    "t2_lazy_conjugate_in_the_first_step":
        _program(_MADE, kinds=("complex",)),
    "t2_lazy_conjugate_beside_views":
        _program(3 * _MADE, kinds=("complex",), gradient_as_bucket_view=False),
    "t3_copied_optimizer_reduces":
        _program([*_MADE, {"do": "copy", "how": "deepcopy"}, *_MADE], kinds=("float64",)),
    "t3_saved_optimizer_reduces":
        _program([*_MADE, {"do": "copy", "how": "pickle"}, *_MADE], kinds=("float64",)),
}
_OWN = {
    "l11_groups_with_a_frozen_parameter":
        _program([_freeze(0), {"do": "rewrap", "opt": 0, "keep": False},
                  _backward([[[1, 1]], [[1, 2]]]), _step()], groups=2),
    "l11_parameters_that_are_added_later":
        _program([*_MADE, {"do": "add_group", "opt": 0, "params": [1]}, _zero(),
                  _backward(_ONE_RANK), _step()], optimizers=[[0]]),
}
_SMALL = 0.00001  # MiB: each parameter is a bucket
_DDP = {
    "l1_held_pass_counts_on_some_ranks_only":
        _program([_backward(_BOTH, [0]), _backward(_ONE_RANK), _step()]),
    "l4_batch_that_raised_is_not_in_the_next":
        _program([{"do": "fail", "uses": [[[0, 2], [1, 3]]] * 2, "hold": [], "square": False,
                   "at": 0}, _backward([[[0, 1], [1, 1]]] * 2), _step()],
                 bucket_cap_mb=_SMALL),
    "l4_batch_that_raised_after_the_first_step":
        _program([_backward(_BOTH), _step(), _zero(),
                  {"do": "fail", "uses": [[[0, 2], [1, 3]]] * 2, "hold": [], "square": False,
                   "at": 0}, _backward(_ONE_RANK), _step()], bucket_cap_mb=_SMALL),
    "l4_batch_that_raised_on_ranks_of_other_parameters":
        _program([{"do": "fail", "uses": [[[0, 1], [1, 1], [2, 1]], [[0, 1], [1, 2]]],
                   "hold": [], "square": False, "at": 0},
                  _backward([[[2, 1], [0, 1]], [[0, 1], [2, 2]]]), _step()],
                 kinds=("float64",) * 3),
}
_OF_FRONT = {"torch": {**_OPTIMIZERS, **_TORCH}, "own": {**_OPTIMIZERS, **_OWN}, "own_ddp": _DDP}


def corpus(front):
    """Names and programs."""
    return {name: {"front": front, **program} for name, program in _OF_FRONT[front].items()}
