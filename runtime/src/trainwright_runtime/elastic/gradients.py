"""Gradients in flat buckets, summed over the replicas while backward still runs.

torch's own DistributedDataParallel keeps its reducer, which is built for one process group and one
world; here the world changes between steps. The buckets are as in the DDP paper
(https://arxiv.org/abs/2006.15704, section 3.2): a gradient is moved into its bucket when backward
has computed it, and is a view of it from then on; a bucket is sent as soon as its last gradient is
there, and always in the same order on every replica.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.distributed.tensor import DTensor

from trainwright_runtime.elastic.shards import like, local

BUCKET_BYTES = 25 * 1024 * 1024
FIRST_BUCKET_BYTES = 1024 * 1024
"""DDP's defaults: large enough to fill the wire, small enough to begin early."""

Reduce = Callable[[torch.Tensor], Any]


class Gradients:
    """The gradients of `parameters`; `reduce(tensor)` starts summing a bucket and can be waited on.

    A replica without records in a step takes part with zeros. Of a sharded parameter (DTensor) the
    shards of this process are summed, all of them once backward is done: until then FSDP itself
    sums them over the processes of the node, in streams of its own.
    """

    def __init__(self, parameters: Iterable[torch.nn.Parameter], reduce: Reduce) -> None:
        self._reduce = reduce
        self._buckets = [_Bucket(group) for group in grouped(parameters)]
        self._sending = False
        self._next = 0
        self._works: list[Any] = []
        for bucket in self._buckets:
            for parameter in bucket.views:
                if not isinstance(parameter, DTensor):
                    parameter.register_post_accumulate_grad_hook(self._hook(bucket))  # type: ignore[no-untyped-call]

    def clear(self) -> None:
        """Begin a step, without gradients and with nothing sent yet."""
        self._sending, self._next, self._works = False, 0, []
        for bucket in self._buckets:
            bucket.clear()

    def send_when_ready(self) -> None:
        """Send buckets as soon as the next backward, the last of this step, has completed them."""
        self._sending = True

    def finish(self) -> None:
        """Send the remaining buckets; wait until every bucket holds the sum over all replicas."""
        for bucket in self._buckets[self._next :]:
            self._send(bucket)
        works, self._works = self._works, []  # they would keep connections open that failed
        for work in works:
            work.wait()

    def flats(self) -> list[torch.Tensor]:
        """Return the sums, bucket by bucket."""
        return [bucket.flat for bucket in self._buckets]

    def put(self, flats: Sequence[torch.Tensor]) -> None:
        """Use these tensors as the sums of this step."""
        for bucket, flat in zip(self._buckets, flats, strict=True):
            bucket.flat.copy_(flat)
            bucket.renew()
            for parameter, view in bucket.views.items():
                parameter.grad = view

    def divide(self, by: float) -> None:
        for bucket in self._buckets if by != 1 else ():
            bucket.flat.div_(by)

    def used(self) -> list[bool]:
        """Whether backward gave each parameter a gradient in this step, in a fixed order."""
        return [parameter in bucket.used for bucket in self._buckets for parameter in bucket.views]

    def forget_unused(self, used: Sequence[float]) -> None:
        """Set gradients from zeros to None where no replica used the parameter: optimizers skip it.

        With zeros they would go on with its momentum and its weight decay.
        """
        parameters = (parameter for bucket in self._buckets for parameter in bucket.views)
        for parameter, count in zip(parameters, used, strict=True):
            if not count:
                parameter.grad = None

    def _hook(self, bucket: _Bucket) -> Callable[[torch.nn.Parameter], None]:
        """Return a hook that moves a gradient into its bucket, and sends complete buckets."""

        def arrived(parameter: torch.nn.Parameter) -> None:
            bucket.take(parameter)
            bucket.used.add(parameter)
            if self._sending:
                bucket.missing -= 1
                while self._next < len(self._buckets) and not self._buckets[self._next].missing:
                    self._send(self._buckets[self._next])

        return arrived

    def _send(self, bucket: _Bucket) -> None:
        self._next += 1
        bucket.gather()
        if bucket.flat.numel():  # the last shards of small parameters are empty
            self._works.append(self._reduce(bucket.flat))


