// The layout of work requests, which kernels copy as words, and their actions by where places lie (NVG-39, NVG-45..48).
#include "runtime/work_request.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <type_traits>

namespace plait {
namespace {

TEST(WorkRequest, IsCopiedAsWords) {
  static_assert(std::is_trivially_copyable_v<WorkRequest>);
  static_assert(sizeof(WorkRequest) % 16 == 0 && alignof(WorkRequest) == 16);
  static_assert(offsetof(WorkRequest, elements) % sizeof(uint64_t) == 0);
  static_assert(offsetof(WorkRequest, places) % sizeof(uint64_t) == 0);
  WorkRequest request;
  request.destinations = 3;
  EXPECT_EQ(request.source_places(), request.places + 3);
}

TEST(WorkRequest, ActionsFollowPlaces) {
  struct {
    WorkPlaces places;
    WorkAction action;
    const char* name;
  } const cases[] = {
      {{.gpu_destinations = 1, .gpu_sources = 4}, WorkAction::kToLocal, "TO-LOCAL"},
      {{.host_destinations = 1, .gpu_sources = 2, .host_sources = 1}, WorkAction::kToCpu, "TO-CPU"},
      {{.gpu_destinations = 2, .gpu_sources = 2}, WorkAction::kToGroup, "TO-GROUP"},
      {{.gpu_destinations = 1, .host_sources = 1}, WorkAction::kGroupBroadcast, "GROUP-BCAST"},
      {{.gpu_destinations = 4, .host_sources = 1}, WorkAction::kGroupBroadcast, "GROUP-BCAST"},
  };
  for (const auto& it : cases) {
    EXPECT_EQ(action_of(it.places), it.action) << it.name;
    EXPECT_EQ(name(it.action), it.name);
  }
}

}  // namespace
}  // namespace plait
