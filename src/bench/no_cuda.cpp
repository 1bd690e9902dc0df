// The stand-ins for builds without CUDA.
#ifndef PLAIT_HAVE_CUDA
#include "base/error.hpp"
#include "bench/cuda_bench.hpp"
#include "bench/cuda_machine.hpp"

namespace plait {
namespace {

[[noreturn]] void refuse() {
  fail(ErrorCode::kInvalidArgument,
       "this build of Plait has no CUDA; build it where nvcc is, or with PLAIT_CUDA=wheel, and see what the build says "
       "of CUDA");
}

}  // namespace

CudaMachine look_at_cuda() { refuse(); }

struct CudaBench::Impl {};

CudaBench::CudaBench(Communicator&, size_t) { refuse(); }
CudaBench::~CudaBench() = default;
void CudaBench::add_plait(Communicator&) { refuse(); }
void CudaBench::add_nccl(const std::vector<std::string>&) { refuse(); }
std::vector<std::string> CudaBench::peers() const { refuse(); }
std::vector<Measurement> CudaBench::measure(const Call&, const CudaMeasureOptions&) { refuse(); }
std::vector<Measurement> CudaBench::measure_ring_shift(DataType, size_t, const ShiftPattern&,
                                                       const CudaMeasureOptions&) {
  refuse();
}
CudaBench::Impl& CudaBench::open() const { refuse(); }
void CudaBench::close() {}

}  // namespace plait
#endif
