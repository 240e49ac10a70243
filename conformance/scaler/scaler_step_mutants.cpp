// Optimizers with 16-bit parameters with one wrong step. Each is the smallest change that a real fault would make.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>

#include "conformance/scaler/scaler_mutants.hpp"
#include "harness/mutants/wrong_steps.hpp"
#include "reference/comm/half.hpp"
#include "reference/scaler/fp16_optimizer.hpp"

namespace plumbline::mutants {

using comm::Buffer;
using comm::Communicator;
using scaler::Deciding;
using scaler::Fp16State;
using scaler::InnerOptimizer;
using scaler::Master;
using scaler::ModelParameter;
using scaler::ScalerGroups;
using scaler::ScalerSteps;
using scaler::Unscaling;

namespace {

// The decision, in another group than was asked for.
MakeSteps deciding_in(std::function<std::vector<Communicator*>(const ScalerGroups&)> groups) {
  return with([groups = std::move(groups)](ScalerSteps& steps) {
    steps.groups = [groups](Deciding, const ScalerGroups& all) {
      auto list = groups(all);
      std::erase(list, nullptr);
      return list;
    };
  });
}

// A byte of how many elements were bad, added up: it wraps.
void sum_not_max(ScalerSteps& steps) {
  steps.agree = [](std::span<Communicator* const> groups, std::span<float> flags, comm::Timeout timeout) {
    for (Communicator* group : groups)
      for (float& flag : flags) {
        std::uint8_t elements = flag > 0 ? 128 : 0;
        const Buffer buffer{&elements, 1, comm::DType::u8};
        group->all_reduce(buffer, buffer, comm::ReduceOp::sum, timeout);
        flag = static_cast<float>(elements);
      }
  };
}

// The flag is read when its reduction has been started.
void copy_before_wait(ScalerSteps& steps) {
  steps.agree = [](std::span<Communicator* const> groups, std::span<float> flags, comm::Timeout timeout) {
    for (Communicator* group : groups) {
      std::vector<float> reduced(flags.begin(), flags.end());
      const Buffer buffer{reduced.data(), static_cast<std::int64_t>(reduced.size()), comm::DType::f32};
      comm::Work work = group->start(
          comm::Call{.operation = comm::Operation::all_reduce, .op = comm::ReduceOp::max, .in = buffer, .out = buffer});
      const std::vector<float> read(flags.begin(), flags.end());
      work.wait(timeout);
      std::ranges::copy(read, flags.begin());
    }
  };
}

// The norm of a skipped step is combined without the number of zeros, which nobody asks for then.
void shorter_when_found(ScalerSteps& steps) {
  const auto group = std::make_shared<Communicator*>(nullptr);
  steps.norm_group = [group](const ScalerGroups& groups) { return *group = groups.model; };
  steps.enters_norm = [group](bool found, bool) {
    if (!found) return true;
    double norm = 0;
    const Buffer buffer{&norm, 1, comm::DType::f64};
    (*group)->all_reduce(buffer, buffer, comm::ReduceOp::sum, {});
    return false;
  };
}

// Only the first gradient's flag counts.
void first_only(ScalerSteps& steps) {
  steps.unscale = [](std::span<const Unscaling> gradients, float inverse) {
    const bool first = scaler::unscale(gradients.first(std::min<std::size_t>(1, gradients.size())), inverse);
    if (gradients.size() > 1) (void)scaler::unscale(gradients.subspan(1), inverse);
    return first;
  };
}

// Additions that saturate: an infinity becomes the largest number of the type before anybody looks.
void hidden_by_accumulation(ScalerSteps& steps) {
  steps.unscale = [](std::span<const Unscaling> gradients, float inverse) {
    for (const Unscaling& one : gradients) {
      if (one.from.dtype != comm::DType::f16) continue;
      auto* values = static_cast<comm::Float16*>(const_cast<void*>(one.from.data));
      for (std::int64_t i = 0; i < one.from.count; ++i)
        if ((values[i].bits & 0x7fffu) == 0x7c00u) --values[i].bits;
    }
    return scaler::unscale(gradients, inverse);
  };
}

void skip_updates_momentum(ScalerSteps& steps) {
  steps.skip = [](const InnerOptimizer& inner, std::span<const Master> masters) {
    std::vector<std::vector<float>> before;
    for (const Master& master : masters) before.emplace_back(master.values.begin(), master.values.end());
    inner.step(masters);
    for (std::size_t i = 0; i < masters.size(); ++i) std::ranges::copy(before[i], masters[i].values.begin());
  };
}

void stale_cache(ScalerSteps& steps) {
  steps.clipped_by = [first = std::make_shared<double>(-1)](double norm, double) {
    if (*first < 0) *first = norm;
    return *first;
  };
}

void kept_in_16_bits(ScalerSteps& steps) {
  steps.keep = [](std::span<float> master, comm::DType model) {
    for (float& value : master) {
      if (model == comm::DType::f16) value = comm::to_float(comm::to_float16(value));
      if (model == comm::DType::bf16) value = comm::to_float(comm::to_bfloat16(value));
    }
  };
}

std::string at_scaler(const char* check, const std::string& parameters, const char* grid) {
  const int world = (grid[0] - '0') * (grid[2] - '0') * (grid[4] - '0');
  return std::string("scaler.optimizer.") + check + "[" + parameters + (parameters.empty() ? "" : ",") +
         "grid=" + grid + ",world=" + std::to_string(world) + "]";
}

std::vector<Mutant> deciding() {
  const auto skips = [](const char* found, const char* grid) {
    return at_scaler("model_group_skips", std::string("found=") + found, grid);
  };
  const auto two = [](const char* found, const char* grid) {
    return at_scaler("two_reductions_decide_alike", std::string("found=") + found, grid);
  };
  const auto replicas = [](const char* found, const char* grid) {
    return at_scaler("replicas_skip_together", std::string("found=") + found, grid);
  };
  const auto shards = [](const char* found, const char* grid) {
    return at_scaler("shards_are_one", std::string("found=") + found + ",p=2", grid);
  };
  return {
      {"amp.tensor_group_only", "SCALER-060", "the tensor group decides", "AMP-01", skips("one", "2x2x1"),
       skips("one", "3x1x1"), "there is one stage",
       deciding_in([](const ScalerGroups& groups) { return std::vector{groups.tensor}; })},
      {"amp.local_check", "SCALER-060", "each rank decides by itself", "AMP-02", skips("one", "1x3x1"),
       skips("everybody", "1x3x1"), "all have found something",
       deciding_in([](const ScalerGroups&) { return std::vector<Communicator*>(); })},
      {"amp.data_group", "SCALER-060", "the data group decides", "two groups are mixed up", skips("one", "2x1x2"),
       skips("everybody", "2x1x2"), "all have found something",
       deciding_in([](const ScalerGroups& groups) { return std::vector{groups.data}; })},
      {"amp.sum_not_max", "SCALER-060", "bytes that count bad elements are added up, and wrap",
       "AMP-11: a sum in place of the maximum", skips("two", "2x1x1"), skips("one", "2x1x1"), "one rank's do not wrap",
       with(sum_not_max)},
      {"amp.copy_before_wait", "SCALER-060", "the flag is read before its reduction is complete", "AMP-05",
       skips("one", "2x3x1"), skips("everybody", "2x3x1"), "the flag was set before", with(copy_before_wait)},
      {"amp.scale_not_agreed", "SCALER-060", "each rank's scale follows what it found itself",
       "a skipped step backs off, and who did not find it does not", skips("one", "3x1x1"), skips("everybody", "3x1x1"),
       "all have found something",
       with([](ScalerSteps& steps) { steps.followed = [](bool own, bool) { return own; }; })},
      {"amp.pipeline_not_asked", "SCALER-061", "the second of two reductions is left out",
       "AMP-01: it was made in some cases only", two("one", "1x3x1"), two("one", "3x1x1"), "there is one stage",
       deciding_in([](const ScalerGroups& groups) { return std::vector{groups.tensor}; })},
      {"amp.replicas_not_asked", "SCALER-062", "the model group decides about gradients that are not reduced",
       "AMP-02: replicas drift apart", replicas("one", "1x1x2"), replicas("one", "2x3x1"), "there is one replica",
       deciding_in([](const ScalerGroups& groups) { return std::vector{groups.model}; })},
      {"amp.shard_alone", "SCALER-112", "each rank looks at its own shard alone", "AMP-02", shards("one", "1x1x3"),
       shards("nobody", "1x1x3"), "there is nothing to find",
       deciding_in([](const ScalerGroups&) { return std::vector<Communicator*>(); })},
      {"clp.norm_of_a_shard", "SCALER-112", "each rank clips by the norm of its own shard", "CLP-03",
       shards("nobody", "1x1x2"), shards("nobody", "1x1x1"), "there is one shard", with([](ScalerSteps& steps) {
         steps.norm_group = [](const ScalerGroups&) -> Communicator* { return nullptr; };
       })},
      {"amp.no_reset", "SCALER-063", "the flag of the last step stays", "AMP-11: the buffer of flags is used again",
       at_scaler("flags_begin_anew", "found=one", "1x1x1"), at_scaler("flags_begin_anew", "found=nobody", "1x1x1"),
       "it was not set", with([](ScalerSteps& steps) { steps.first_flag = [](float last) { return last; }; })},
  };
}

std::vector<Mutant> taking_part() {
  const auto empty = [](const char* empty, const char* grid) {
    return at_scaler("empty_ranks_take_part", std::string("empty=") + empty, grid);
  };
  const auto calls = [](const char* norm, const char* grid) {
    return at_scaler("same_calls_in_every_step", std::string("norm=") + norm, grid);
  };
  return {
      {"amp.empty_rank_skips", "SCALER-064", "a rank without parameters stays out of the decision", "AMP-06",
       empty("last_stage", "1x2x1"), empty("nobody", "1x2x1"), "all have some",
       with([](ScalerSteps& steps) { steps.decides = [](std::size_t parameters) { return parameters > 0; }; })},
      {"clp.empty_max", "SCALER-064", "the norm of no gradients is no number", "CLP-04", empty("last_stage", "1x3x1"),
       empty("nobody", "1x3x1"), "all have some", with([](ScalerSteps& steps) {
         steps.partial = [](std::span<const std::span<const float>> gradients, double p) {
           return gradients.empty() ? std::nan("") : scaler::partial_norm(gradients, p);
         };
       })},
      {"clp.conditional_collective", "SCALER-064", "only ranks that hold parts of matrices enter the norm", "CLP-05",
       empty("last_stage", "2x2x1"), empty("nobody", "2x2x1"), "all hold some",
       with([](ScalerSteps& steps) { steps.enters_norm = [](bool, bool has_parts) { return has_parts; }; })},
      {"amp.early_return", "SCALER-065", "a step that is skipped leaves out the norm", "AMP-03", calls("2", "2x1x1"),
       calls("none", "2x1x1"), "there is no norm",
       with([](ScalerSteps& steps) { steps.enters_norm = [](bool found, bool) { return !found; }; })},
      {"amp.shorter_when_found", "SCALER-065", "a skipped step combines fewer numbers than the others",
       "AMP-03: what is not needed then is left out", calls("2", "2x1x1"), calls("none", "2x1x1"), "there is no norm",
       with(shorter_when_found)},
  };
}

std::vector<Mutant> looking() {
  const auto places = [](const char* value, const char* dtype, const char* grid) {
    return at_scaler("found_in_every_place", std::string("value=") + value + ",dtype=" + dtype, grid);
  };
  const auto sums = [](const char* values, const char* grid) {
    return at_scaler("sum_over_replicas_overflows", std::string("values=") + values, grid);
  };
  return {
      {"amp.first_only", "SCALER-066", "only the first gradient is looked at", "AMP-04", places("inf", "f16", "1x1x1"),
       places("nothing", "f16", "1x1x1"), "there is nothing", with(first_only)},
      {"amp.hidden_by_accumulation", "SCALER-066", "infinities of f16 become its largest number before anybody looks",
       "additions that saturate", places("-inf", "f16", "2x1x1"), places("nan", "f16", "2x1x1"), "NaN stays NaN",
       with(hidden_by_accumulation)},
      {"amp.inf_after_check", "SCALER-067", "gradients are looked at before they are added up over replicas", "AMP-12",
       sums("large", "1x1x2"), sums("usual", "1x1x2"), "the sum is finite",
       with([](ScalerSteps& steps) { steps.reduces_first = false; })},
  };
}

std::vector<Mutant> stepping() {
  const auto trace = [](const char* overflows, const char* grid) {
    return at_scaler("skipped_steps_leave_no_trace", std::string("overflows=") + overflows, grid);
  };
  const auto masters = [](const char* dtype) {
    return at_scaler("masters_are_stepped_in_f32", std::string("dtype=") + dtype, "1x1x1");
  };
  const auto resumes = [](const char* resumed) {
    return at_scaler("resumes_bit_for_bit", std::string("resumed=") + resumed, "2x1x1");
  };
  return {
      {"amp.skip_updates_momentum", "SCALER-068", "a skipped step goes into the momentum",
       "the optimizer is stepped, and its parameters are put back", trace("two", "1x1x1"), trace("none", "1x1x1"),
       "no step is skipped", with(skip_updates_momentum)},
      {"amp.masters_rounded", "SCALER-069", "masters take the parameters' rounding",
       "they are made from them each step", masters("f16"), masters("f32"), "there is nothing to round",
       with(kept_in_16_bits)},
      {"amp.lost_momentum", "SCALER-073", "the inner optimizer's state is not in a checkpoint",
       "AMP-09: only the scaler's is", resumes("yes"), resumes("no"), "nothing is loaded", with([](ScalerSteps& steps) {
         steps.saved = [](Fp16State state) {
           state.inner.clear();
           return state;
         };
       })},
  };
}

std::vector<Mutant> norms() {
  const auto norm = [](const char* p, const char* grid) {
    return at_scaler("norm_is_the_models", std::string("p=") + p, grid);
  };
  const auto clipped = [](const char* most, const char* grid) {
    return at_scaler("clipped_as_they_are_now", std::string("max_norm=") + most, grid);
  };
  const auto counting = [](std::function<bool(const ModelParameter&, int)> counts) {
    return with([counts = std::move(counts)](ScalerSteps& steps) { steps.counts = counts; });
  };
  return {
      {"clp.count_replicated", "SCALER-070", "what every tensor rank has is counted by each", "CLP-01",
       norm("2", "3x1x1"), norm("2", "1x3x1"), "tensor groups have one rank",
       counting([](const ModelParameter& one, int) { return !one.tied_copy; })},
      {"clp.count_tied", "SCALER-070", "both copies of a tied parameter are counted", "CLP-02", norm("2", "1x2x1"),
       norm("2", "2x1x1"), "there is one copy",
       counting([](const ModelParameter& one, int tensor_rank) { return !one.replicated || tensor_rank == 0; })},
      {"clp.per_stage", "SCALER-070", "each stage has a norm of its own", "CLP-03", norm("3", "1x3x1"),
       norm("3", "3x1x1"), "there is one stage",
       with([](ScalerSteps& steps) { steps.norm_group = [](const ScalerGroups& groups) { return groups.tensor; }; })},
      {"clp.max_for_two", "SCALER-070", "ranks' norms are combined by their maximum", "CLP-07", norm("2", "2x3x1"),
       norm("inf", "2x3x1"), "it is the rule there",
       with([](ScalerSteps& steps) { steps.combines = [](double) { return comm::ReduceOp::max; }; })},
      {"clp.skip_group", "SCALER-070", "experts are left out of the norm", "CLP-08", norm("1", "1x1x1"), "",
       "every rank has an expert", counting([](const ModelParameter& one, int tensor_rank) {
         return one.name != "expert" && scaler::is_counted(one, tensor_rank);
       })},
      {"clp.before_unscale", "SCALER-071", "gradients are clipped by the norm that they have scaled",
       "clipping comes before unscaling", clipped("0.5", "1x1x1"), "", "every scale is above 1",
       with([](ScalerSteps& steps) { steps.clipped_by = [](double norm, double scale) { return norm * scale; }; })},
      {"clp.stale_cache", "SCALER-071", "the first step's norm is used in all", "CLP-06", clipped("0.5", "2x1x1"),
       clipped("1e6", "2x1x1"), "nothing need be clipped", with(stale_cache)},
      {"amp.zeros_of_copies", "SCALER-072", "zeros are counted in every copy", "one loop more than the norm has",
       at_scaler("zeros_are_counted_once", "", "3x1x1"), at_scaler("zeros_are_counted_once", "", "1x1x1"),
       "there are no copies", counting([](const ModelParameter&, int) { return true; })},
  };
}

std::vector<Mutant> injecting() {
  const auto injected = [](const char* moment, const char* grid) {
    return at_scaler("injected_anywhere", std::string("moment=") + moment + ",value=inf", grid);
  };
  return {
      {"amp.looked_at_before_the_sum", "SCALER-082", "gradients are looked at before replicas' are added up", "AMP-12",
       injected("before_reduction", "1x1x2"), injected("before_reduction", "1x3x1"), "there is one replica",
       with([](ScalerSteps& steps) { steps.reduces_first = false; })},
      {"amp.replica_of_a_fault_alone", "SCALER-082", "replicas are not asked about a fault that one of them has",
       "AMP-02: the model group decides", injected("after_reduction", "2x1x2"), injected("before_reduction", "2x1x2"),
       "the sum has brought it to all",
       deciding_in([](const ScalerGroups& groups) { return std::vector{groups.model}; })},
      {"amp.stages_of_a_tied_parameter_alone", "SCALER-082", "the tensor group decides about a parameter of two stages",
       "AMP-01", injected("in_tied_module", "1x3x1"), injected("in_tied_module", "1x2x1"),
       "there is no stage between them",
       deciding_in([](const ScalerGroups& groups) { return std::vector{groups.tensor}; })},
  };
}

}  // namespace

std::vector<Mutant> scaler_step_mutants() {
  std::vector<Mutant> all = deciding();
  for (const auto kind : {taking_part, looking, stepping, norms, injecting})
    std::ranges::move(kind(), std::back_inserter(all));
  return all;
}

}  // namespace plumbline::mutants
