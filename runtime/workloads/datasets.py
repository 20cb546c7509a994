"""Labelled images from a folder, or from scikit-learn's digits, as a map-style dataset.

Nothing is downloaded: the files of MNIST (http://yann.lecun.com/exdb/mnist) and of CIFAR-10 in its
binary version (https://www.cs.toronto.edu/~kriz/cifar.html) are read as published.
"""

from __future__ import annotations

import gzip
import math
import os
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.utils.data import Dataset

# The value of --data that means the 1,797 digits which are part of scikit-learn.
DIGITS = "digits"

CLASSES = 10

# https://www.cs.toronto.edu/~kriz/cifar.html: one byte of label, then 3 planes of 32 by 32 bytes.
_CIFAR_SHAPE = (3, 32, 32)
_CIFAR_RECORD = 1 + math.prod(_CIFAR_SHAPE)


class DataError(Exception):
    """A dataset cannot be read; the message is the one line the user sees."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Images(Dataset[tuple[Tensor, Tensor]]):
    """Pixels as bytes (sample, channel, row, column) and labels; an item is a float image.

    Bytes take a quarter of the memory of floats; they become floats when they are read.
    """

    pixels: Tensor
    labels: Tensor
    mean: float
    deviation: float

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        pixels = self.pixels[index].float().div_(255)
        return pixels.sub_(self.mean).div_(self.deviation), self.labels[index]


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A published dataset: the shape of an image, its statistics, and how to read its files."""

    shape: tuple[int, int, int]
    mean: float
    deviation: float
    read: Callable[[Path, bool], tuple[Tensor, Tensor]]


def load(name: str, data: str, *, train: bool) -> Images:
    """The training or the test part of a dataset in `FORMATS`.

    `data` is the folder with its files, or `digits` for scikit-learn's digits in the same shape.
    DataError when files are missing or are not what they should be.
    """
    form = FORMATS[name]
    read = _digits(form.shape, train) if data == DIGITS else form.read(Path(data), train)
    pixels, labels = read
    return Images(pixels=pixels, labels=labels, mean=form.mean, deviation=form.deviation)


def available(data: str) -> str:
    """The data to train on: in a rehearsal whose folder is missing or empty, the digits.

    `trainwright rehearse` sets TRAINWRIGHT_REHEARSAL. On a cluster missing data stays an error.
    """
    folder = Path(data)
    if data == DIGITS or "TRAINWRIGHT_REHEARSAL" not in os.environ:
        return data
    if folder.is_dir() and any(folder.iterdir()):
        return data
    if os.environ.get("RANK", "0") == "0":
        print(f"no data in {data}: training on the digits of scikit-learn", flush=True)
    return DIGITS


def _digits(shape: tuple[int, int, int], train: bool) -> tuple[Tensor, Tensor]:
    try:
        from sklearn.datasets import load_digits
    except ModuleNotFoundError as error:
        raise DataError(
            f"{DIGITS}: scikit-learn is not installed: pip install scikit-learn"
        ) from error

    digits = load_digits()
    # The same fifth for testing, always; the digits come sorted by writer.
    order = torch.randperm(len(digits.target), generator=torch.Generator().manual_seed(0))
    kept = order[len(order) // 5 :] if train else order[: len(order) // 5]
    small = torch.from_numpy(digits.images).float()[kept, None] * (255 / 16)
    large = torch.nn.functional.interpolate(small, size=shape[1:], mode="bilinear")
    pixels = large.clamp(0, 255).byte().expand(-1, shape[0], -1, -1).contiguous()
    return pixels, torch.from_numpy(digits.target).long()[kept]


def _mnist(folder: Path, train: bool) -> tuple[Tensor, Tensor]:
    part = "train" if train else "t10k"
    names = (f"{part}-images-idx3-ubyte", f"{part}-labels-idx1-ubyte")
    images, labels = (_idx(_find(folder, "MNIST/raw", n, f"{n}.gz")) for n in names)
    if images.shape[1:] != FORMATS["mnist"].shape[1:] or len(images) != len(labels):
        raise DataError(
            f"{folder}: images of shape {tuple(images.shape)} and {len(labels)} labels; expected "
            "as many images of 28 by 28 as labels"
        )
    return images[:, None], _classes(labels, folder)


def _cifar10(folder: Path, train: bool) -> tuple[Tensor, Tensor]:
    names = [f"data_batch_{i}.bin" for i in range(1, 6)] if train else ["test_batch.bin"]
    paths = [_find(folder, "cifar-10-batches-bin", name) for name in names]
    batches = []
    for path in paths:
        data = _bytes(path)
        if not len(data) or len(data) % _CIFAR_RECORD:
            raise DataError(
                f"{path}: {len(data)} bytes; expected records of {_CIFAR_RECORD} bytes (the binary "
                "version of CIFAR-10)"
            )
        batches.append(data.reshape(-1, _CIFAR_RECORD))
    records = torch.cat(batches)
    pixels = records[:, 1:].reshape(-1, *_CIFAR_SHAPE).contiguous()
    return pixels, _classes(records[:, 0], folder)


def _idx(path: Path) -> Tensor:
    """A tensor of bytes in the IDX format: 0, 0, the type, the rank, big-endian sizes, values."""
    data = _bytes(path)
    rank = int(data[3]) if len(data) > 3 else 0
    start = 4 + 4 * rank
    unsigned_bytes = 8
    if len(data) < start or data[:3].tolist() != [0, 0, unsigned_bytes] or not rank:
        raise DataError(f"{path}: it does not begin like an IDX file of bytes")
    header = bytes(data[4:start].tolist())
    sizes = [int.from_bytes(header[i : i + 4], "big") for i in range(0, len(header), 4)]
    if len(data) - start != math.prod(sizes):
        raise DataError(
            f"{path}: {len(data) - start} values after its header; expected {math.prod(sizes)}: "
            "is the file whole?"
        )
    return data[start:].reshape(sizes)


def _bytes(path: Path) -> Tensor:
    try:
        data = path.read_bytes()
        if path.suffix == ".gz":
            data = gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read: {error}") from error
    # A bytearray, since a tensor over bytes that cannot change is undefined when it is written to.
    return torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.empty(0)


def _find(folder: Path, below: str, *names: str) -> Path:
    """The first of the files that is there, in the folder or where others unpack it."""
    places: Sequence[Path] = [where / name for where in (folder, folder / below) for name in names]
    for path in places:
        if path.is_file():
            return path
    raise DataError(
        f"{folder}: no {names[0]} there or in {below}; put the published files there, or give "
        f"--data={DIGITS} for the digits of scikit-learn"
    )


def _classes(labels: Tensor, folder: Path) -> Tensor:
    if labels.max() >= CLASSES:
        raise DataError(f"{folder}: label {labels.max()}; expected 0 to {CLASSES - 1}")
    return labels.long()


FORMATS = {
    "mnist": Format(shape=(1, 28, 28), mean=0.1307, deviation=0.3081, read=_mnist),
    "cifar10": Format(shape=_CIFAR_SHAPE, mean=0.473, deviation=0.251, read=_cifar10),
}
