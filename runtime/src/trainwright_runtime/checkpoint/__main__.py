"""python -m trainwright_runtime.checkpoint: look into checkpoints, compare and convert them."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path

import click
import torch
from torch import Tensor

from trainwright_runtime.checkpoint import tree
from trainwright_runtime.checkpoint.contents import Contents, Kind, open_checkpoint
from trainwright_runtime.checkpoint.errors import CheckpointError


class _Group(click.Group):
    """A command group that reports what is wrong with a checkpoint in one line."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except CheckpointError as error:
            raise click.ClickException(str(error)) from error
        except OSError as error:
            words = error.strerror or str(error)
            where = f"{error.filename}: " if error.filename else ""
            raise click.ClickException(f"{where}{words}") from error


@click.group(cls=_Group)
def main() -> None:
    """Inspect, compare and convert checkpoints.

    A checkpoint is a folder or URL step-…, or one of them, of which the newest is taken. Every file
    is held against its digest first, and reading one runs no code that lies in it.
    """
    warnings.filterwarnings("ignore", "torch.distributed is (disabled|unavailable)")


@main.command()
@click.argument("checkpoint")
@click.option("--tensors", is_flag=True, help="List every tensor.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text")
def inspect(checkpoint: str, tensors: bool, output: str) -> None:
    """Show what a checkpoint holds."""
    contents = open_checkpoint(checkpoint)
    if output == "json":
        click.echo(json.dumps(_document(contents), indent=1))
        return
    size = sum(kind.bytes for kind in contents.tensors.values())
    click.echo(
        f"{contents.path}: step {contents.step}, {_size(size)} of tensors, whole, "
        f"written by {contents.world_size} rank(s) with torch {contents.torch}"
    )
    for name in contents.state:
        kinds = _tensors(contents, name)
        elements = sum(kind.elements for kind in kinds.values())
        total = _size(sum(kind.bytes for kind in kinds.values()))
        dtypes = ", ".join(sorted({_dtype(kind) for kind in kinds.values()}))
        summary = f"{len(kinds)} tensors, {elements:,} elements, {total} ({dtypes})"
        click.echo(f"  {name}: {summary if kinds else 'values'}")
        for tensor, kind in kinds.items() if tensors else ():
            click.echo(f"    {tensor}: {_dtype(kind)} {list(kind.shape)}")


@main.command()
@click.argument("first")
@click.argument("second")
@click.option("--rtol", default=0.0, help="Relative difference that counts as none.")
@click.option("--atol", default=0.0, help="Absolute difference that counts as none.")
@click.option("--entry", help="Compare this entry only, for example model.")
@click.pass_context
def compare(
    context: click.Context, first: str, second: str, rtol: float, atol: float, entry: str | None
) -> None:
    """List what differs between two checkpoints; exit code 1 if anything does."""
    left, right = open_checkpoint(first), open_checkpoint(second)
    differences = list(_differences(left, right, entry, rtol, atol))
    for line in differences:
        click.echo(line)
    click.echo(f"{len(differences)} differences" if differences else "no differences")
    context.exit(1 if differences else 0)


@main.command()
@click.argument("checkpoint")
@click.argument("target", type=click.Path(path_type=Path))
@click.option("--entry", default="model", show_default=True, help="What to convert.")
@click.option("--force", is_flag=True, help="Replace the target.")
def convert(checkpoint: str, target: Path, entry: str, force: bool) -> None:
    """Write the tensors of one entry as TARGET, a .safetensors file."""
    if target.suffix != ".safetensors":
        raise click.UsageError(f"{target}: expected a name that ends in .safetensors")
    if target.exists() and not force:
        raise click.UsageError(f"{target} is there already: choose another name, or --force")
    if not target.parent.is_dir():
        raise click.UsageError(f"{target}: there is no folder {target.parent}: make it first")
    try:
        from safetensors import SafetensorError
        from safetensors.torch import save_file
    except ImportError as error:
        raise click.ClickException("convert needs `pip install safetensors`") from error
    contents = open_checkpoint(checkpoint)
    tensors = _flat(contents, entry)
    unfinished = target.with_name(f".{target.name}.half")
    try:
        save_file(tensors, unfinished, metadata={"format": "pt", "step": str(contents.step)})
        unfinished.replace(target)
    except SafetensorError as error:  # its name for what the disk refuses, too
        raise click.ClickException(f"{target} cannot be written: {error}") from error
    finally:
        unfinished.unlink(missing_ok=True)
    click.echo(f"{target}: {len(tensors)} tensors of {entry}, step {contents.step}")