class Averages:
    """Running averages that layers keep in addition to their parameters, as batch norms do.

    Each replica's depend on its own records; weighted by their number, the mean depends on all.
    """

    def __init__(self, model: torch.nn.Module, total: Callable[[torch.Tensor], None]) -> None:
        averages = {
            buffer: (module, name)
            for module in model.modules()
            for name, buffer in module.named_buffers(recurse=False)
            if buffer.is_floating_point()
        }
        self._places = [*averages.values()]  # `model.to()` puts other buffers there
        self._total = total
        self.flat = torch.empty(0)
        """Summed over the replicas."""

    @property
    def _buffers(self) -> list[torch.Tensor]:
        return [getattr(module, name) for module, name in self._places]

    def put(self, flat: torch.Tensor) -> None:
        """Use this tensor as the sum of this step."""
        for buffer in self._buffers[:1]:
            self.flat = flat.to(buffer.device)

    def exchange(self, records: int) -> None:
        """Sum the buffers over the replicas, weighted by their `records`."""
        if buffers := self._buffers:
            self.flat = torch.cat([buffer.flatten() for buffer in buffers]) * records
            self._total(self.flat)

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Restore the averages after the block: the records that are read in it do not count."""
        before = self.copies()
        try:
            yield
        finally:
            self.restore(before)

    def copies(self) -> list[torch.Tensor]:
        """Return copies of the buffers as they are now, for `restore`."""
        return [buffer.clone() for buffer in self._buffers]

    def restore(self, before: Sequence[torch.Tensor]) -> None:
        for buffer, value in zip(self._buffers, before, strict=True):
            buffer.copy_(value)

    def adopt(self, records: int) -> None:
        """Set the buffers to the average over the records of all replicas."""
        at = 0
        for buffer in self._buffers:
            part = self.flat[at : at + buffer.numel()]
            buffer.copy_(part.view_as(buffer) / records)
            at += buffer.numel()


class _Bucket:
    """Some parameters' gradients in one flat tensor."""

    def __init__(self, parameters: list[torch.nn.Parameter]) -> None:
        first = parameters[0]
        size = sum(local(p).numel() for p in parameters)
        self.flat = torch.zeros(size, dtype=first.dtype, device=first.device)
        self.views = self._views(parameters)
        self._at = self._addresses()
        self.missing = 0
        self.used: set[torch.nn.Parameter] = set()

    def _views(self, parameters: Iterable[torch.nn.Parameter]) -> dict[torch.nn.Parameter, Any]:
        shards = {p: local(p) for p in parameters}
        parts = torch.split(self.flat, [shard.numel() for shard in shards.values()])
        pairs = zip(shards.items(), parts, strict=True)
        return {p: like(p, part.view_as(shard)) for (p, shard), part in pairs}

    def _addresses(self) -> list[int]:
        views = self.views.values()
        return [view.data_ptr() for view in views if not isinstance(view, DTensor)]

    def renew(self) -> None:
        """Make the views anew if `model.to()` has moved the gradients to other memory."""
        if self._addresses() != self._at:
            self.views = self._views(self.views)

    def clear(self) -> None:
        """Drop all gradients: the first backward makes new ones, cheaper than adding to zeros."""
        self.renew()
        self.missing = len(self.views)
        self.used.clear()
        for parameter in self.views:
            parameter.grad = None

    def take(self, parameter: torch.nn.Parameter) -> None:
        """Copy the parameter's gradient into the bucket unless it is there; zeros if it is None."""
        view = self.views[parameter]
        gradient = parameter.grad
        if gradient is not view:
            if gradient is None:
                local(view).zero_()
            elif isinstance(gradient, DTensor):
                local(view).copy_(local(gradient))
                self.used.add(parameter)
            else:
                view.copy_(gradient.to_dense() if gradient.is_sparse else gradient)
            parameter.grad = view

    def gather(self) -> None:
        for parameter in self.views:
            self.take(parameter)


def grouped(parameters: Iterable[torch.nn.Parameter]) -> Iterator[list[torch.nn.Parameter]]:
    """Yield buckets of parameters in reverse order of use, which is about the order of backward."""
    trained = [p for p in parameters if p.requires_grad]
    kinds = dict.fromkeys((p.device, p.dtype) for p in trained)
    for kind in kinds:
        bucket: list[torch.nn.Parameter] = []
        size, limit = 0, FIRST_BUCKET_BYTES
        for parameter in reversed([p for p in trained if (p.device, p.dtype) == kind]):
            bucket.append(parameter)
            size += local(parameter).numel() * parameter.element_size()
            if size >= limit:
                yield bucket
                bucket, size, limit = [], 0, BUCKET_BYTES
        if bucket:
            yield bucket
