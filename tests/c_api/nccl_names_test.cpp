// nccl_names_test.c as C++.
#include "nccl_names_test.c"  // NOLINT(bugprone-suspicious-include)
