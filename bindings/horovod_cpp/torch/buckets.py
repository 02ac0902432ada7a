"""Which gradients are reduced together."""

from horovod_cpp import _native
from horovod_cpp.torch import gpu, memory


class Entry:
    """A parameter."""

    def __init__(self, name, parameter):
        self.name = name
        self.parameter = parameter
        self.bucket = None
        self.passes = 0  # backward passes in the open window
        self.held = False  # whether passes in no_sync() left something
        self.view = None  # its gradient's place in the arena, if it has one
        self._native_view = None  # (its stream, it) as the engine takes it
        self.travelling = None  # what is in flight
        self.done = None  # sum of the windows that were reduced since the last synchronize()
        self.sparse_dims = 0  # of gradients in coordinate form; 0: they are dense

    def set_view(self, view):
        """Its gradient lies there from now on; None: anywhere."""
        self.view, self._native_view = view, None
        if view is None:
            return
        self._address = view.data_ptr()
        view.copy_(self.parameter.grad)
        self.parameter.grad = view

    def native(self, stream):
        """Its dense gradient, as the engine takes it, used in the order of the stream."""
        if self.view is None:
            return memory.source(self.parameter.grad)
        if self._native_view is None or self._native_view[0] != stream:
            self._native_view = stream, memory.wrap(self.view)
        return self._native_view[1]

    def has_lost_its_view(self):
        """Module.double(), .half(), .cpu() and so on give gradients other memory, views included."""
        return self.view is not None and (
            self.view.data_ptr() != self._address or self.view.dtype != self.parameter.dtype
            or self.view.shape != self.parameter.shape
            or self.view.device != self.parameter.device)

    @property
    def bytes(self):
        return self.parameter.numel() * self.parameter.element_size()


class Bucket:
    """What is reduced together."""

    def __init__(self, entries):
        self.name = _native._bucket_name(entries[0].name, len(entries))
        self.labels = _native._CallLabels([entry.name for entry in entries])
        self.call_name = self.name  # of this optimizer's alone
        self.entries = entries
        self.full = 0  # entries whose window is full
        self.expected = 0  # of them
        self.started = False  # a reduction, since the last synchronize()
        self.bytes = sum(entry.bytes for entry in entries)
        self.tensors = []  # dense gradients, until they are submitted
        self.call = None  # in flight, of the dense gradients
        self.refusal = None  # why there is none
        self.compressed = []  # (entry, what travels, context), with a user's compressor
        self.sparse_calls = []  # (entry, handle) in flight
        self.in_flight = []  # entries
        for entry in entries:
            entry.bucket = self
        self.expect()

    def expect(self):
        """Parameters may have been frozen or thawed."""
        self.expected = sum(entry.parameter.requires_grad for entry in self.entries)

    def has_open_windows(self):
        return any(entry.passes or entry.held for entry in self.entries)

    def is_full(self, passes):
        return all(entry.passes >= passes for entry in self.entries
                   if entry.parameter.requires_grad)


def natives(entries):
    """The dense gradients of entries, as the engine takes them."""
    streams = {}  # looked up once for each device
    tensors = []
    for entry in entries:
        device = entry.parameter.device
        if device not in streams:
            streams[device] = gpu.stream_of(device)
        tensors.append(entry.native(streams[device]))
    return tensors


def divide(entries, groups):
    """Buckets of entries. ``groups``: lists of parameters, a number of groups, or None: by size."""
    if isinstance(groups, int) and groups > 0:
        count = min(groups, len(entries))
        parts = [[] for _ in range(count)]
        for place, entry in enumerate(entries):
            parts[place * count // len(entries)].append(entry)
    elif groups:
        parts = _as_given(entries, groups)
    else:
        parts = _by_size(entries, _fusion_threshold())
    return [Bucket(part) for part in parts]


def _as_given(entries, groups):
    left = {id(entry.parameter): entry for entry in entries}
    parts = []
    for number, group in enumerate(groups):
        part = []
        for parameter in group:
            entry = left.pop(id(parameter), None)
            if entry is None:
                raise _native.InvalidArgumentError(
                    f"DistributedOptimizer: groups[{number}] has a tensor of shape "
                    f"{list(parameter.shape)} that is in another group already, or is no parameter "
                    "of the optimizer")
            part.append(entry)
        if part:
            parts.append(part)
    return parts + [[entry] for entry in entries if id(entry.parameter) in left]


def _by_size(entries, limit):
    """In parameter order, each of at most so many bytes, or of one parameter; on one device."""
    parts, filled, device = [], 0, None
    for entry in entries:
        if not parts or filled + entry.bytes > limit or entry.parameter.device != device:
            parts.append([])
            filled, device = 0, entry.parameter.device
        parts[-1].append(entry)
        filled += entry.bytes
    return parts


def _fusion_threshold():
    """Bytes that may share one fused batch."""
    return int(next(setting["value"] for setting in _native.config()
                    if setting["name"] == "HOROVOD_FUSION_THRESHOLD"))