def _flat(contents: Contents, entry: str) -> dict[str, Tensor]:
    """Return an entry's tensors by their names in the model.

    Raise CheckpointError if the entry holds anything but tensors.
    """
    value = contents.entry(entry)
    if not isinstance(value, Mapping):
        raise CheckpointError(f"{entry!r} of {contents.path} is not a mapping of tensors")
    tensors = {name: item for name, item in value.items() if isinstance(item, Tensor)}
    if other := [str(name) for name in value if name not in tensors]:
        raise CheckpointError(
            f"{entry!r} of {contents.path} holds more than tensors ({other[0]!r}), which a "
            "safetensors file cannot"
        )
    return {str(name): tensor.contiguous() for name, tensor in tensors.items()}


def _differences(
    left: Contents, right: Contents, entry: str | None, rtol: float, atol: float
) -> Iterator[str]:
    """Yield a line for each difference between two checkpoints, or between one entry of them."""
    names = [name for name in left.state | right.state if entry in (None, name)]
    if not names:
        raise CheckpointError(f"neither checkpoint has {entry!r}")
    for name in names:
        if name not in left.state or name not in right.state:
            where = left if name in left.state else right
            yield f"{name}: only in {where.path}"
            continue
        mine, theirs = _tensors(left, name), _tensors(right, name)
        for tensor in mine | theirs:
            if tensor not in mine or tensor not in theirs:
                yield f"{tensor}: only in {(left if tensor in mine else right).path}"
            elif mine[tensor] != theirs[tensor]:
                my_layout, their_layout = (
                    f"{_dtype(k)} {list(k.shape)}" for k in (mine[tensor], theirs[tensor])
                )
                yield f"{tensor}: {my_layout}, {their_layout}"
            elif difference := _difference(left, right, tensor, rtol, atol):
                yield f"{tensor}: {difference}"
        yield from _values(name, left.state[name], right.state[name])


def _difference(left: Contents, right: Contents, name: str, rtol: float, atol: float) -> str | None:
    """Describe how a tensor differs, or return None. Reads one tensor of each to save memory."""
    left_tensor, right_tensor = (contents.read([name])[name] for contents in (left, right))
    if torch.equal(left_tensor, right_tensor):
        return None
    wide_dtype = torch.complex128 if left_tensor.is_complex() else torch.float64
    mine, theirs = left_tensor.to(wide_dtype), right_tensor.to(wide_dtype)
    apart = (mine - theirs).abs()
    if left_tensor.is_floating_point() or left_tensor.is_complex():
        differs = (mine != theirs) & ~(mine.isnan() & theirs.isnan())
    else:  # float64 does not hold all of int64
        differs, apart = left_tensor != right_tensor, apart.clamp(min=1)
    close = torch.isclose(mine, theirs, rtol=rtol, atol=atol) & (
        apart <= atol + rtol * theirs.abs()
    )
    if not (differs & ~close).any():
        return None
    most = apart[differs].max().item()
    return f"{int(differs.sum())} of {left_tensor.numel()} elements, at most {most:.3g} apart"


def _values(name: str, left: tree.Json, right: tree.Json) -> Iterator[str]:
    """Yield each difference between two values of `state.json`, preceded by its path."""
    if isinstance(left, dict) and isinstance(right, dict) and left.keys() == right.keys():
        for key in left:
            below = name if key in ("dict", "tuple", "items", "tensor") else f"{name}/{key}"
            yield from _values(below, left[key], right[key])
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for index, (mine, theirs) in enumerate(zip(left, right, strict=True)):
            yield from _values(f"{name}/{index}", mine, theirs)
    elif left != right:
        yield f"{name}: {_short(left)}, {_short(right)}"


def _tensors(contents: Contents, entry: str) -> dict[str, Kind]:
    return {name: contents.tensors[name] for name in sorted(tree.names(contents.state[entry]))}


def _document(contents: Contents) -> dict[str, object]:
    """Return what a checkpoint holds as data for programs."""
    return {
        "path": str(contents.path),
        "step": contents.step,
        "world_size": contents.world_size,
        "torch": contents.torch,
        "entries": list(contents.state),
        "tensors": {
            name: {"dtype": _dtype(kind), "shape": list(kind.shape), "bytes": kind.bytes}
            for name, kind in contents.tensors.items()
        },
    }


def _dtype(kind: Kind) -> str:
    return str(kind.dtype).removeprefix("torch.")


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _size(count: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            break
        count /= 1000
    return f"{count:.3g} {unit}" if unit != "bytes" else f"{count:.0f} bytes"


if __name__ == "__main__":
    main(prog_name="python -m trainwright_runtime.checkpoint")
