// The GPUs that the main() of GPU tests has found.
#pragma once

namespace plait::test {

// The number of GPUs, at least one: without any, no test runs. They were counted in another process. So a test may fork
// ranks, as long as no test before it, in the order of the file, has used CUDA in this process.
int gpus();

}  // namespace plait::test
