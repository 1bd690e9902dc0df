"""What torch.compile leaves alone.

C++ calls the methods of a group, and of a call under way, in the midst of compiled programs: DDP's reducer does. Dynamo
would trace them then as it traces functions of the program.
"""

from __future__ import annotations

import types
from typing import TypeVar

from torch._C._dynamo import eval_frame

Class = TypeVar("Class", bound=type)


def not_compiled(cls: Class) -> Class:
    """Has Dynamo run the methods of a class, and what they call, as they are. A decorator."""
    if hasattr(eval_frame, "set_code_exec_strategy"):  # torch.compiler.disable() would import Dynamo, for seconds
        skip = eval_frame._FrameExecStrategy(eval_frame._FrameAction.SKIP, eval_frame._FrameAction.SKIP)
        for member in vars(cls).values():
            if isinstance(member, types.FunctionType):
                eval_frame.set_code_exec_strategy(member.__code__, skip)
    return cls
