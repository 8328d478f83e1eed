"""States of objects and of random numbers, as `portal_checkpoint` saves and restores them."""

import random
import sys


def state_of(value):  # type: ignore[no-untyped-def]
    """Return the state of an object, for `set_state`. It may share memory with the object."""
    if hasattr(value, "trainable_variables"):  # Keras, perhaps on top of PyTorch
        return [variable.numpy() for variable in _variables(value)]
    if hasattr(value, "state_dict"):
        return value.state_dict()
    for of_numpy in (_bits, _legacy):
        if of_numpy(value):
            return of_numpy(value)[0]()
    if isinstance(value, (dict, list, set)) or hasattr(value, "__array_interface__"):
        return value
    return vars(value)


def set_state(value, state):  # type: ignore[no-untyped-def]
    """Give an object the state that another one like it had. Raises what the object raises."""
    if hasattr(value, "trainable_variables"):
        variables = _variables(value)
        if len(variables) != len(state):
            raise ValueError(f"it has {len(variables)} variables, not {len(state)}")
        for variable, content in zip(variables, state):
            variable.assign(content)
    elif hasattr(value, "state_dict"):
        value.load_state_dict(state)
    elif _bits(value) or _legacy(value):
        (_bits(value) or _legacy(value))[1](state)
    elif isinstance(value, list):
        value[:] = state
    elif isinstance(value, (dict, set)):
        value.clear()
        value.update(state)
    elif hasattr(value, "__array_interface__"):
        value[...] = state
    else:
        vars(value).clear()
        vars(value).update(state)


def _bits(value):  # type: ignore[no-untyped-def]
    """Return the functions that get and set the state of a generator of NumPy; None for others."""
    bits = getattr(value, "bit_generator", None)
    return bits and (lambda: bits.state, lambda state: setattr(bits, "state", state))


def _legacy(value):  # type: ignore[no-untyped-def]
    """Return the same for `random.Random` and `numpy.random.RandomState`."""
    for get, put in (("getstate", "setstate"), ("get_state", "set_state")):
        if hasattr(value, get) and hasattr(value, put):
            return getattr(value, get), getattr(value, put)
    return None


def _variables(model):  # type: ignore[no-untyped-def]
    """Return the variables of a Keras model and of its optimizer, without those of its metrics."""
    optimizer = getattr(model, "optimizer", None)
    if optimizer is not None and hasattr(optimizer, "build"):
        optimizer.build(model.trainable_variables)  # a new one has its variables only then
    metrics = {id(variable) for variable in getattr(model, "metrics_variables", ())}
    variables = [variable for variable in model.variables if id(variable) not in metrics]
    more = getattr(optimizer, "variables", ())
    return variables + list(more() if callable(more) else more)


def random_states():  # type: ignore[no-untyped-def]
    """Return the states of Python's random numbers, and of those of NumPy and PyTorch if the
    program has imported them."""
    states = {"random": random.getstate()}
    if "numpy" in sys.modules:
        states["numpy"] = sys.modules["numpy"].random.get_state()
    torch = sys.modules.get("torch")
    if torch is not None:
        states["torch"] = torch.get_rng_state()
        if torch.cuda.is_initialized():
            states["cuda"] = torch.cuda.get_rng_state_all()
    return states


def set_random(states):  # type: ignore[no-untyped-def]
    """Restore what `random_states` returned. Return a sentence about what could not be restored,
    "" if that is nothing."""
    random.setstate(states["random"])
    if "numpy" in states:
        import numpy

        numpy.random.set_state(states["numpy"])
    if "torch" in states:
        import torch

        torch.set_rng_state(states["torch"])
        if "cuda" in states:
            return _set_on_gpus(torch.cuda, states["cuda"])
    return ""


def _set_on_gpus(cuda, states):  # type: ignore[no-untyped-def]
    """Restore the states of the GPUs that are there, by their numbers."""
    gpus = cuda.device_count()
    if gpus:
        cuda.init()  # else the program's seed would be set at the first use of a GPU, after this
    for gpu, state in enumerate(states[:gpus]):
        cuda.set_rng_state(state, gpu)
    if len(states) == gpus:
        return ""
    return (
        f"The checkpoint is from a job with {_gpus(len(states))}, but this one has {_gpus(gpus)}. "
        "The loop continues, but random numbers on GPUs differ from those of an uninterrupted job."
    )


def _gpus(number):  # type: ignore[no-untyped-def]
    return f"{number} GPU{'s' * (number != 1)}"
