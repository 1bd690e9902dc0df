// Choosing.
#include "tuner/tuner.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include "base/error.hpp"
#include "base/figures.hpp"
#include "plan/proof_size.hpp"
#include "topology/change.hpp"
#include "tuner/gpu_launch.hpp"
#include "tuner/rules.hpp"

namespace plait {
namespace {

// Predicted times that differ by less may be the other way round.
constexpr double kSurelyLess = 1.12;

bool goes_over_more_paths(const Candidate& it) {
  const std::vector<PathShare>& shares = it.choice.arguments.shares;
  return std::any_of(shares.begin(), shares.end(), [](const PathShare& of) { return of.kind != PathKind::kDirect; });
}

// Of a host, by its number.
std::map<int, std::vector<const Device*>> ports_of_hosts(const Topology& topology) {
  std::map<int, std::vector<const Device*>> ports;
  for (const Device& it : topology.devices) {
    if (it.kind == DeviceKind::kNic && it.port_gbps > 0) ports[it.node].push_back(&it);
  }
  return ports;
}

}  // namespace

std::string PlanChoice::text() const {
  if (given != 0) return algorithm;
  return to_text(spec_of(find_algorithm(algorithm, arguments.collective), arguments));
}

std::string Choice::origin() const {
  if (is_forced || insists_on_zero_copy || (!is_measured && !zero_copy)) return "";
  if (measured_elsewhere.empty()) return "measured: ";
  return join("a guess from what was measured on ", measured_elsewhere, ": ");
}

std::string Choice::reason() const {
  if (zero_copy) return origin() + zero_copy->reason;
  return join(origin(), plan.reason, ending ? "; " + ending->reason : "");
}

std::string Choice::launch_text() const {
  std::string kernels = to_text(launch, queues);
  if (ending) kernels += ", the last slice of each channel as " + ending->text();
  return zero_copy ? join(zero_copy_text(), ", else ", kernels) : kernels;
}

const char* Choice::zero_copy_text() const {
  return zero_copy->arguments.engine == Engine::kSm ? "from buffer to buffer" : "copy engines";
}

Tuner::Tuner(RankMachine machine, const Settings& settings, const PlanLimits& limits, bool is_for_gpus,
             const LaunchTimer* timer)
    : machine_(std::move(machine)),
      limits_(limits),
      overrides_(AlgorithmOverrides::parse(settings.algorithm)),
      timer_(timer) {
  const MeasuredOn& on = machine_.profile->measured_on;
  if (!was_measured(on, machine_.topology, machine_.placement.device_of_rank)) measured_elsewhere_ = on.text();
  if (!settings.launch.empty()) launch_ = parse_launch_shape(settings.launch);
  check_overrides(is_for_gpus);
}

void Tuner::check_overrides(bool is_for_gpus) {
  for (const AlgorithmOverrides::Entry& entry : overrides_.entries()) {
    try {
      if (entry.spec.zero_copy) {
        if (is_for_gpus) continue;
        fail(ErrorCode::kInvalidArgument, entry.text,
             " reads other ranks' buffers, as only GPUs do, and these ranks have none; leave ", name(entry.collective),
             " out");
      }
      const PlanChoice choice = made_of(entry.spec, {entry.collective}, "");
      find_algorithm(choice.algorithm, entry.collective).make(choice.arguments);
    } catch (const Error& error) {
      fail(ErrorCode::kInvalidArgument, "PLAIT_ALGORITHM is '", overrides_.text(), "': ", error.what());
    }
  }
}

std::string Tuner::Network::text() const {
  return gbps > 0 ? join(digits(gbps), " GB/s each way of a host, ", source) : "";
}

Tuner::Network Tuner::network() const {
  if (network_) return *network_;
  Network slowest;
  for (const auto& [host, ports] : ports_of_hosts(machine_.topology)) {
    double gbps = 0;
    for (const Device* it : ports) gbps += it->port_gbps * machine_.profile->costs.link_efficiency;
    if (slowest.gbps > 0 && slowest.gbps <= gbps) continue;
    slowest = {gbps, is_assumed(ports.front()->source) ? join("assumed by profile ", machine_.profile->name)
                                                       : "by the speed of its ports"};
  }
  return slowest;
}

// Of what links state a long message gets a share. Each port of a host has a part of what the host has.
void Tuner::set_network(Network network) {
  size_t most_ports = 1;
  for (const auto& [host, ports] : ports_of_hosts(machine_.topology)) most_ports = std::max(most_ports, ports.size());
  const double port_gbps = network.gbps / machine_.profile->costs.link_efficiency / static_cast<double>(most_ports);
  machine_.topology = with_ports(machine_.topology, port_gbps, join("a long message gets ", network.text()));
  network_ = std::move(network);
  candidates_.clear();
  simulations_.clear();
}

bool Tuner::goes_by_model(const Query& query) const {
  return query.plan == 0 && overrides_.find(query.collective, query.bytes) == nullptr && tuned_rule(query) == nullptr &&
         measured_rule(query) == nullptr;
}

PlanChoice Tuner::made_of(const AlgorithmSpec& spec, const Query& query, const std::string& reason) const {
  AlgorithmArguments arguments = machine_.arguments(query.collective, query.root);
  if (spec.zero_copy) arguments.access = Access::kZeroCopy;
  return {spec.name, resolve(spec, arguments), reason};
}

PlanChoice Tuner::made_of(const VerifiedPlan& given) const {
  const Plan& plan = given.plan();
  AlgorithmArguments arguments = machine_.arguments(plan.collective, plan.root);
  arguments.access = plan.access;
  for (const Queue& queue : plan.ranks.front().queues) {
    if (queue.engine == Engine::kCopy) arguments.engine = Engine::kCopy;
  }
  return {plan.algorithm, std::move(arguments), "given by the caller", given.fingerprint()};
}

std::shared_ptr<const VerifiedPlan> Tuner::plan(const PlanChoice& choice) {
  if (progress_ && !plans_.has(choice)) progress_(join("proving ", choice.text()));
  return plans_.get(choice);
}

Candidates& Tuner::find(Collective collective, int root) {
  const std::pair key{collective, has_root(collective) ? root : 0};
  auto found = candidates_.find(key);
  if (found == candidates_.end()) {
    found = candidates_.emplace(key, find_candidates(machine_, limits_, collective, key.second, progress_)).first;
  }
  return found->second;
}

const Candidates& Tuner::candidates(Collective collective, int root) { return find(collective, root); }

// A plan that cannot be proved is no candidate, nor is one whose proof shows that the runtime does not perform it.
const Candidate& Tuner::cheapest(const Query& query, Compare compare) {
  Candidates& candidates = find(query.collective, query.root);
  while (!candidates.all.empty()) {
    const Candidate& best = compare == Compare::kCosts ? candidates.cheapest(static_cast<double>(query.bytes))
                                                       : fastest_by_model(query, candidates);
    const PlanChoice choice = best.choice;
    try {
      const VerifiedPlan& proved = *plan(choice);
      if (limits_.unread_stores || !proved.report().unread_store) return best;
      candidates.drop({choice, join(choice.text(), " needs more than this runtime has: ", *limits_.excess(proved))});
    } catch (const PlanTooLarge& error) {
      candidates.drop({choice, error.what(), true});
    }
    simulations(query).variations.drop(choice);
    simulations(query).contest.forget_winners();
  }
  refuse_all(machine_, query.collective, candidates.left_out);
}

std::optional<PlanChoice> Tuner::zero_copy(const Query& query, const AlgorithmOverrides::Entry* forced) const {
  const GpuFacts& gpus = *machine_.gpus;
  if (query.plan != 0) {
    const VerifiedPlan& plan = given(query.plan);
    return gpus.maps_buffers && plan.plan().access == Access::kZeroCopy ? std::optional(made_of(plan)) : std::nullopt;
  }
  if (forced != nullptr) {
    if (!forced->spec.zero_copy || !gpus.maps_buffers) return std::nullopt;
    PlanChoice choice = made_of(forced->spec, query, join("asked for as '", forced->text, "'"));
    if (!forced->spec.engine) choice.arguments.engine = Engine::kCopy;
    return choice;
  }
  if (launch_ || machine_.ranks() < 2 || gpus.ranks_per_device > 1 || !gpus.maps_buffers) return std::nullopt;
  if (const TunedRule* tuned = tuned_rule(query)) {
    const AlgorithmSpec spec = parse_spec(tuned->choice, query.collective);
    return spec.zero_copy ? std::optional(made_of(spec, query, tuned->reason)) : std::nullopt;
  }
  const MeasuredRule* const rule = first_match(machine_.profile->zero_copy, subject_of(machine_, query));
  if (rule == nullptr) return std::nullopt;
  return made_of(parse_spec(rule->choice, query.collective), query, rule->reason);
}

const TunedTable* Tuner::tuned_table(Collective collective) const {
  const std::vector<TunedTable>& all = machine_.profile->tuned;
  const auto found = std::find_if(all.begin(), all.end(), [&](const TunedTable& it) {
    return it.collective == collective && it.ranks == machine_.ranks() &&
           it.place == tuned_place(machine_.topology, machine_.placement.device_of_rank);
  });
  return found == all.end() ? nullptr : &*found;
}

const TunedRule* Tuner::tuned_rule(const Query& query) const {
  if (machine_.gpus && machine_.gpus->most_sms > 0) return nullptr;  // measured with as many SMs as are fast
  const TunedTable* const table = tuned_table(query.collective);
  if (table == nullptr) return nullptr;
  const auto found = std::find_if(table->rules.begin(), table->rules.end(),
                                  [&](const TunedRule& it) { return it.from <= query.bytes && query.bytes <= it.to; });
  return found == table->rules.end() ? nullptr : &*found;
}

bool Tuner::has_rules() const {
  const int most = machine_.profile->measured_on.most_ranks;
  return !machine_.profile->algorithms.empty() && (most == 0 || machine_.ranks() <= most);
}

const MeasuredRule* Tuner::measured_rule(const Query& query) const {
  if (!has_rules()) return nullptr;
  return first_match(machine_.profile->algorithms, subject_of(machine_, query));
}

// Whether there are paths that plans which were measured elsewhere may not know of.
bool Tuner::has_paths_to_add() const {
  if (measured_elsewhere_.empty() || !machine_.base.paths) return false;
  const std::vector<RankPath>& paths = *machine_.base.paths;
  return std::any_of(paths.begin(), paths.end(), [&](const RankPath& it) {
    return it.kind == PathKind::kRelay || (it.kind == PathKind::kHost && limits_.host_memory);
  });
}

// No plan over direct paths alone can be as fast as that: links, at their usual efficiency, do not allow it.
const Candidate* Tuner::better_than_guess(const Query& query, const PlanChoice& guess) {
  if (!has_paths_to_add()) return nullptr;
  const Candidate& best = cheapest(query, Compare::kCosts);
  if (!goes_over_more_paths(best)) return nullptr;
  Choice guessed;
  guessed.plan = guess;
  double least = costed(guessed).bound_seconds_per_byte;
  for (const Candidate& it : find(query.collective, query.root).all) {
    if (!goes_over_more_paths(it)) least = std::min(least, it.bound_seconds_per_byte);
  }
  const auto bytes = static_cast<double>(query.bytes);
  const double least_seconds = least * bytes / machine_.profile->costs.link_efficiency;
  return best.cost.seconds(bytes) * kSurelyLess < least_seconds ? &best : nullptr;
}

Choice Tuner::choose(const Query& query) {
  if (query.knows_own_blocks_only) {
    Choice choice;
    choice.plan = made_of({std::string(own_block_algorithm(query.collective).name)}, query,
                          "a rank knows the sizes of its own blocks only, so no other passes them on");
    return choice;
  }
  const AlgorithmOverrides::Entry* const forced =
      query.plan != 0 ? nullptr : overrides_.find(query.collective, query.bytes);
  Choice choice;
  LaunchWish wish;
  if (query.only_simple) wish.protocol = Protocol::kSimple;
  const auto by_model = [&](const Candidate& best) {
    choice.plan = best.choice;
    choice.plan.reason =
        join("the cheapest of ", candidates(query.collective, query.root).all.size(), " candidates by the model, in ",
             best.steps, best.steps == 1 ? " step" : " steps", network_ ? ", over " + network_->text() : "");
    wish.protocol = best.protocol;
  };
  const bool is_free = query.plan == 0 && forced == nullptr;
  const TunedRule* const tuned = is_free ? tuned_rule(query) : nullptr;
  const bool is_tuned_plan = tuned != nullptr && !parse_spec(tuned->choice, query.collective).zero_copy;
  if (query.plan != 0) {
    choice.plan = made_of(given(query.plan));
  } else if (forced != nullptr && !forced->spec.zero_copy) {
    choice.plan = made_of(forced->spec, query, join("asked for as '", forced->text, "'"));
    choice.is_forced = true;
  } else if (is_tuned_plan) {
    choice.plan = made_of(parse_spec(tuned->choice, query.collective), query, tuned->reason);
    choice.is_measured = true;
    if (tuned->protocol && !query.only_simple) wish.protocol = parse_protocol(*tuned->protocol);
  } else if (const MeasuredRule* rule = measured_rule(query)) {
    choice.plan = made_of(parse_spec(rule->choice, query.collective), query, rule->reason);
    if (const Candidate* better = tuned == nullptr ? better_than_guess(query, choice.plan) : nullptr) {
      by_model(*better);
      wish.follows_rules = false;
    } else if (const Candidate* faster = tuned == nullptr ? faster_than_guess(query, *rule) : nullptr) {
      const std::string guess = choice.plan.text();
      by_model(*faster);
      choice.is_simulated = true;
      choice.plan.reason = join("much faster than ", guess,
                                ", by the simulation of launches; that one was measured on ", measured_elsewhere_);
      wish.follows_rules = false;
    } else {
      choice.is_measured = true;
      wish.threads = rule->threads;
    }
  } else {
    by_model(cheapest(query, Compare::kSimulations));
    choice.is_simulated = simulates(query.collective);
  }
  if (machine_.gpus) launch_on_gpus(choice, query, forced, wish);
  choice.is_tuned = tuned != nullptr && (is_tuned_plan || choice.zero_copy);
  if (choice.is_tuned) return choice;
  if (choice.is_measured || (choice.zero_copy && !choice.insists_on_zero_copy)) {
    choice.measured_elsewhere = measured_elsewhere_;
  }
  return choice;
}

void Tuner::launch_on_gpus(Choice& choice, const Query& query, const AlgorithmOverrides::Entry* forced,
                           const LaunchWish& wish) {
  if (wish.follows_rules) choice.zero_copy = zero_copy(query, forced);
  choice.insists_on_zero_copy = choice.zero_copy && (forced != nullptr || query.plan != 0);
  const bool is_free = query.plan == 0 && (forced == nullptr || forced->spec.zero_copy);
  // Flags inside the data need one queue, so whoever insists on them gets it.
  if (is_free && launch_ && launch_->protocol != Protocol::kSimple) choice.plan.arguments.parts = 1;
  const VerifiedPlan& plan = *this->plan(choice.plan);
  choice.queues = plan.report().shape.queues;
  const GpuLaunch launches(machine_, query);
  if (launch_) {
    choice.launch = *launch_;
    if (!machine_.gpus->host_path || query.plan != 0) choice.launch.host = {};
    if (choice.launch.host.channels > 0) choice.launch.host.bytes_per_second = launches.host_pace();
  } else {
    choice.launch = launches.shape(plan, wish);
    if (is_free && choice.launch.protocol == Protocol::kSimple) launches.add_host_part(choice.launch, choice.zero_copy);
    choice.launch = launches.fit(choice.launch, plan);
    const MeasuredRule* const rule = first_match(machine_.profile->endings, subject_of(machine_, query));
    if (is_free && wish.follows_rules && rule != nullptr && choice.plan.arguments.parts != 1) {
      choice.ending = made_of(parse_spec(rule->choice, query.collective), query, rule->reason);
    }
  }
  // Signals where the plan or the machine is not for the protocol: users insist on algorithms and launches that know
  // nothing of each other, and a barrier has no data.
  const bool tears = choice.launch.protocol == Protocol::kLl128 && !machine_.gpus->lines;
  if (tears || query.only_simple || !plan.can_carry_flags(query.type)) choice.launch.protocol = Protocol::kSimple;
}

MessageChoice Tuner::choose_message(size_t bytes) const {
  if (!machine_.gpus || machine_.ranks() < 2 || !machine_.gpus->maps_buffers || bytes == 0) return {};
  if (overrides_.for_messages()) return *overrides_.for_messages();
  MessageChoice choice;
  if (machine_.gpus->ranks_per_device > 1) return choice;
  RuleSubject subject = subject_of(machine_, {Collective::kBarrier, bytes});
  if (const MeasuredRule* rule = first_match(machine_.profile->messages, subject)) {
    choice.direct = rule->choice == name(Engine::kCopy) ? Engine::kCopy : Engine::kSm;
  }
  return choice;
}

// --- the table ---

bool Tuner::is_same(const Choice& a, const Choice& b) const {
  const auto text = [](const std::optional<PlanChoice>& it) { return it ? it->text() : std::string(); };
  return a.plan.text() == b.plan.text() && a.launch.protocol == b.launch.protocol && text(a.ending) == text(b.ending) &&
         text(a.zero_copy) == text(b.zero_copy) && a.plan.reason == b.plan.reason;
}

Candidate Tuner::costed(const Choice& choice) {
  const Protocol protocol = choice.launch.protocol;
  const auto tried = candidates_.find({choice.plan.arguments.collective, choice.plan.arguments.root});
  if (tried != candidates_.end() && choice.plan.given == 0) {
    if (const Candidate* known = tried->second.find(choice.plan, protocol)) return *known;
  }
  Routes routes(machine_.topology, machine_.placement);
  const PlanModel model(plan(choice.plan)->plan(), routes);
  return {choice.plan, protocol, cost_of(model, machine_.profile->costs, protocol), model.load().lower_bound(1),
          model.steps()};
}

// Figures are those of the plan that goes first: the zero-copy one, where ranks can map each other's buffers.
ChoiceRange Tuner::range(size_t from, size_t to, Choice choice) {
  Choice first = choice;
  if (choice.zero_copy) {
    first.plan = *choice.zero_copy;
    first.launch.protocol = Protocol::kSimple;
  }
  const Candidate model = costed(first);
  ChoiceRange made;
  made.from = from;
  made.to = to;
  made.choice = std::move(choice);
  made.protocol = first.launch.protocol;
  made.steps = model.steps;
  const auto seconds_of = [&](size_t bytes) {
    const auto message = static_cast<double>(bytes);
    return made.choice.is_simulated ? seconds(model, message) : model.cost.seconds(message);
  };
  made.from_seconds = seconds_of(from);
  made.to_seconds = seconds_of(to);
  if (model.bound_seconds_per_byte > 0) made.bound_gbps = 1e-9 / model.bound_seconds_per_byte;
  add_measured(made);
  return made;
}

// Measured times hold for the choice of a rule, on GPUs that users have not restricted.
void Tuner::add_measured(ChoiceRange& range) const {
  const Choice& choice = range.choice;
  const auto* const tuned = choice.is_tuned ? tuned_table(choice.plan.arguments.collective) : nullptr;
  if (tuned != nullptr) return add_points(range, tuned->times);
  const bool is_free = machine_.gpus && machine_.gpus->most_sms == 0 && machine_.gpus->maps_buffers && !launch_;
  if (!choice.is_measured || !is_free) return;
  const MeasuredTimes* const times = times_for(*machine_.profile, choice.plan.arguments.collective, machine_.topology,
                                               machine_.placement.device_of_rank);
  if (times != nullptr) add_points(range, *times);
}

void Tuner::add_points(ChoiceRange& range, const MeasuredTimes& times) {
  const Choice& choice = range.choice;
  const auto found = times.of_plan.find(choice.zero_copy.value_or(choice.plan).text());
  if (found == times.of_plan.end()) return;
  for (const MeasuredTimes::Point& it : found->second) {
    if (it.bytes >= range.from && it.bytes <= range.to) range.measured.push_back(it);
  }
  if (!range.measured.empty()) range.measured_source = times.source;
}

std::vector<ChoiceRange> Tuner::ranges(Query query, size_t most) {
  if (query.collective == Collective::kBarrier) {
    query.bytes = 0;
    return {range(0, 0, choose(query))};
  }
  // A message of whole blocks of vectors, as programs have them.
  const size_t grain = has_rank_blocks(query.collective) ? static_cast<size_t>(machine_.ranks()) * 16 : 16;
  const auto at = [&](size_t bytes) {
    query.bytes = bytes / grain * grain;
    if (query.bytes == 0) query.bytes = bytes;
    return choose(query);
  };
  std::vector<ChoiceRange> ranges;
  size_t from = 1;
  Choice current = at(from);
  for (size_t below = from; below < most;) {
    const size_t next = std::min(most, below * 2);
    Choice other = at(next);
    if (is_same(current, other)) {
      below = next;
      continue;
    }
    // The last size between that is still like the former.
    size_t low = below, high = next;
    while (high - low > 1) {
      const size_t middle = low + (high - low) / 2;
      (is_same(current, at(middle)) ? low : high) = middle;
    }
    ranges.push_back(range(from, low, std::move(current)));
    from = below = high;
    current = at(high);
  }
  ranges.push_back(range(from, most, std::move(current)));
  return ranges;
}

}  // namespace plait
