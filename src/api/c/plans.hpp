// The object behind a plaitPlan_t.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "plait/plait.h"
#include "plan/verifier.hpp"

// Handles stay allocated when they have ended, a few words each, so that stale ones are recognised, as those of
// communicators are.
struct plaitPlan {
  static constexpr uint64_t kIsPlan = 0x6e616c507469616c;  // "laitPlan" in memory

  explicit plaitPlan(std::shared_ptr<const plait::VerifiedPlan> its_plan) : plan(std::move(its_plan)) {}

  const uint64_t magic = kIsPlan;
  std::mutex mutex;                                 // guards `plan`
  std::shared_ptr<const plait::VerifiedPlan> plan;  // none once destroyed
  plaitPlan* older = nullptr;
};

namespace plait::c {

// The plan of a handle that has not ended; refuses others.
std::shared_ptr<const VerifiedPlan> plan_of(plaitPlan_t plan);

}  // namespace plait::c
