"""Any Python object between ranks."""

import pickle

import cloudpickle

from horovod_cpp import _native


def broadcast_object(obj, root_rank=0, name=None):
    """Give the object of rank ``root_rank`` to every rank; collective.

    The root pickles it (with cloudpickle, so functions travel too); its size and then its bytes are
    broadcast.

    Args:
        obj: what to send; other ranks may pass None.
        root_rank: the sender.
        name: pairs this call across ranks; None: one object at a time, in the same order.

    Returns:
        ``obj`` itself on the root, an equal object elsewhere.

    Raises:
        InvalidArgumentError: before init(), or there is no such rank.
        HorovodInternalError: the job ended.
    """
    is_root = _native.rank() == root_rank
    data = cloudpickle.dumps(obj) if is_root else b""
    data = _native._broadcast_bytes(data, root_rank, name or "")
    return obj if is_root else pickle.loads(data)
