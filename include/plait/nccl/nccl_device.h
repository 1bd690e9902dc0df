// In the place of NCCL's nccl_device.h, so that a program which needs it is told why it cannot have it.
// A program that includes it only where it sees NCCL 2.28 or later compiles without PLAIT_NCCL_MINOR.
#error \
    "Plait has no device API: its kernels are its own. Does the program do without if PLAIT_NCCL_MINOR is not defined?"
