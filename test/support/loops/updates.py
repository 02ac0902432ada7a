"""What plain optimizers do, in NumPy. A parameter's state is a dict."""

import numpy

RATES = {"sgd": 1.0, "momentum": 1.0, "adam": 0.125, "adagrad": 0.5}


def sgd(value, grad, rate, state):
    return value - rate * grad


def momentum(value, grad, rate, state):
    state["buffer"] = 0.5 * state["buffer"] + grad if "buffer" in state else grad.copy()
    return value - rate * state["buffer"]


def adam(value, grad, rate, state):
    step = state["step"] = state.get("step", 0) + 1
    state["first"] = 0.9 * state.get("first", 0.0) + 0.1 * grad
    state["second"] = 0.999 * state.get("second", 0.0) + 0.001 * grad * grad
    root = numpy.sqrt(state["second"] / (1 - 0.999**step)) + 1e-8
    return value - rate * state["first"] / (1 - 0.9**step) / root


def adagrad(value, grad, rate, state):
    state["sum"] = state.get("sum", 0.0) + grad * grad
    return value - rate * grad / (numpy.sqrt(state["sum"]) + 1e-10)


UPDATES = {"sgd": sgd, "momentum": momentum, "adam": adam, "adagrad": adagrad}
