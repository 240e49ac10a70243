// SlowMo with one wrong step, and adapters that answer so. Each is the smallest change that a real fault would make.
#include "conformance/slowmo/slowmo_mutants.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "harness/mutants/rewriting.hpp"
#include "harness/mutants/wrong_kernels.hpp"
#include "harness/mutants/wrong_steps.hpp"
#include "reference/comm/errors.hpp"
#include "reference/slowmo/averaging.hpp"
#include "reference/slowmo/elements.hpp"
#include "reference/slowmo/kernel_tables.hpp"
#include "reference/slowmo/slowmo.hpp"

namespace plumbline::mutants {

using comm::Buffer;
using nlohmann::json;
using slowmo::Checkpoint;
using slowmo::Mean;
using slowmo::Range;
using slowmo::Setting;
using slowmo::SlowMoSteps;
using slowmo::SlowRule;
using slowmo::SlowTensor;
using slowmo::StepPlan;

namespace {

MakeSteps planning(std::function<void(const Setting&, std::int64_t step, StepPlan&)> change) {
  return with([change = std::move(change)](SlowMoSteps& steps) {
    steps.plan = [change](const Setting& setting, std::int64_t step) {
      StepPlan plan = slowmo::plan_of(setting, step);
      change(setting, step, plan);
      return plan;
    };
  });
}
MakeSteps settling(std::function<void(const slowmo::Options&, Setting&)> change) {
  return with([change = std::move(change)](SlowMoSteps& steps) {
    steps.settle = [change](const slowmo::Options& options, int rank, int world) {
      Setting setting = slowmo::settle(options, rank, world);
      change(options, setting);
      return setting;
    };
  });
}
/// What is refused for the options is taken, as if they were others.
MakeSteps taking(std::function<void(slowmo::Options&)> change) {
  return with([change = std::move(change)](SlowMoSteps& steps) {
    steps.settle = [change](const slowmo::Options& options, int rank, int world) {
      slowmo::Options other = options;
      change(other);
      return slowmo::settle(other, rank, world);
    };
  });
}
MakeSteps dividing(Mean what, std::function<int(const Setting&)> by) {
  return with([what, by = std::move(by)](SlowMoSteps& steps) {
    steps.divisor = [what, by](const Setting& setting, Mean of) {
      return of == what ? by(setting) : slowmo::divisor_of(setting, of);
    };
  });
}
MakeSteps saving(std::function<void(Checkpoint&)> change) {
  return with([change = std::move(change)](SlowMoSteps& steps) { steps.saved = change; });
}

/// Slow momentum of doubles, an element at a time.
using SlowElement = std::function<void(const SlowRule& rule, double& x, double& old, double& momentum)>;
MakeSteps slowing(SlowElement change) {
  return with([change = std::move(change)](SlowMoSteps& steps) {
    steps.slow = [change](const device::MemorySpace& place, const SlowRule& rule, std::span<const SlowTensor> tensors) {
      if (tensors.front().x.dtype != comm::DType::f64) return slowmo::slow_steps(place, rule, tensors);
      for (const auto& [x, old, momentum] : tensors)
        for (std::int64_t i = 0; i < x.count; ++i)
          change(rule, static_cast<double*>(x.data)[i], static_cast<double*>(old.data)[i],
                 static_cast<double*>(momentum.data)[i]);
    };
  });
}

std::string at_slowmo(const std::string& check, const std::string& parameters, int world) {
  return "slowmo." + check + "[" + parameters + (parameters.empty() ? "" : ",") + "world=" + std::to_string(world) +
         "]";
}

// ---- when parameters are averaged ----

// Each reduction's results come with the next one.
suite::Steps no_barrier() {
  const auto late = std::make_shared<std::vector<std::vector<std::byte>>>();
  SlowMoSteps steps;
  steps.reduce_gradients = [late](comm::Communicator& node, std::span<const Buffer> gradients, int divisor,
                                  slowmo::Convention convention, slowmo::Workspace& workspace) {
    std::vector<std::vector<std::byte>> memory;
    std::vector<Buffer> copies;
    for (const Buffer& gradient : gradients) {
      const auto* bytes = static_cast<const std::byte*>(gradient.data);
      memory.emplace_back(bytes, bytes + gradient.bytes());
      copies.push_back({memory.back().data(), gradient.count, gradient.dtype});
    }
    slowmo::all_reduce_mean(node, copies, divisor, convention, workspace);
    for (std::size_t i = 0; i < late->size(); ++i)
      std::ranges::copy((*late)[i], static_cast<std::byte*>(gradients[i].data));
    *late = std::move(memory);
  };
  return suite::Steps(std::move(steps));
}

std::vector<Mutant> times() {
  const auto on_time = [](int every, int groups) {
    return at_slowmo("average.on_time", "every=" + std::to_string(every) + ",groups=" + std::to_string(groups), 2);
  };
  return {
      {"slo.wrong_step", "SLOWMO-010", "LocalSGD averages a step early, from the first step on",
       "steps counted from 0 and from 1 are mixed up", on_time(3, 1), on_time(1, 1), "every step averages",
       planning([](const Setting& setting, std::int64_t step, StepPlan& plan) {
         plan.average = setting.local_sgd && step % setting.local_sgd_frequency == 0;
       })},
      {"slo.count_per_group", "SLOWMO-010", "steps are counted once for each group of the optimizer", "SLO-01",
       on_time(3, 2), on_time(3, 1), "there is one group", with([](SlowMoSteps& steps) {
         steps.next_step = [](std::int64_t done, std::size_t groups) {
           return done + static_cast<std::int64_t>(groups);
         };
       })},
      {"slo.no_average", "SLOWMO-011", "parameters are not averaged where every step should", "SLO-02",
       at_slowmo("average.equals_synchronous", "node=1", 2), at_slowmo("average.equals_synchronous", "node=1", 1),
       "alone, there is nothing to average",
       planning([](const Setting&, std::int64_t, StepPlan& plan) { plan.average = false; })},
      {"slo.average_grads", "SLOWMO-011", "gradients are averaged where parameters should be, when they are used up",
       "SLO-02", at_slowmo("average.equals_synchronous", "node=1", 2),
       at_slowmo("average.equals_synchronous", "node=1", 1), "alone, there is nothing to average",
       with([](SlowMoSteps& steps) {
         steps.averaged = [](std::span<const Buffer>, std::span<const Buffer> gradients) {
           return std::vector<Buffer>(gradients.begin(), gradients.end());
         };
       })},
      {"slo.skip_none_grad", "SLOWMO-046", "parameters without a gradient are left out of the average", "SLO-02",
       at_slowmo("average.without_gradients", "gradients=some", 2),
       at_slowmo("average.without_gradients", "gradients=all", 2), "every parameter has one",
       with([](SlowMoSteps& steps) {
         steps.averaged = [](std::span<const Buffer> parameters, std::span<const Buffer> gradients) {
           const auto with_gradients = parameters.first(std::min(parameters.size(), gradients.size()));
           return std::vector<Buffer>(with_gradients.begin(), with_gradients.end());
         };
       })},
      {"slo.node_gradients_by_world", "SLOWMO-011", "gradients of a node are divided by all ranks",
       "average by world size instead of node size", at_slowmo("average.equals_synchronous", "node=2", 4),
       at_slowmo("average.equals_synchronous", "node=2", 2), "the node is the world",
       dividing(Mean::gradients_of_node, [](const Setting& setting) { return setting.world; })},
      {"slo.nodes_by_world", "SLOWMO-011", "parameters of nodes are divided by all ranks",
       "average by world size instead of the number of nodes", at_slowmo("average.equals_synchronous", "node=2", 4),
       at_slowmo("average.equals_synchronous", "node=1", 3), "each rank is a node",
       dividing(Mean::parameters_of_nodes, [](const Setting& setting) { return setting.world; })},
      {"slo.no_barrier", "SLOWMO-019", "the gradients' reduction is not waited for, and found when the next one is due",
       "SLO-04", at_slowmo("average.gradients_are_complete", "node=2", 4),
       at_slowmo("average.gradients_are_complete", "node=1", 3), "nodes of one rank reduce nothing", no_barrier},
      {"slo.fragment_skip", "SLOWMO-045", "parts take turns, and there is a part more than turns", "SLO-05",
       at_slowmo("average.every_parameter", "tensors=many", 2), at_slowmo("average.every_parameter", "tensors=one", 2),
       "there is one part", with([](SlowMoSteps& steps) {
         steps.averaged = [](std::span<const Buffer> parameters, std::span<const Buffer>) {
           return std::vector<Buffer>(parameters.begin(), parameters.end() - (parameters.size() > 1 ? 1 : 0));
         };
       })},
      {"slo.average_twice", "SLOWMO-012", "LocalSGD averages in a slow step, too", "SLO-06",
       at_slowmo("slow.averages_once", "every=1,memory=whole", 2), "", "both fall on one step in every case",
       planning([](const Setting&, std::int64_t, StepPlan& plan) { plan.average = plan.local_sgd; })},
      {"slo.skip_both", "SLOWMO-012", "in a slow step nobody averages", "SLO-06",
       at_slowmo("slow.periods", "every=2,memory=whole", 2), "", "every case has slow steps",
       planning([](const Setting&, std::int64_t, StepPlan& plan) { plan.slow_average = false; })},
  };
}

// ---- slow momentum ----

std::vector<Mutant> slow_steps() {
  const auto paper = [](const char* rule, const char* memory, int world) {
    return at_slowmo("slow.as_the_paper", std::string("rule=") + rule + ",groups=1,memory=" + memory, world);
  };
  return {
      {"slo.sign", "SLOWMO-013", "the difference has the wrong sign", "SLO-03", paper("both", "whole", 2), "",
       "every case moves", slowing([](const SlowRule& rule, double& x, double& old, double& momentum) {
         momentum = rule.outer.momentum * momentum + (x - old) / rule.fast_learning_rate;
         x = old -= rule.outer.learning_rate * rule.fast_learning_rate * momentum;
       })},
      {"slo.alias", "SLOWMO-013", "old parameters are written before the difference is taken", "SLO-03",
       paper("momentum", "whole", 2), "", "every case moves",
       slowing([](const SlowRule& rule, double& x, double& old, double& momentum) {
         old = x;
         momentum = rule.outer.momentum * momentum + (old - x) / rule.fast_learning_rate;
         x = old -= rule.outer.learning_rate * rule.fast_learning_rate * momentum;
       })},
      {"slo.old_before_buffer", "SLOWMO-013", "old parameters move with the momentum of the step before",
       "old parameters updated before the buffer", paper("both", "efficient", 3), "", "every case moves",
       slowing([](const SlowRule& rule, double& x, double& old, double& momentum) {
         const double difference = (old - x) / rule.fast_learning_rate;
         old -= rule.outer.learning_rate * rule.fast_learning_rate * momentum;
         momentum = rule.outer.momentum * momentum + difference;
         x = old;
       })},
      {"slo.rate_twice", "SLOWMO-013", "slow momentum is scaled by the fast rate twice",
       "momentum scaled by fast lr twice", paper("both", "whole", 2), "", "no rate is 1",
       slowing([](const SlowRule& rule, double& x, double& old, double& momentum) {
         momentum = rule.outer.momentum * momentum + (old - x);
         x = old -= rule.outer.learning_rate * rule.fast_learning_rate * momentum;
       })},
      {"slo.rate_of_the_first_step", "SLOWMO-013", "the fast rate is that of the first slow step",
       "a rate is read once", paper("both", "whole", 2), "", "the rate changes in every case",
       [] {
         const auto first = std::make_shared<double>(0);
         SlowMoSteps steps;
         steps.slow = [first](const device::MemorySpace& place, SlowRule rule, std::span<const SlowTensor> tensors) {
           if (*first == 0) *first = rule.fast_learning_rate;
           rule.fast_learning_rate = *first;
           slowmo::slow_steps(place, rule, tensors);
         };
         return suite::Steps(std::move(steps));
       }},
      {"slo.slow_rate_ignored", "SLOWMO-013", "the slow learning rate is taken to be 1", "its default",
       paper("rate", "whole", 2), paper("momentum", "whole", 2), "it is 1",
       slowing([](const SlowRule& rule, double& x, double& old, double& momentum) {
         momentum = rule.outer.momentum * momentum + (old - x) / rule.fast_learning_rate;
         x = old -= rule.fast_learning_rate * momentum;
       })},
      {"slo.all_by_nodes", "SLOWMO-014", "the slow step divides the sum of all ranks by the number of nodes",
       "the divisor of the other average", at_slowmo("slow.inside_nodes", "node=2,memory=efficient", 4),
       at_slowmo("slow.inside_nodes", "node=1,memory=efficient", 4), "each rank is a node",
       dividing(Mean::parameters_of_all, [](const Setting& setting) { return setting.nodes; })},
      {"slo.shard_off_by_one", "SLOWMO-015", "shards end an element early", "shard boundary off by one",
       at_slowmo("slow.shards_do_not_matter", "shards=2", 2), at_slowmo("slow.shards_do_not_matter", "shards=1", 1),
       "a shard of all ends where all end", with([](SlowMoSteps& steps) {
         steps.shard = [](std::int64_t elements, int shards, int index) {
           Range range = slowmo::shard_range(elements, shards, index);
           if (range.end < elements) --range.end;
           return range;
         };
       })},
      {"slo.shards_cut_short", "SLOWMO-015", "shards have floor(E / K) elements, and the rest belongs to nobody",
       "a quotient is rounded down", at_slowmo("slow.shards_do_not_matter", "shards=5", 5),
       at_slowmo("slow.shards_do_not_matter", "shards=2", 2), "2 divides the elements", with([](SlowMoSteps& steps) {
         steps.shard = [](std::int64_t elements, int shards, int index) {
           const std::int64_t length = elements / shards;
           return Range{index * length, (index + 1) * length};
         };
       })},
      {"slo.all_keep_shards", "SLOWMO-016", "ranks beyond the shards keep slow momentum, too", "REF-10",
       at_slowmo("slow.shards_are_kept", "shards=2", 3), at_slowmo("slow.shards_are_kept", "shards=32", 3),
       "every rank has a shard", with([](SlowMoSteps& steps) {
         steps.settle = [](const slowmo::Options& options, int rank, int world) {
           Setting setting = slowmo::settle(options, rank, world);
           setting.owns_shard = true;
           return setting;
         };
         steps.shard = [](std::int64_t elements, int shards, int index) {
           return index < shards ? slowmo::shard_range(elements, shards, index) : Range{elements, elements};
         };
       })},
      {"slo.own_start", "SLOWMO-017", "each rank starts with its own parameters", "nothing is broadcast",
       at_slowmo("slow.starts_together", "start=apart,memory=whole", 2),
       at_slowmo("slow.starts_together", "start=together,memory=whole", 2), "all have the same",
       with([](SlowMoSteps& steps) { steps.shares_start = [](const Setting&) { return false; }; })},
      {"slo.begins_late", "SLOWMO-018", "slow buffers begin with what a rank has after its first step",
       "FairScale makes them in the first step()", at_slowmo("slow.begins_before_the_first_step", "", 2),
       at_slowmo("slow.begins_before_the_first_step", "", 1),
       "alone, a late start shows in the numbers, not between ranks",
       with([](SlowMoSteps& steps) { steps.begins_early = [](const Setting&) { return false; }; })},
  };
}

// ---- gossip ----

std::vector<Mutant> gossiping() {
  const auto over = [](const char* check, const char* graph, int world) {
    return at_slowmo(check, std::string("graph=") + graph, world);
  };
  const char* regular = "weights stay 1 where mixing is regular";
  return {
      {"slo.not_debiased", "SLOWMO-020", "the forward sees numerators", "weight not de-biased",
       over("gossip.estimates", "hub", 3), over("gossip.estimates", "ring", 3), regular, with([](SlowMoSteps& steps) {
         steps.debias = [](double) { return 1.0; };
         steps.bias = [](double) { return 1.0; };
       })},
      {"slo.not_biased_again", "SLOWMO-020", "estimates are mixed as if they were numerators",
       "the bias after the backward is forgotten", over("gossip.estimates", "skewed", 2),
       over("gossip.estimates", "ring", 2), regular,
       with([](SlowMoSteps& steps) { steps.bias = [](double) { return 1.0; }; })},
      {"slo.not_shared_in_node", "SLOWMO-022", "what the master mixed stays with it", "only masters gossip",
       at_slowmo("gossip.inside_nodes", "graph=hub,node=2", 4), at_slowmo("gossip.inside_nodes", "graph=hub,node=1", 4),
       "each rank is a master", with([](SlowMoSteps& steps) { steps.shares_in_node = [] { return false; }; })},
      {"slo.weight_stays", "SLOWMO-023", "an exact average leaves the weights", "FairScale does not set it back",
       at_slowmo("gossip.exact_average", "graph=hub,average=whole", 3),
       at_slowmo("gossip.exact_average", "graph=ring,average=whole", 3), regular, with([](SlowMoSteps& steps) {
         steps.weight_after_average = [](const Setting&, double weight) { return weight; };
       })},
      {"slo.gossips_every_other_step", "SLOWMO-024", "gossip is left out of every other step", "a rotation is skipped",
       at_slowmo("gossip.complete_graph_averages", "algorithm=push_sum", 3),
       at_slowmo("gossip.complete_graph_averages", "algorithm=push_sum", 1), "alone, there is nobody to gossip with",
       planning([](const Setting&, std::int64_t step, StepPlan& plan) { plan.gossip = plan.gossip && step % 2 == 0; })},
      {"slo.eval_gossips", "SLOWMO-025", "evaluation gossips", "a switch that is not asked",
       over("gossip.evaluation_does_not_gossip", "ring", 3), "", "every case evaluates",
       with([](SlowMoSteps& steps) { steps.gossips = [](bool) { return true; }; })},
      {"slo.off_for_good", "SLOWMO-025", "training behind an evaluation gossips no more",
       "a switch that is not turned back", over("gossip.evaluation_does_not_gossip", "ring", 3), "",
       "every case evaluates",
       [] {
         SlowMoSteps steps;
         steps.gossips = [is_off = false](bool training) mutable {
           is_off = is_off || !training;
           return !is_off;
         };
         return suite::Steps(std::move(steps));
       }},
      {"slo.lazy_with_lag", "SLOWMO-026", "mixing is lazy although gossip lags behind the optimizer",
       "the source is eager then, and says nowhere why", at_slowmo("gossip.overlaps", "graph=ring,lag=2,node=1", 3),
       at_slowmo("gossip.overlaps", "graph=ring,lag=0,node=1", 3), "nothing is added meanwhile",
       with([](SlowMoSteps& steps) { steps.lazy = [](bool can_be, int) { return can_be; }; })},
      {"slo.overlap_stays_with_master", "SLOWMO-026", "what came beside the backward stays with the master of a node",
       "only masters gossip", at_slowmo("gossip.overlaps", "graph=ring,lag=0,node=2", 4),
       at_slowmo("gossip.overlaps", "graph=ring,lag=0,node=1", 4), "each rank is a master",
       with([](SlowMoSteps& steps) { steps.shares_in_node = [] { return false; }; })},
      {"slo.collects_late", "SLOWMO-028", "what was handed over is collected a step late", "synch_freq counts from 1",
       at_slowmo("gossip.lags", "graph=ring,lag=2", 3), "", "every case lags",
       with([](SlowMoSteps& steps) { steps.collects = [](int behind, int lag) { return behind > lag; }; })},
      {"slo.left_under_way", "SLOWMO-026", "evaluation forgets the round that is under way",
       "FairScale turns gossip off before it asks the queue", at_slowmo("gossip.overlaps", "graph=hub,lag=2,node=1", 3),
       at_slowmo("gossip.overlaps", "graph=ring,lag=0,node=1", 3), regular,
       with([](SlowMoSteps& steps) { steps.drains = [] { return false; }; })},
  };
}

// ---- what is kept ----

std::vector<Mutant> states() {
  const auto halves = [](const char* loss, int world) {
    return at_slowmo("halves.keep_errors", std::string("masters=flat,loss=") + loss, world);
  };
  const auto resumes = [](const char* base, const char* memory, int before) {
    return at_slowmo("checkpoint.resumes",
                     std::string("base=") + base + ",memory=" + memory + ",before=" + std::to_string(before), 3);
  };
  return {
      {"slo.error_sign", "SLOWMO-030", "what a half has lost is taken twice instead of given back",
       "error feedback sign", halves("some", 2), "", "every average changes masters",
       with([](SlowMoSteps& steps) { steps.error_after = slowmo::keep_errors_of; })},
      {"slo.no_error_feedback", "SLOWMO-030", "masters are set to the average of the halves", "REF-11",
       halves("some", 2), halves("none", 2), "nothing is lost", with([](SlowMoSteps& steps) {
         steps.error_before = [](const device::MemorySpace&, std::span<const gossip::TensorPair>) {};
         steps.error_after = [](const device::MemorySpace& place, std::span<const gossip::TensorPair> halves) {
           slowmo::copy(place, halves);
         };
       })},
      {"slo.halves_stay", "SLOWMO-031", "halves are not set to their masters", "the copy back is forgotten",
       halves("some", 2), halves("none", 2), "they are alike",
       with([](SlowMoSteps& steps) { steps.copies_back = [] { return false; }; })},
      {"slo.buffers_not_broadcast", "SLOWMO-032", "buffers are not broadcast", "broadcast_buffers is ignored",
       at_slowmo("buffers.of_rank_0", "broadcast=yes", 2), at_slowmo("buffers.of_rank_0", "broadcast=no", 2),
       "they shall not be",
       with([](SlowMoSteps& steps) { steps.broadcasts_buffers = [](bool, std::int64_t) { return false; }; })},
      {"slo.buffers_always_broadcast", "SLOWMO-032", "buffers are broadcast although they shall not be",
       "broadcast_buffers is ignored", at_slowmo("buffers.of_rank_0", "broadcast=no", 2),
       at_slowmo("buffers.of_rank_0", "broadcast=yes", 2), "they shall be",
       with([](SlowMoSteps& steps) { steps.broadcasts_buffers = [](bool, std::int64_t) { return true; }; })},
      {"slo.own_buffers_at_the_start", "SLOWMO-032", "buffers are each rank's own until the first forward",
       "parameters alone are broadcast at the start", at_slowmo("buffers.of_rank_0", "broadcast=yes", 2),
       at_slowmo("buffers.of_rank_0", "broadcast=no", 2), "they shall be",
       with([](SlowMoSteps& steps) { steps.shares_buffers = [](bool) { return false; }; })},
      {"slo.one_bucket", "SLOWMO-033", "all buffers travel in one message", "the bucket's size is ignored",
       at_slowmo("buffers.in_buckets", "sizes=large", 2), at_slowmo("buffers.in_buckets", "sizes=small", 2),
       "they fit in one", with([](SlowMoSteps& steps) { steps.bucket_bytes = [] { return std::int64_t{1} << 40; }; })},
      {"slo.checkpoint_without_weight", "SLOWMO-034", "a checkpoint's push-sum weight is 1",
       "checkpoint without weight", resumes("sgp", "whole", 3), resumes("localsgd", "whole", 3), "there is no push-sum",
       saving([](Checkpoint& checkpoint) {
         if (checkpoint.push_sum_weight) checkpoint.push_sum_weight = 1;
       })},
      {"slo.checkpoint_without_numerator_flag", "SLOWMO-111", "a checkpoint takes estimates for numerators", "REF-13",
       at_slowmo("checkpoint.at_the_estimate", "graph=hub", 3),
       at_slowmo("checkpoint.at_the_estimate", "graph=none", 3), "there is no push-sum",
       saving([](Checkpoint& checkpoint) {
         if (checkpoint.is_numerator) checkpoint.is_numerator = true;
       })},
      {"slo.checkpoint_without_momentum", "SLOWMO-034", "slow momentum begins anew after a resume",
       "FairScale does not save it", resumes("localsgd", "whole", 4), resumes("sgp", "whole", 3), "there is none",
       saving([](Checkpoint& checkpoint) {
         if (checkpoint.slow) std::ranges::fill(checkpoint.slow->momentum, 0.0);
       })},
      {"slo.checkpoint_without_steps", "SLOWMO-034", "steps are counted anew after a resume",
       "FairScale does not save them", resumes("localsgd", "whole", 4), resumes("sgp", "whole", 4),
       "nothing is done every few steps", saving([](Checkpoint& checkpoint) { checkpoint.steps = 0; })},
      {"slo.checkpoint_without_round", "SLOWMO-034", "the graph begins anew after a resume",
       "FairScale does not save it", resumes("sgp", "whole", 3), resumes("sgp", "whole", 4),
       "the graph is where it began", saving([](Checkpoint& checkpoint) {
         if (checkpoint.round) checkpoint.round = 0;
       })},
      {"slo.rates_looked_at_late", "SLOWMO-039", "a rate of 0 is found when parameters are averaged already",
       "FairScale raises behind the division", at_slowmo("slow.rate_of_0", "rate=zero", 2),
       at_slowmo("slow.rate_of_0", "rate=usual", 2), "no rate is 0",
       with([](SlowMoSteps& steps) { steps.looks_at_rates_first = [](const Setting&) { return false; }; })},
  };
}

// ---- what is said ----

std::vector<Mutant> said() {
  const auto refused = [](const char* what) { return at_slowmo("options.refused", std::string("what=") + what, 3); };
  const auto warned = [](const char* what) { return at_slowmo("options.warned", std::string("what=") + what, 2); };
  const auto option = [](const char* check, const char* parameters, int world) {
    return at_slowmo(std::string("options.") + check, parameters, world);
  };
  return {
      {"slo.groups_ignored", "SLOWMO-112", "groups are made although the caller gives them",
       "an argument that nobody reads", option("groups", "groups=given", 4), option("groups", "groups=made", 4),
       "there are none",
       with([](SlowMoSteps& steps) { steps.groups = [](const slowmo::Groups&) { return slowmo::Groups{}; }; })},
      {"slo.global_group_ignored", "SLOWMO-112",
       "the caller's group of all ranks is not used, those of masters and node are",
       "one of three arguments that nobody reads", option("groups", "groups=given", 4),
       option("groups", "groups=made", 4), "there are none", with([](SlowMoSteps& steps) {
         steps.groups = [](slowmo::Groups given) {
           given.global = nullptr;
           return given;
         };
       })},
      {"slo.slow_phase_untold", "SLOWMO-113", "slow momentum is neither timed nor told", "a phase without events",
       option("phases", "asked=yes", 2), option("phases", "asked=no", 2), "nobody asks", with([](SlowMoSteps& steps) {
         steps.tells = [](slowmo::Phase phase) { return phase != slowmo::Phase::slow; };
       })},
      {"slo.blocking_wait_taken", "SLOWMO-114", "waits that block are taken", "FairScale's assertion left out",
       option("blocking_waits", "value=1", 3), option("blocking_waits", "value=0", 3), "they are off",
       with([](SlowMoSteps& steps) { steps.look_at_blocking_wait = [](const char*) {}; })},
      {"slo.other_default", "SLOWMO-115", "slow steps are every 24 steps unless told otherwise",
       "a default that was changed", option("defaults", "ranks=2", 3), "", "every case looks at all defaults",
       taking([](slowmo::Options& options) {
         if (options.slow_frequency == 48) options.slow_frequency = 24;
       })},
      {"slo.shards_not_capped", "SLOWMO-115", "there are as many shards as ranks", "the cap of 32 is forgotten",
       option("defaults", "ranks=33", 3), option("defaults", "ranks=32", 3), "32 ranks have a shard each",
       taking([](slowmo::Options& options) { options.shards = 1 << 20; })},
      {"slo.frequency_0_is_1", "SLOWMO-035", "frequency 0 is taken for 1", "a division by 0 that somebody avoids",
       refused("slow_frequency"), refused("nothing"), "it is 48",
       taking([](slowmo::Options& options) { options.slow_frequency = std::max(1, options.slow_frequency); })},
      {"slo.world_cut", "SLOWMO-035", "ranks that fill no node are taken for a node", "a quotient is rounded down",
       refused("world_no_multiple"), refused("nothing"), "a node has one rank",
       taking([](slowmo::Options& options) { options.ranks_per_node = 1; })},
      {"slo.overlap_unasked", "SLOWMO-035", "overlap needs no consent", "FairScale's switch without its assertion",
       refused("overlap"), refused("nothing"), "it is off",
       taking([](slowmo::Options& options) { options.accepts_stale = true; })},
      {"slo.over_refusal", "SLOWMO-036", "negative slow momentum is refused", "a range is narrower than needed",
       at_slowmo("options.taken", "what=negative_momentum", 3),
       at_slowmo("options.taken", "what=more_shards_than_ranks", 3), "it is 0.5",
       settling([](const slowmo::Options& options, Setting&) {
         if (options.slow_momentum < 0) throw InvalidArgument("slowmo: slow_momentum is below 0");
       })},
      {"slo.silent", "SLOWMO-037", "warnings are not given", "a log that nobody reads", warned("frequencies"),
       warned("nothing"), "there is none",
       settling([](const slowmo::Options&, Setting& setting) { setting.warnings.clear(); })},
      {"slo.one_node_averages", "SLOWMO-038", "with one node, LocalSGD stays on", "REF-09",
       at_slowmo("options.one_node", "base=localsgd", 2), "", "every case has one node",
       settling([](const slowmo::Options& options, Setting& setting) {
         setting.local_sgd = options.base == slowmo::BaseAlgorithm::local_sgd;
       })},
  };
}

// ---- outer optimizers ----

MakeSteps by_rule(std::function<void(slowmo::OuterRule&)> change) {
  return with([change = std::move(change)](SlowMoSteps& steps) {
    steps.slow = [change](const device::MemorySpace& place, SlowRule rule, std::span<const SlowTensor> tensors) {
      change(rule.outer);
      slowmo::slow_steps(place, rule, tensors);
    };
  });
}

std::vector<Mutant> outer_rules() {
  const auto published = [](const char* rule) {
    return at_slowmo("lattice.as_published", std::string("rule=") + rule, 2);
  };
  const auto groups = [](const char* levels, int warmup) {
    return at_slowmo("average.in_groups", std::string("levels=") + levels + ",warmup=" + std::to_string(warmup), 4);
  };
  return {
      {"slo.heavy_ball_for_nesterov", "SLOWMO-040", "Nesterov momentum is taken for heavy ball", "one line is left out",
       published("diloco"), published("bmuf"), "it has no Nesterov momentum",
       by_rule([](slowmo::OuterRule& rule) { rule.nesterov = false; })},
      {"slo.gradient_ignored", "SLOWMO-040", "the block learning rate is taken to be 1", "its default",
       published("bmuf"), published("diloco"), "it is 1", by_rule([](slowmo::OuterRule& rule) { rule.gradient = 1; })},
      {"slo.rule_by_fast_rate", "SLOWMO-042", "all momentum is of differences themselves",
       "the rate is thought to be constant", at_slowmo("lattice.rates_that_change", "rate=changes", 2),
       at_slowmo("lattice.rates_that_change", "rate=stays", 2), "it is",
       by_rule([](slowmo::OuterRule& rule) { rule.by_fast_rate = false; })},
      {"slo.rule_without_momentum", "SLOWMO-041", "momentum is left out of some rules", "a case that is forgotten",
       at_slowmo("lattice.coincide", "what=slowmo_is_bmuf", 3),
       at_slowmo("lattice.coincide", "what=slowmo_is_lookahead", 3), "there is none",
       by_rule([](slowmo::OuterRule& rule) {
         if (!rule.by_fast_rate) rule.momentum = 0;
       })},
      {"slo.mean_is_left_out", "SLOWMO-041", "a slow step that adds no momentum leaves each rank where it is",
       "a slow step that is skipped with its average", at_slowmo("lattice.coincide", "what=slowmo_is_local_sgd", 3),
       at_slowmo("lattice.coincide", "what=slowmo_is_bmuf", 3), "there is momentum",
       planning([](const Setting& setting, std::int64_t, StepPlan& plan) {
         if (plan.slow && setting.outer.is_mean()) plan.slow_average = false;
       })},
      {"slo.begin_ignored", "SLOWMO-043", "LocalSGD begins at once", "post-local SGD without its first part",
       at_slowmo("average.post_local", "begin=4", 2), at_slowmo("average.post_local", "begin=0", 2), "it shall",
       settling([](const slowmo::Options&, Setting& setting) { setting.local_sgd_begin = 0; })},
      {"slo.two_levels_in_one_call", "SLOWMO-044", "the lowest level that is due averages, not the highest",
       "periods are tried from the shortest on", groups("two", 0), groups("one", 0), "there is one level",
       with([](SlowMoSteps& steps) {
         steps.level = [](const slowmo::AveragingSchedule& schedule, std::int64_t call) {
           if (call < schedule.warmup) return -1;
           for (std::size_t level = 0; level < schedule.levels.size(); ++level)
             if ((call - schedule.warmup) % schedule.levels[level].period == 0) return static_cast<int>(level);
           return -1;
         };
       })},
      {"slo.warmup_ignored", "SLOWMO-044", "averages begin with the first call", "the warmup is forgotten",
       groups("one", 3), groups("one", 0), "there is no warmup", with([](SlowMoSteps& steps) {
         steps.level = [](slowmo::AveragingSchedule schedule, std::int64_t call) {
           schedule.warmup = 0;
           return slowmo::level_due(schedule, call);
         };
       })},
  };
}

// ---- memory of devices ----

/// Says that a stream is done, whatever it still has to do.
class NeverWaits final : public device::RuntimeDecorator {
 public:
  using RuntimeDecorator::RuntimeDecorator;
  void synchronize(int, device::Stream) override {}
};

std::vector<Mutant> on_devices() {
  const auto steps = [](const std::string& run, const char* type, int world = 2) {
    return at_slowmo("device.steps", "run=" + run + ",dtype=" + type, world);
  };
  using SlowWork = slowmo::SlowStepWork<slowmo::SlowStepAsPaper>;
  return {
      {"slo.device_error_sign", "SLOWMO-180",
       "on a device what halves lose is added to their masters before an average", "error feedback sign",
       steps("localsgd", "f16"), steps("localsgd", "f32"), "there are no masters",
       changing<slowmo::SumWork>([](slowmo::SumWork& work) { work.step.subtracts = false; })},
      {"slo.device_forgets_momentum", "SLOWMO-180", "on a device slow momentum begins anew in each slow step",
       "a coefficient that is left out", steps("slowmo-whole", "f32"), steps("localsgd", "f32"), "there is none",
       changing<SlowWork>([](SlowWork& work) { work.in_f32.beta = 0; })},
      racing({"slo.device_default_stream", "SLOWMO-181", "kernels are put into the device's default stream",
              "a stream that was not handed on", steps("localsgd", "f32"), "", "each step launches kernels",
              launching_by_default()}),
      {"slo.device_host_waits", "SLOWMO-181", "the host waits for each kernel", "a stream is synchronized",
       at_slowmo("device.host_goes_on", "run=localsgd,dtype=f32", 2), steps("localsgd", "f32"),
       "nobody looks at what the host does", waiting_for_kernels()},
      racing({"slo.staging_not_awaited", "SLOWMO-182", "what goes by way of the host is sent before it is there",
              "a copy that is not waited for", at_slowmo("device.by_way_of_the_host", "run=localsgd,dtype=f32", 2),
              steps("localsgd", "f32"), "nothing goes by way of the host",
              [](std::shared_ptr<device::Runtime> inner) -> std::shared_ptr<device::Runtime> {
                return std::make_shared<NeverWaits>(std::move(inner));
              }}),
      {"slo.never_stages", "SLOWMO-182", "a communication device is taken, and ignored", "an option that nobody reads",
       at_slowmo("device.by_way_of_the_host", "run=localsgd,dtype=f32", 2), steps("localsgd", "f32"),
       "none is asked for", with([](SlowMoSteps& steps) { steps.stages = [](bool) { return false; }; })},
      {"slo.looks_at_groups_late", "SLOWMO-183", "the optimizer's tensors are looked at when they are to be broadcast",
       "a check behind what it is to guard", at_slowmo("device.refuses", "", 2), steps("localsgd", "f32"),
       "all are in one memory",
       with([](SlowMoSteps& steps) { steps.looks_at_groups_first = [](const Setting&) { return false; }; })},
      {"slo.stages_unasked", "SLOWMO-183", "all goes by way of the host, asked or not", "a default that is on",
       at_slowmo("device.refuses", "", 2), steps("localsgd", "f32"), "values are the same",
       with([](SlowMoSteps& steps) { steps.stages = [](bool) { return true; }; })},
  };
}

// ---- answers ----

const char* const kSlowMoTrace = "slowmo.trace";

// Changes each row of an answer.
RewriteAnswer rows(std::function<void(const json& args, std::size_t step, std::size_t rank, json& row)> change) {
  return results_of(kSlowMoTrace, "fairscale", [change = std::move(change)](const json& args, json& result) {
    for (std::size_t step = 0; step < result["steps"].size(); ++step)
      for (std::size_t rank = 0; rank < result["steps"][step].size(); ++rank)
        change(args, step, rank, result["steps"][step][rank]);
  });
}
std::string runs(const char* check, const char* kind, const char* arithmetic = "any") {
  return std::string("slowmo.recorded.") + check + "[runs=" + kind + ",arithmetic=" + arithmetic + "]";
}

std::vector<Mutant> answers() {
  return {
      {"slo.trace_without_averages", "SLOWMO-001", "parameters are those after the optimizer", "nobody averages",
       runs("averages", "base"), "", "every list of runs averages",
       rows([](const json&, std::size_t, std::size_t, json& row) {
         if (row.contains("params")) row["params"] = row["params_after_optimizer"];
       })},
      {"slo.trace_buffers_of_the_rank", "SLOWMO-001", "a buffer stays that of its rank", "buffers not broadcast",
       runs("averages", "base"), "", "one list of runs has buffers",
       rows([](const json& args, std::size_t step, std::size_t rank, json& row) {
         if (row.contains("buffer_after_forward"))
           row["buffer_after_forward"] = args["steps"][step][rank]["buffer_before"];
       })},
      {"slo.trace_off_by_a_bit", "SLOWMO-001", "the last parameter is off by its last bit",
       "sums are added in another order", runs("averages", "base", "separate"), runs("averages", "base"),
       "a fused multiply-add makes a larger difference", rows([](const json&, std::size_t, std::size_t, json& row) {
         if (!row.contains("params")) return;
         const auto value = row["params"].back().get<float>();
         row["params"].back() = std::nextafter(value, 2 * value);
       })},
      {"slo.trace_slow_from_the_start", "SLOWMO-002", "old parameters are the initial ones", "what the paper says",
       runs("slow_steps", "slow"), runs("slow_steps", "first"), "they are there, since buffers are made first",
       rows([](const json& args, std::size_t step, std::size_t rank, json& row) {
         if (step > 0 || !row.contains("slow") || args.value("init_first", false)) return;
         const json& initial = args["ranks"][rank]["init_params"];
         for (std::size_t i = 0; i < row["slow"]["old_params"].size(); ++i)
           row["slow"]["old_params"][i] = initial[i + row["slow"]["start"].get<std::size_t>()];
       })},
      {"slo.trace_weight_of_1", "SLOWMO-003", "the weight is 1 throughout", "regular graphs alone were looked at",
       runs("gossip", "sgp_book"), runs("gossip", "sgp"), "graphs are regular, and weights 1",
       rows([](const json&, std::size_t, std::size_t, json& row) {
         if (row.contains("ps_weight")) row["ps_weight"] = 1;
       })},
      {"slo.trace_masters_of_halves", "SLOWMO-004", "masters have what their halves have", "no error feedback",
       runs("halves", "halves"), "", "there is one list", rows([](const json&, std::size_t, std::size_t, json& row) {
         if (row.contains("fp32")) row["fp32"] = row["params"];
       })},
      {"slo.trace_resumes", "SLOWMO-005", "slow buffers begin with the parameters that were loaded",
       "what one would expect of a resume", runs("resumed", "resume"), "", "there is one list",
       rows([](const json& args, std::size_t step, std::size_t, json& row) {
         if (args.contains("resume_at") && step > args["resume_at"].get<std::size_t>() && row.contains("slow"))
           std::ranges::fill(row["slow"]["momentum"], json(0.0));
       })},
  };
}

}  // namespace

std::vector<Mutant> slowmo_mutants() {
  std::vector<Mutant> all = times();
  for (const auto kind : {slow_steps, gossiping, states, outer_rules, on_devices, said, answers})
    std::ranges::move(kind(), std::back_inserter(all));
  return all;
}

}  // namespace plumbline::mutants
