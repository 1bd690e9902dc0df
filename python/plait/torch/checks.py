"""Checks the ranks and tensors of a call: everything that can be refused before anything happens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..errors import InvalidArgument
from .tensors import check_alike, check_tensor

Tensors = Sequence[torch.Tensor]


class Checks:
    """The checks of one rank of a group. All raise InvalidArgument, and `what` is the call in their words."""

    def __init__(self, rank: int, size: int) -> None:
        self._rank, self._size = rank, size

    def one(self, items: Sequence[Any], what: str) -> Any:
        """What is alone in its list: c10d has lists of tensors, and lists of such lists."""
        if len(items) != 1:
            raise InvalidArgument(
                f"{what}: a list of {len(items)} tensors or lists of this rank; pass one in each call"
            )
        return items[0]

    def root(self, opts: Any, what: str) -> int:
        if getattr(opts, "rootTensor", 0) != 0:
            raise InvalidArgument(f"{what}: rootTensor={opts.rootTensor}; each tensor is a call, so leave 0")
        return self._rank_of_group(opts.rootRank, f"{what}: invalid root rank")

    def peer(self, peer: int, what: str) -> int:
        return self._rank_of_group(peer, f"{what}: invalid rank")

    def _rank_of_group(self, rank: int, words: str) -> int:
        if not 0 <= rank < self._size:
            raise InvalidArgument(f"{words} {rank}; the group has the ranks 0 to {self._size - 1}")
        return rank

    def parts(self, what: str, parts: Tensors, one: torch.Tensor, *, writes: bool) -> None:
        """A list with a tensor for each rank, and this rank's own tensor, which is given or filled."""
        if len(parts) != self._size:
            raise InvalidArgument(f"{what}: a list of {len(parts)} tensors, but {self._size} ranks")
        for part in parts:
            check_tensor(part, what, writes=writes)
        check_tensor(one, what, writes=not writes)
        check_alike(one, parts, what)
        own = parts[self._rank]
        if own.numel() != one.numel():
            raise InvalidArgument(
                f"{what}: this rank's tensor has {one.numel()} elements, and its place in the list {own.numel()}"
            )

    def parts_of_root(
        self, what: str, lists: Sequence[Tensors], one: torch.Tensor, root: int, *, writes: bool
    ) -> Tensors:
        if self._rank != root:
            check_tensor(one, what, writes=not writes)
            return []
        parts = self.one(lists, what)
        self.parts(what, parts, one, writes=writes)
        if any(part.numel() != one.numel() for part in parts):
            sizes = ", ".join(str(part.numel()) for part in parts)
            raise InvalidArgument(f"{what}: tensors of {sizes} elements; all must have one size")
        return parts

    def whole(
        self, what: str, output: torch.Tensor, tensor: torch.Tensor, *, whole: torch.Tensor, part: torch.Tensor
    ) -> None:
        check_tensor(output, what, writes=True)
        check_tensor(tensor, what)
        check_alike(output, [tensor], what)
        if whole.numel() != part.numel() * self._size:
            raise InvalidArgument(
                f"{what}: an input of {tensor.numel()} elements and an output of {output.numel()}; over {self._size} "
                f"ranks one must be {self._size} times the other"
            )

    def rows(self, what: str, name: str, tensor: torch.Tensor, splits: Sequence[int]) -> list[int]:
        """How many rows of the tensor each rank's part has."""
        if tensor.dim() == 0:
            raise InvalidArgument(f"{what}: the {name} is a scalar, which has no first axis to divide")
        rows = tensor.size(0)
        if not splits:
            if rows % self._size:
                raise InvalidArgument(f"{what}: {self._size} ranks do not divide the {rows} rows of the {name}")
            return [rows // self._size] * self._size
        if len(splits) != self._size or sum(splits) != rows or min(splits) < 0:
            raise InvalidArgument(
                f"{what}: the sizes of the parts of the {name} are {list(splits)}; there must be one for each of the "
                f"{self._size} ranks, none below 0, and together they must be its {rows} rows"
            )
        return list(splits)
