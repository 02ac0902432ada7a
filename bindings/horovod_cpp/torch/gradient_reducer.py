"""Gradients on their way through the ranks: the state machine behind DistributedOptimizer."""

import functools
import weakref

import torch
from torch.utils.hooks import unserializable_hook

from horovod_cpp import _native
from horovod_cpp.short_traceback import short_traceback
from horovod_cpp.torch import memory
from horovod_cpp.torch.agreement import Agreement, both_ways, digest
from horovod_cpp.torch.buckets import divide, natives
from horovod_cpp.torch.compression import WIRES, NoneCompressor
from horovod_cpp.torch.handle import result_of
from horovod_cpp.torch.in_flight import Attempts, Submissions, Travelling, check_place
from horovod_cpp.torch.movement import joins
from horovod_cpp.torch.parameter_check import ParameterCheck
from horovod_cpp.torch.sparse import sparse_allreduce_async


def next_name(process_set):
    """Of an optimizer; equal also on ranks that disagree on its parameters."""
    return "DistributedOptimizer" + _native._unique_suffix("optimizer", process_set)


class GradientReducer:
    """Hears of gradients from backward(), starts their reductions, waits for them. One thread.

    ``entries`` have unique names, equal on all ranks. From the start of a reduction to its end the
    gradient stays where it is and must not be touched; another backward pass waits for it.
    """

    def __init__(self, entries, groups, options):
        self.passes_per_step = options.backward_passes_per_step
        self.holds = 0  # above 0: backward() only accumulates
        self._options = options
        self._entries = entries
        self._name = next_name(options.process_set)
        self._buckets = self._divided(entries, groups)
        self._wire = WIRES.get(options.compression)
        self._submissions = Submissions(self._submit)
        self.synchronized = False  # and no backward() since
        self._agreement = Agreement(self._name, options.process_set)
        self._check = ParameterCheck(entries, self._agreement)
        self._is_first_step = True
        self._agreed_setup = self._agreed = None  # how many joins there were when the ranks agreed
        self._wants_views = options.gradient_as_bucket_view and (
            options.compression is NoneCompressor)
        self._nodes = []  # keeps the hooks of AccumulateGrad nodes alive
        self._hooks = []
        weakref.finalize(self, _remove, self._hooks)
        for entry in entries:
            self._hook(entry)

    def add(self, entries):
        """Parameters that come later; on all ranks, between two steps."""
        self._entries += entries
        self._buckets += self._divided(entries, None)
        self._agreed_setup, self._is_first_step = None, True
        for entry in entries:
            self._hook(entry)

    def _divided(self, entries, groups):
        buckets = divide(entries, groups)
        for bucket in buckets:  # another optimizer of equal names may be at work too
            bucket.call_name = bucket.name + self._name.removeprefix("DistributedOptimizer")
        return buckets

    def set_passes_per_step(self, passes):
        """Collective, unless nothing changes: else ranks would add up gradients of other passes."""
        if passes == self.passes_per_step:
            return
        before, self.passes_per_step = self.passes_per_step, passes
        self._agreed_setup = None
        try:
            self._agree_on_setup(before_step=False)
        except _native.Error:
            self.passes_per_step = before
            raise
        self._agreed_setup = None  # the first step has more to agree on

    def _hook(self, entry):
        """Also of a frozen parameter, which may thaw."""
        parameter, itself, known = entry.parameter, weakref.ref(self), weakref.ref(entry)

        @unserializable_hook
        @short_traceback
        def before(_):
            if (reducer := itself()) is not None:
                reducer._before_gradient(known())

        @unserializable_hook
        @short_traceback
        def after(*_):
            if (reducer := itself()) is not None:
                reducer._after_gradient(known())

        needed_gradient = parameter.requires_grad
        parameter.requires_grad_(True)
        self._hooks.append(parameter.register_hook(before))
        if hasattr(parameter, "register_post_accumulate_grad_hook"):
            self._hooks.append(parameter.register_post_accumulate_grad_hook(after))
        else:
            node = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
            self._hooks.append(node.register_hook(after))
            self._nodes.append(node)
        parameter.requires_grad_(needed_gradient)

    # -- during backward()

    def _before_gradient(self, entry):
        if entry.bucket.in_flight:
            self._set_aside(entry.bucket)

    def _after_gradient(self, entry):
        self.synchronized = False
        if self.holds:
            entry.held = True
            return
        bucket = entry.bucket
        entry.passes += 1
        if entry.passes == self.passes_per_step:
            bucket.full += 1
        if bucket.full >= bucket.expected and bucket.is_full(self.passes_per_step):
            self._start(bucket)
            self._submissions.during_backward(
                sum(each.bytes for each in self._buckets if not each.started))

    @torch.no_grad()
    def _start(self, bucket):
        """Prepares what is in its open windows for the way to the other ranks."""
        if bucket.in_flight:
            self._set_aside(bucket)
        options, dense = self._options, []
        bucket.full, bucket.started = 0, True
        for entry in bucket.entries:
            entry.passes, entry.held = 0, False
            if not entry.parameter.requires_grad:
                continue
            gradient = entry.parameter.grad
            entry.sparse_dims = entry.sparse_dims or sparse_dims(gradient)
            bucket.in_flight.append(entry)
            if entry.sparse_dims and not options.sparse_as_dense:
                bucket.sparse_calls.append((entry, self._start_sparse(entry)))
            else:
                dense.append(entry)
        if dense:
            bucket.tensors = self._travelling(bucket, dense)
            self._submissions.add(bucket)

    def _submit(self, bucket, quietly):
        options = self._options
        tensors, bucket.tensors = bucket.tensors, []
        try:
            bucket.call = _native._reduce_gradients(
                tensors, options.op, bucket.call_name, options.prescale_factor, options.postscale_factor,
                self._wire, options.process_set, quietly, bucket.labels)
        except _native.Error as error:
            bucket.refusal = error  # of step() too: these gradients are not reduced
            raise

    def _travelling(self, bucket, entries):
        for entry in entries:
            self._make_dense(entry)
            entry.travelling = Travelling(entry.parameter.grad)
        if self._wire is not None:
            return natives(entries)
        for entry in entries:
            compressed, context = self._options.compression.compress(entry.parameter.grad)
            bucket.compressed.append((entry, compressed.contiguous(), context))
        return [memory.source(compressed) for _, compressed, _ in bucket.compressed]

    @staticmethod
    def _make_dense(entry):
        """Puts the gradient where it can be reduced; zeros if there is none."""
        parameter, gradient = entry.parameter, entry.parameter.grad
        if gradient is not None and gradient.is_sparse:
            gradient = gradient.to_dense()
        if entry.has_lost_its_view():
            entry.set_view(None)
        if entry.view is not None:
            if gradient is None:
                entry.view.zero_()
            elif gradient.data_ptr() != entry.view.data_ptr():
                entry.view.copy_(gradient)
            parameter.grad = entry.view
            return
        if gradient is None:
            gradient = torch.zeros_like(parameter, memory_format=torch.contiguous_format)
        parameter.grad = gradient.data.contiguous()  # a version of its own, if it is part of another

    def _start_sparse(self, entry):
        parameter, gradient, dims = entry.parameter, entry.parameter.grad, entry.sparse_dims
        if gradient is None or (gradient.is_sparse and gradient._nnz() == 0):
            gradient = torch.sparse_coo_tensor(parameter.new_empty(dims, 0, dtype=torch.int64),
                                               parameter.new_empty(0, *parameter.shape[dims:]),
                                               parameter.shape)
        elif sparse_dims(gradient) != dims:
            gradient = gradient.to_dense().to_sparse(dims)
        name = entry.bucket.call_name
        if len(entry.bucket.entries) > 1:
            name += "." + entry.name
        return sparse_allreduce_async(gradient, name, self._options.op, self._options.process_set)

    # -- afterwards

    @torch.no_grad()
    def _finish(self, bucket):
        """Waits until nothing of it is in flight, and puts the results into the parameters."""
        if bucket.in_flight:
            self._submissions.flush(quietly=True)
            self._agree_on_setup()
        self._wait_for(bucket)
        call, bucket.call = bucket.call, None
        refusal = bucket.refusal
        compressed, bucket.compressed = bucket.compressed, []
        sparse_calls, bucket.sparse_calls = bucket.sparse_calls, []
        finished, bucket.in_flight = bucket.in_flight, []

        def finish_dense():
            if refusal is not None:
                raise refusal
            result_of(call)
            for entry in finished:
                check_place(entry)
            for entry, tensor, context in compressed:
                entry.parameter.grad.copy_(self._options.compression.decompress(tensor, context))

        def finish_sparse(entry, handle):
            entry.parameter.grad = handle.synchronize()

        attempts = Attempts()
        if call is not None or refusal is not None:
            attempts.run(finish_dense)
        for entry, handle in sparse_calls:
            attempts.run(lambda: finish_sparse(entry, handle))
        attempts.raise_first()
        return finished

    @staticmethod
    def _wait_for(bucket):
        """Ctrl-C leaves everything as it is: whoever waits again waits for the same."""
        calls = [handle for _, handle in bucket.sparse_calls]
        if bucket.call is not None:
            calls.append(bucket.call)
        for call in calls:  # what one failed with is told with its result
            Attempts().run(functools.partial(result_of, call))

    def _set_aside(self, bucket):
        """Makes room for another window: its result is added by synchronize()."""
        for entry in self._finish(bucket):
            gradient, entry.parameter.grad = entry.parameter.grad, None
            if entry.view is not None:
                gradient = gradient.clone()
            entry.done = gradient if entry.done is None else entry.done + gradient

    def synchronize(self):
        """Closes all windows and waits; does nothing unless there was a backward() since."""
        if self.synchronized:
            return
        self._submissions.waits_now()
        self._agree_on_setup()
        self._agree_on_layouts()
        attempts = Attempts()
        for bucket in reversed(self._buckets):  # about the order of backward()
            if not bucket.started or bucket.has_open_windows():
                attempts.run(lambda: self._start(bucket))
        attempts.run(lambda: self._submissions.flush(quietly=True))
        for bucket in self._buckets:
            self._wait_for(bucket)
        for bucket in self._buckets:  # all of them: then nothing is in flight any more
            attempts.run(lambda: self._finish(bucket))
            bucket.started, bucket.refusal = False, None
            bucket.expect()
            self._give_back(bucket)
        attempts.raise_first()
        self.synchronized = True
        self._move_into_arena()

    @torch.no_grad()
    def _give_back(self, bucket):
        for entry in bucket.entries:
            gradient = entry.parameter.grad
            if entry.done is not None:
                done, entry.done = entry.done, None
                entry.parameter.grad = gradient = done if gradient is None else gradient + done
            if entry.sparse_dims and gradient is not None and not gradient.is_sparse:
                entry.parameter.grad = gradient.to_sparse(entry.sparse_dims)

    def _agree_on_setup(self, before_step=True):
        """Before this rank first waits, and after a join(): the ranks reduce under the same names.

        Otherwise each would wait for reductions that no other rank starts. Before the first step
        they compare their parameters too.
        """
        now = joins[self._options.process_set.process_set_id]
        if self._agreed_setup == now:
            return
        with self._agreement.round():
            self._compare_setup(before_step and self._is_first_step)
        self._agreed_setup = now
        if before_step:
            self._is_first_step = False

    def _compare_setup(self, is_first_step):
        own = [digest(entry.name for entry in self._entries),
               digest(bucket.name for bucket in self._buckets), self.passes_per_step]
        self._check.begin(is_first_step)
        *extremes, most, least = self._agreement.greatest("setup",
                                                          both_ways(own) + self._check.numbers())
        names, buckets, passes = (a == -b for a, b in zip(extremes[:3], extremes[3:]))
        if not names:
            self._differ("parameters: their number, names or order",
                         f"{len(self._entries)}, from '{self._entries[0].name}' to "
                         f"'{self._entries[-1].name}'")
        if not buckets:
            self._differ("buckets, by groups= or num_groups= or by shapes of parameters",
                         f"{len(self._buckets)} of them")
        if not passes:
            self._differ("backward_passes_per_step", self.passes_per_step)
        self._check.end(most, least)

    def _differ(self, what, here):
        raise _native.MismatchError(
            f"DistributedOptimizer: the ranks differ in {what}; rank {_native.rank()} has {here}. "
            "Make the same model and optimizer on every rank")

    def _agree_on_layouts(self):
        """Once, and after a join(): which gradients are sparse, and whether a rank wants views.

        A rank that has no gradient yet must send what the others do; one that had joined before its
        first step knows nothing of what they agreed.
        """
        now = joins[self._options.process_set.process_set_id]
        if self._agreed == now:
            return
        dims = [entry.sparse_dims or sparse_dims(entry.parameter.grad) for entry in self._entries]
        with self._agreement.round():
            *dims, self._wants_views = self._agreement.greatest(
                "layout", [*dims, int(self._wants_views)])
        for entry, number in zip(self._entries, dims):
            entry.sparse_dims = number
        self._agreed = now

    @torch.no_grad()
    def _move_into_arena(self):
        """Into memory that the engine gives for it on each device; where it gives none, gradients
        stay where they are."""
        if not self._wants_views:
            return
        self._wants_views = False
        entries = [entry for entry in self._entries
                   if entry.parameter.requires_grad and not entry.sparse_dims]
        if not entries:
            return
        places = _native._GradientViews(
            [memory.source(entry.parameter.detach()) for entry in entries],
            self._options.process_set, entries[0].name)
        for entry, place in zip(entries, places.take()):
            if place is not None:
                entry.set_view(memory.shared(place))

    def name_in_flight(self):
        """Of a bucket whose reduction was started; None without one."""
        for bucket in self._buckets:
            if bucket.in_flight:
                return bucket.name
        return None

    def finish_in_flight(self):
        """Waits for the reductions that were started, without starting others."""
        attempts = Attempts()
        for bucket in self._buckets:
            attempts.run(lambda: self._finish(bucket))
        attempts.raise_first()

    def drop_accumulated(self):
        """The passes that were made do not count: their gradients were dropped."""
        for bucket in self._buckets:
            bucket.full, bucket.started, bucket.refusal = 0, False, None
            for entry in bucket.entries:
                entry.passes, entry.held, entry.done = 0, False, None

    def begin_step(self):
        """Gradients may have changed: the next synchronize() reduces again."""
        self.synchronized = False


def sparse_dims(gradient):
    """How many axes its coordinates have; 0 for a dense one, and for one that was emptied."""
    return gradient.sparse_dim() if gradient is not None and gradient.is_sparse and (
        gradient._nnz() > 0) else 0


def _remove(hooks):
    for hook in hooks:
        hook.remove()
