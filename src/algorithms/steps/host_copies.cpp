// Copies whole messages to host memory and back.
#include "algorithms/steps/host_copies.hpp"

namespace plait {

HostCopies::HostCopies(PlanBuilder& builder, const AlgorithmArguments& arguments, bool apart)
    : builder_(builder), copiers_(add_queues(builder, arguments)) {
  const int chunks = builder.chunk_count();
  for (int rank = 0; rank < arguments.ranks; ++rank) {
    cpus_.push_back(builder.add_queue(rank, Engine::kCpu));
    inputs_.push_back({{builder.take_host(rank, chunks), 0}});
    results_.push_back(apart ? std::vector<Held>{{builder.take_host(rank, chunks), 0}} : inputs_.back());
  }
}

void HostCopies::copy_in() {
  for (size_t rank = 0; rank < cpus_.size(); ++rank) {
    builder_.copy(copiers_[rank], inputs_[rank][0].place, input_of(static_cast<int>(rank)), 0, builder_.chunk_count());
    builder_.wait(builder_.signal(copiers_[rank], cpus_[rank]));
  }
}

void HostCopies::copy_out() {
  for (size_t rank = 0; rank < cpus_.size(); ++rank) {
    builder_.wait(builder_.signal(cpus_[rank], copiers_[rank]));
    builder_.copy(copiers_[rank], output_of(static_cast<int>(rank)), results_[rank][0].place, 0,
                  builder_.chunk_count());
  }
}

}  // namespace plait
