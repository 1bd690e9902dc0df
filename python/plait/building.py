"""Where compilers and linkers find Plait, for programs in C and C++."""

import os


def get_include() -> str:
    """The folder that has the headers, for -I: `plait/plait.h` for C, and `plait/plait.hpp` for C++.

    Its folder `plait/nccl` has a `nccl.h` for programs that were written for NCCL.
    """
    here = os.path.dirname(os.path.realpath(__file__))
    own = os.path.join(here, "include")
    return own if os.path.isdir(own) else os.path.normpath(os.path.join(here, "..", "..", "include"))


def get_library_dir() -> str:
    """The folder of libplait.so, for -L and -rpath, and of the drop-in for NCCL, libplait_nccl.so."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib")
