// Adapters whose loss scales, decisions, gradients or norms are wrong, each by a rule of its own.
#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <optional>

#include "conformance/scaler/scaler_mutants.hpp"
#include "harness/mutants/rewriting.hpp"

namespace plumbline::mutants {

using nlohmann::json;

namespace {

const char* const kTrace = "scaler.trace";
const char* const kFoundInf = "scaler.found_inf";
const char* const kClip = "scaler.clip_grad_norm";

bool is_number(const json& value) { return value.is_number(); }

double number_of(const json& object, const char* name, double otherwise) {
  return object.contains(name) && object[name].is_number() ? object[name].get<double>() : otherwise;
}

// ---- PyTorch's scale, written once more with a switch a fault ----

struct TorchFaults {
  bool backs_off_twice = false;
  bool no_backoff = false;
  bool count_goes_on = false;  // an overflow does not set it to 0
  bool one_late = false;       // grows on the clean step behind the interval
  bool to_infinity = false;    // makes a growth that 32 bits cannot hold
  bool stops_at_one = false;   // has a minimum
  bool at_least = false;       // an interval that was passed counts as reached
  bool last_decides = false;   // what the last optimizer found is all that counts
  bool load_forgets = false;   // the count is not in a checkpoint
  bool told_resets = false;    // a scale that is told sets the count to 0
};

class TorchReplay {
 public:
  TorchReplay(const json& args, TorchFaults faults) : faults_(faults) { begin(args.value("init", json::object())); }

  void rewrite(const json& op, json& row) {
    const std::string name = op.at(0);
    if (row.contains("found_inf")) found_[op.at(1)] = row["found_inf"];
    if (!row.contains("error")) follow(name, op);
    if (row.at("growth_tracker").is_null()) return;  // disabled
    row["scale"] = static_cast<double>(now_.scale);
    row["growth_tracker"] = now_.count;
  }

 private:
  struct State {
    float scale = 0;
    std::int64_t count = 0, interval = 0;
    double growth = 0, backoff = 0;
  };
  void begin(const json& init) {
    now_ = {.scale = static_cast<float>(number_of(init, "init_scale", 65536)),
            .interval = static_cast<std::int64_t>(number_of(init, "growth_interval", 2000)),
            .growth = number_of(init, "growth_factor", 2),
            .backoff = number_of(init, "backoff_factor", 0.5)};
  }
  void follow(const std::string& name, const json& op) {
    if (name == "save") saved_ = now_;
    if (name == "load" && saved_) {
      now_ = *saved_;
      if (faults_.load_forgets) now_.count = 0;
      found_.clear();
    }
    if (name == "set") set(op);
    if (name != "update") return;
    if (op.size() == 1) {
      update();
    } else if (is_number(op[1])) {
      now_.scale = op[1].get<float>();
      if (faults_.told_resets) now_.count = 0;
    }
    found_.clear();
  }
  void set(const json& op) {
    if (op.at(1) == "growth_factor") now_.growth = op.at(2);
    if (op.at(1) == "backoff_factor") now_.backoff = op.at(2);
    if (op.at(1) == "growth_interval") now_.interval = op.at(2);
  }
  [[nodiscard]] bool is_found() const {
    const auto counts = [](const json& flag) { return flag.is_number() && flag.get<double>() > 0; };
    if (faults_.last_decides) return !found_.empty() && counts(found_.rbegin()->second);
    return std::ranges::any_of(found_, [&](const auto& entry) { return counts(entry.second); });
  }
  void update() {
    if (is_found()) {
      const double by = faults_.no_backoff ? 1 : faults_.backs_off_twice ? now_.backoff * now_.backoff : now_.backoff;
      now_.scale = static_cast<float>(static_cast<double>(now_.scale) * by);
      if (faults_.stops_at_one) now_.scale = std::max(now_.scale, 1.0F);
      if (!faults_.count_goes_on) now_.count = 0;
      return;
    }
    ++now_.count;
    const std::int64_t last = now_.interval + (faults_.one_late ? 1 : 0);
    if (faults_.at_least ? now_.count < last : now_.count != last) return;
    const auto grown = static_cast<float>(static_cast<double>(now_.scale) * now_.growth);
    if (std::isfinite(grown) || faults_.to_infinity) now_.scale = grown;
    now_.count = 0;
  }

  TorchFaults faults_;
  State now_;
  std::optional<State> saved_;
  std::map<int, json> found_;  // by optimizer
};

using ChangeRow = std::function<void(const json& op, json& row)>;

// Rows of calls, one at a time; `make` begins a list.
RewriteAnswer rows_of_calls(std::function<ChangeRow(const json& args)> make) {
  return results_of(kTrace, [make = std::move(make)](const json& args, json& result) {
    if (!result.contains("results")) return;
    const ChangeRow change = make(args);
    for (std::size_t i = 0; i < result["results"].size(); ++i) change(args.at("ops").at(i), result["results"][i]);
  });
}

RewriteAnswer torch_rule(TorchFaults faults) {
  return rows_of_calls([faults](const json& args) -> ChangeRow {
    return
        [replay = std::make_shared<TorchReplay>(args, faults)](const json& op, json& row) { replay->rewrite(op, row); };
  });
}

bool is_step(const json& op) { return op.at(0) == "step"; }

bool is_finite(const json& gradients) { return !gradients.is_null() && std::ranges::all_of(gradients, is_number); }

void multiply(json& gradients, double by) {
  for (json& list : gradients)
    if (!list.is_null())
      for (json& value : list)
        if (is_number(value)) value = static_cast<double>(static_cast<float>(value.get<double>() * by));
}

// Optimizers that have been unscaled by a call of their own since the last update.
RewriteAnswer unscale_twice() {
  return rows_of_calls([](const json&) -> ChangeRow {
    return [own = std::make_shared<std::map<int, double>>()](const json& op, json& row) {
      if (op.at(0) == "unscale") (*own)[op.at(1)] = row.at("scale").get<double>();
      if (op.at(0) == "update") own->clear();
      if (is_step(op) && own->contains(op.at(1))) multiply(row["grads"], 1 / own->at(op.at(1)));
    };
  });
}

RewriteAnswer one_skips_all_skip() {
  return results_of(kTrace, [](const json& args, json& result) {
    if (!result.contains("results")) return;
    bool any = false;
    for (const json& row : result["results"]) any = any || row.value("stepped", true) == false;
    for (std::size_t i = 0; any && i < result["results"].size(); ++i)
      if (is_step(args.at("ops").at(i))) result["results"][i]["stepped"] = false;
  });
}

RewriteAnswer each_row(ChangeRow change) {
  return rows_of_calls([change = std::move(change)](const json&) { return change; });
}

Mutant call_mutant(const char* name, const char* violates, const char* what, const char* source, const char* shows,
                   const char* hides, const char* why, RewriteAnswer change) {
  const std::string check = "scaler.calls.";
  return {name, violates, what, source, check + shows, *hides ? check + hides : "", why, std::move(change)};
}

std::vector<Mutant> scale_of_calls() {
  const char* clean = "nothing overflows";
  return {
      call_mutant("amp.no_backoff", "SCALER-001", "an overflow leaves the scale as it is",
                  "a skipped step is thought to be enough", "overflow_backs_off[overflows=few]",
                  "overflow_backs_off[overflows=none]", clean, torch_rule({.no_backoff = true})),
      call_mutant("amp.backs_off_twice", "SCALER-001", "an overflow backs off twice", "scaler and optimizer both do it",
                  "overflow_backs_off[overflows=all]", "overflow_backs_off[overflows=none]", clean,
                  torch_rule({.backs_off_twice = true})),
      call_mutant("amp.growth_not_reset", "SCALER-002", "an overflow does not set the count of clean steps to 0",
                  "only growth resets it", "interval_grows[overflows=few]", "interval_grows[overflows=none]", clean,
                  torch_rule({.count_goes_on = true})),
      call_mutant("amp.grows_one_late", "SCALER-002", "grows on the clean step behind an interval",
                  "the count is compared before it is raised, as DeepSpeed's is", "interval_grows[overflows=none]",
                  "interval_grows[overflows=all]", "no step is clean", torch_rule({.one_late = true})),
      call_mutant("amp.grows_to_infinity", "SCALER-003", "grows although 32 bits cannot hold it",
                  "isfinite is left out", "ends_of_the_range[end=largest]", "ends_of_the_range[end=usual]",
                  "it is far from the largest", torch_rule({.to_infinity = true})),
      call_mutant("amp.stops_at_one", "SCALER-003", "never falls below 1", "Megatron-LM's minimum",
                  "ends_of_the_range[end=smallest]", "ends_of_the_range[end=usual]", "it does not fall",
                  torch_rule({.stops_at_one = true})),
      call_mutant("amp.last_optimizer_decides", "SCALER-004", "the scale follows what the last optimizer found",
                  "an assignment for a maximum", "each_for_itself[optimizers=2]", "each_for_itself[optimizers=1]",
                  "there is one", torch_rule({.last_decides = true})),
      call_mutant("amp.lost_counters", "SCALER-008", "the count of clean steps is not in a checkpoint", "AMP-09",
                  "goes_on_from_its_state[saved=yes]", "goes_on_from_its_state[saved=no]", "nothing is loaded",
                  torch_rule({.load_forgets = true})),
      call_mutant("amp.told_scale_resets", "SCALER-009", "a scale that is told sets the count to 0",
                  "it is taken for a new beginning", "told_scale_is_taken[told=4]", "told_scale_is_taken[told=nothing]",
                  "none is told", torch_rule({.told_resets = true})),
      {"amp.torch_at_least_interval", "SCALER-014", "an interval that was lowered below the count is reached at once",
       ">= for ==", "scaler.recorded.torch[cases=sequences]", "scaler.recorded.torch[cases=random]",
       "no interval is changed there", torch_rule({.at_least = true})},
  };
}

std::vector<Mutant> steps_of_calls() {
  return {
      call_mutant("amp.one_skips_all_skip", "SCALER-004", "all optimizers skip when one found something",
                  "one flag for all", "each_for_itself[optimizers=3]", "each_for_itself[optimizers=1]", "there is one",
                  one_skips_all_skip()),
      call_mutant("amp.unscale_twice", "SCALER-005", "a step unscales gradients that a call has unscaled",
                  "clipping needs them unscaled before the step", "unscaled_once[call=unscale_step,gradients=finite]",
                  "unscaled_once[call=step,gradients=finite]", "there is no such call", unscale_twice()),
      call_mutant("amp.scaled_where_infinite", "SCALER-005", "gradients of an optimizer that skips stay scaled",
                  "it returns when it finds the first", "unscaled_once[call=step,gradients=infinite]",
                  "unscaled_once[call=step,gradients=finite]", "nothing is found",
                  each_row([](const json& op, json& row) {
                    if (is_step(op) && row.value("found_inf", json()) == 1.0)
                      multiply(row["grads"], row.at("scale").get<double>());
                  })),
      call_mutant("amp.first_gradient_only", "SCALER-006", "only the first gradient is looked at",
                  "AMP-04: a loop over a gradient's rows", "found_anywhere[what=inf,where=last_last]",
                  "found_anywhere[what=inf,where=first_first]", "it is in the first",
                  each_row([](const json& op, json& row) {
                    if (is_step(op) && row.contains("grads") && is_finite(row["grads"].at(0))) row["stepped"] = true;
                  })),
      call_mutant("amp.skipped_step_applies", "SCALER-006", "a step that is said to be skipped changes parameters",
                  "the flag is told, and not asked", "found_anywhere[what=nan,where=first_first]",
                  "found_anywhere[what=nothing,where=first_first]", "no step is skipped",
                  each_row([](const json& op, json& row) {
                    if (is_step(op) && row.value("stepped", true) == false) row["params"][0][0] = 17.0;
                  })),
      call_mutant("amp.double_unscale_taken", "SCALER-007", "gradients that are unscaled are unscaled again",
                  "no stage is kept", "refused_out_of_order[call=unscale_twice]",
                  "refused_out_of_order[call=step_twice]", "nothing is unscaled by a call of its own",
                  each_row([](const json& op, json& row) {
                    if (op.at(0) == "unscale" && row.value("stage", "") == "UNSCALED") row.erase("error");
                  })),
      call_mutant("amp.update_alone_taken", "SCALER-007", "an update without anything looked at counts as a clean step",
                  "no flags are no overflow", "refused_out_of_order[call=update_alone]",
                  "refused_out_of_order[call=in_order]", "every step is looked at",
                  each_row([](const json& op, json& row) {
                    if (op.at(0) == "update" && row.at("scale_created") == true) row.erase("error");
                  })),
      call_mutant("amp.disabled_skips", "SCALER-010", "a disabled scaler skips steps that are not finite",
                  "only the scale is switched off", "disabled_does_nothing[enabled=no]",
                  "disabled_does_nothing[enabled=yes]", "it is enabled",
                  results_of(kTrace,
                             [](const json& args, json& result) {
                               if (!result.contains("results") ||
                                   args.value("init", json::object()).value("enabled", true))
                                 return;
                               for (json& row : result["results"])
                                 if (row.contains("stepped"))
                                   row["stepped"] = std::ranges::all_of(row.at("grads"), is_finite);
                             })),
      call_mutant("amp.growth_of_one_taken", "SCALER-011", "a growth factor of 1 is taken", "no assertion",
                  "rule_is_refused[what=growth_one]", "rule_is_refused[what=scale_nan]", "it is 2",
                  takes(kTrace, [](const json& args) { return number_of(args.at("init"), "growth_factor", 2) == 1; })),
      call_mutant("amp.infinite_scale_taken", "SCALER-011", "an infinite scale is taken", "it is above 0",
                  "rule_is_refused[what=scale_infinite]", "rule_is_refused[what=growth_one]", "it is finite",
                  takes(kTrace, [](const json& args) { return args.at("init").value("init_scale", json()) == "inf"; })),
  };
}

// ---- scales with hysteresis ----

struct HysteresisFaults {
  bool one_more_chance = false;  // backs off when chances are below 0
  bool growth_refills_not = false;
  bool clean_refills = false;  // every clean step gives chances back
  bool stops_at_zero = false;  // chances are told as 0 at least
  bool stale_inverse = false;  // the inverse is that of the step before
  bool one_late = false;
  bool no_minimum = false;
  bool no_maximum = false;
  bool clamped = false;     // a growth ends at the maximum
  bool in_64_bits = false;  // the product is rounded once
};

void replay_hysteresis(const json& args, json& result, HysteresisFaults faults) {
  if (!result.contains("trace") || !result["trace"].at(0).contains("hysteresis_tracker")) return;
  const json& init = args.at("init");
  const double growth = number_of(init, "growth_factor", 2), backoff = number_of(init, "backoff_factor", 0.5);
  const auto least = static_cast<float>(number_of(init, "min_scale", 1));
  const double most = faults.no_maximum ? HUGE_VAL : number_of(init, "max_scale", HUGE_VAL);
  const auto chances = static_cast<std::int64_t>(number_of(init, "hysteresis", 2));
  const auto interval = static_cast<std::int64_t>(number_of(init, "growth_interval", 1000)) + (faults.one_late ? 1 : 0);
  auto scale = static_cast<float>(number_of(init, "initial_scale", 0x1p32));
  const auto times = [&](double factor) {
    return faults.in_64_bits ? static_cast<float>(static_cast<double>(scale) * factor)
                             : scale * static_cast<float>(factor);
  };
  std::int64_t clean = 0, left = chances;
  float inverse = 1 / scale;
  for (std::size_t step = 0; step < result["trace"].size(); ++step) {
    if (step > 0 && args.at("found_inf").at(step - 1) == true) {
      clean = 0;
      if (--left <= (faults.one_more_chance ? -1 : 0))
        scale = faults.no_minimum ? times(backoff) : std::max(times(backoff), least);
    } else if (step > 0) {
      if (faults.clean_refills) left = chances;
      if (++clean == interval) {
        clean = 0;
        if (!faults.growth_refills_not) left = chances;
        if (static_cast<double>(scale) < most)
          scale = faults.clamped ? std::min(times(growth), static_cast<float>(most)) : times(growth);
      }
    }
    json& row = result["trace"][step];
    row["scale"] = scale;
    row["inv_scale"] = faults.stale_inverse ? inverse : static_cast<float>(1 / static_cast<double>(scale));
    row["growth_tracker"] = clean;
    row["hysteresis_tracker"] = faults.stops_at_zero ? std::max<std::int64_t>(left, 0) : left;
    inverse = static_cast<float>(1 / static_cast<double>(scale));
  }
}

RewriteAnswer hysteresis(HysteresisFaults faults) {
  return results_of(kTrace, [faults](const json& args, json& result) { replay_hysteresis(args, result, faults); });
}

Mutant rule_mutant(const char* name, const char* violates, const char* what, const char* source,
                   const std::string& shows, const std::string& hides, const char* why, RewriteAnswer change) {
  return {name, violates,         what, source, "scaler." + shows, hides.empty() ? "" : "scaler." + hides,
          why,  std::move(change)};
}

std::vector<Mutant> with_hysteresis() {
  const std::string spent = "megatron.chances_are_spent[overflows=", told = "colossalai.counters_are_told[overflows=",
                    grows = "megatron.grows_when_an_interval_is_over[overflows=",
                    least = "colossalai.never_below_minimum[overflows=",
                    most = "colossalai.passes_its_maximum_once[overflows=";
  const char* clean = "nothing overflows";
  return {
      rule_mutant("amp.hysteresis_off_by_one", "SCALER-020", "the last chance leaves the scale as it is", "AMP-07",
                  spent + "all]", spent + "none]", clean, hysteresis({.one_more_chance = true})),
      rule_mutant("amp.hysteresis_not_reset", "SCALER-020", "a growth gives no chances back",
                  "only the count of clean steps is reset", spent + "few]", spent + "all]", "it never grows",
                  hysteresis({.growth_refills_not = true})),
      rule_mutant("amp.refill_rule", "SCALER-020", "every clean step gives all chances back",
                  "AMP-08: consecutive hysteresis", spent + "many]", spent + "all]", "no step is clean",
                  hysteresis({.clean_refills = true})),
      rule_mutant("amp.chances_stop_at_zero", "SCALER-021", "chances are told as 0 when there are fewer",
                  "an unsigned counter", told + "all]", told + "none]", clean, hysteresis({.stops_at_zero = true})),
      rule_mutant("amp.stale_inverse", "SCALER-021", "the inverse is that of the scale before",
                  "it is kept, and not made new", told + "all]", "", "every sequence has its scale changed",
                  hysteresis({.stale_inverse = true})),
      rule_mutant("amp.hysteresis_grows_one_late", "SCALER-022", "grows on the clean step behind an interval",
                  "the count is compared before it is raised", grows + "none]", grows + "all]", "no step is clean",
                  hysteresis({.one_late = true})),
      rule_mutant("amp.no_minimum", "SCALER-023", "backs off below the minimum", "AMP-07: the bound is forgotten",
                  least + "all]", least + "none]", clean, hysteresis({.no_minimum = true})),
      rule_mutant("amp.no_maximum", "SCALER-024", "grows for ever", "Megatron-LM has no maximum", most + "none]",
                  most + "all]", "it never grows", hysteresis({.no_maximum = true})),
      rule_mutant("amp.factor_in_64_bits", "SCALER-025", "the scale is multiplied in 64 bits and rounded once",
                  "PyTorch's scaler does so", "recorded.megatron[peer=megatron,cases=random]",
                  "recorded.megatron[peer=megatron,cases=sequences]", "factors are powers of two",
                  hysteresis({.in_64_bits = true})),
      rule_mutant("amp.clamped_at_maximum", "SCALER-026", "a growth ends at the maximum", "min(scale, maximum)",
                  "recorded.colossalai[peer=colossalai,cases=random]",
                  "recorded.colossalai[peer=colossalai,cases=sequences]", "none has a maximum",
                  hysteresis({.clamped = true})),
  };
}

// ---- DeepSpeed ----

struct DeepSpeedFaults {
  bool from_first = false;  // the window counts from the first clean step
  bool consecutive_ignored = false;
  bool last_spent = false;  // halves only when no chance is left
  bool holds = false;       // goes on at the minimum where it is to give up
  bool below = false;       // has no minimum
};

void replay_deepspeed(const json& args, json& result, DeepSpeedFaults faults) {
  const json& init = args.at("init");
  if (!result.contains("trace") || !result["trace"].at(0).contains("cur_hysteresis")) return;
  double scale = number_of(init, "init_scale", 0x1p32);
  const double least = number_of(init, "min_scale", 1);
  const auto window = static_cast<std::int64_t>(number_of(init, "scale_window", 1000));
  const auto chances = static_cast<std::int64_t>(number_of(init, "delayed_shift", 1)) + (faults.last_spent ? 1 : 0);
  const bool is_consecutive = init.value("consecutive_hysteresis", false) && !faults.consecutive_ignored;
  const bool raises = init.value("raise_error_at_min_scale", true) && !faults.holds && !faults.below;
  std::int64_t step = 0, last = faults.from_first ? -2 : -1, left = chances;
  json trace = json::array();
  const auto note = [&] {
    trace.push_back({{"scale", scale}, {"cur_iter", step}, {"last_overflow_iter", last}, {"cur_hysteresis", left}});
  };
  note();
  for (const json& overflow : args.at("overflow")) {
    if (overflow == true) {
      if (left == 1 && scale == least && raises) {
        note();
        trace.back()["error"] = {{"kind", "state"}, {"message", "at the minimum"}};
        break;
      }
      if (left > 1)
        --left;
      else
        scale = faults.below ? scale / 2 : std::max(scale / 2, least);
      last = faults.from_first ? step - 1 : step;
    } else {
      if (is_consecutive) left = chances;
      const std::int64_t clean = step - last - 1;
      if (clean > 0 && clean % window == 0) left = chances, scale *= 2;
    }
    ++step;
    note();
  }
  result["trace"] = std::move(trace);
}

RewriteAnswer deepspeed(DeepSpeedFaults faults) {
  return results_of(kTrace, "deepspeed",
                    [faults](const json& args, json& result) { replay_deepspeed(args, result, faults); });
}

std::vector<Mutant> of_deepspeed() {
  const std::string window = "deepspeed.window_counts_from_the_second[refill=growth,overflows=",
                    kept = "deepspeed.last_chance_is_kept[refill=", stops = "deepspeed.stops_at_the_minimum[minimum=",
                    unscales = "deepspeed.unscales_with_the_new_scale[profile=FUSED,window=";
  return {
      rule_mutant("amp.window_from_the_first", "SCALER-030", "the window counts from the first clean step",
                  "the rule of all others", window + "none]", window + "all]", "no step is clean",
                  deepspeed({.from_first = true})),
      rule_mutant("amp.last_chance_spent", "SCALER-031", "the scale is halved when no chance is left",
                  "AMP-07: it was \"reduced to\" the same number", kept + "growth,overflows=all]",
                  kept + "growth,overflows=none]", "nothing overflows", deepspeed({.last_spent = true})),
      rule_mutant("amp.consecutive_ignored", "SCALER-031", "clean steps never give chances back", "AMP-08",
                  kept + "consecutive,overflows=many]", kept + "growth,overflows=many]", "they are not to",
                  deepspeed({.consecutive_ignored = true})),
      rule_mutant("amp.stuck_at_min", "SCALER-032", "skips for ever at the smallest scale", "AMP-07",
                  stops + "raise,refill=growth,overflows=all]", stops + "hold,refill=growth,overflows=all]",
                  "it is to hold", deepspeed({.holds = true})),
      rule_mutant("amp.below_min", "SCALER-032", "halves below the minimum", "the bound is forgotten",
                  stops + "hold,refill=growth,overflows=all]", stops + "hold,refill=growth,overflows=none]",
                  "nothing overflows", deepspeed({.below = true})),
      rule_mutant("amp.unscales_with_the_old", "SCALER-033", "gradients are divided by the scale of their loss",
                  "the right thing, and not what DeepSpeed does", unscales + "2]", unscales + "100]", "it never grows",
                  results_of(kTrace, "deepspeed",
                             [](const json&, json& result) {
                               for (json& row : result.at("trace"))
                                 if (row.contains("gradient_one_unscaled")) row["gradient_one_unscaled"] = 1.0;
                             })),
      rule_mutant("amp.static_counts_overflows", "SCALER-034", "a static scale notes its last overflow",
                  "one update for both kinds", "recorded.deepspeed[peer=deepspeed,cases=sequences]",
                  "recorded.deepspeed[peer=deepspeed,cases=random]", "none is static",
                  results_of(kTrace, "deepspeed",
                             [](const json&, json& result) {
                               for (json& row : result.at("trace"))
                                 if (row.at("last_overflow_iter").is_null()) row["last_overflow_iter"] = 0;
                             })),
      rule_mutant("amp.static_ignored", "SCALER-035", "a constant scale is taken for the first of a dynamic one",
                  "AMP-10", "megatron.constant_stays[scale=128]", "megatron.constant_stays[scale=1]",
                  "it cannot fall below 1",
                  results_of(kTrace, "megatron",
                             [](const json& args, json& result) {
                               if (args.at("init").size() != 1) return;
                               double scale = args.at("init").at("initial_scale");
                               for (std::size_t step = 1; step < result.at("trace").size(); ++step) {
                                 if (args.at("found_inf").at(step - 1) == true)
                                   scale = std::max(scale / 2, std::min(scale, 1.0));
                                 result["trace"][step]["scale"] = scale;
                               }
                             })),
      rule_mutant("amp.any_rule_taken", "SCALER-036", "nothing is looked at in a rule", "assertions are switched off",
                  "megatron.rule_is_refused[what=backoff_one]", "megatron.rule_is_refused[what=nothing]",
                  "the rule makes sense", takes(kTrace, [](const json&) { return true; }, {{"trace", json::array()}})),
      rule_mutant("amp.any_deepspeed_rule_taken", "SCALER-113", "no value of a rule is looked at",
                  "the constructor stores what it is given", "deepspeed.rule_is_refused[what=scale_nan]",
                  "deepspeed.rule_is_refused[what=unknown_field]", "names are looked at",
                  takes(kTrace, [](const json& args) { return !args.at("init").contains("growth"); },
                        {{"trace", json::array()}})),
      rule_mutant("amp.endless_maximum_taken", "SCALER-111", "a maximum may be infinite",
                  "it is compared with the first scale, and with nothing else",
                  "colossalai.bound_is_refused[what=maximum_infinite]", "colossalai.bound_is_refused[what=nothing]",
                  "there is none",
                  takes(kTrace, [](const json& args) { return args.at("init").value("max_scale", json()) == "inf"; },
                        {{"trace", json::array()}})),
  };
}

// ---- who skips ----

RewriteAnswer decisions(std::function<void(const json& args, json& result)> change) {
  return results_of(kFoundInf, std::move(change));
}

RewriteAnswer told_as(const char* policy, const char* other) {
  return decisions([policy, other](const json&, json& result) { result[policy] = result.at(other); });
}

std::vector<Mutant> of_decisions() {
  const auto at = [](const char* check, const char* grid) {
    return std::string("skipping.") + check + "[grid=" + grid + "]";
  };
  return {
      rule_mutant("amp.everyone_skips", "SCALER-040", "all ranks of the world skip", "the default group is used",
                  at("model_group_skips", "any"), at("model_group_skips", "model"), "the model group is the world",
                  decisions([](const json& args, json& result) {
                    if (result.at("skips_model").empty()) return;
                    result["skips_model"] = json::array();
                    for (int rank = 0; rank < args.at("world_size").get<int>(); ++rank)
                      result["skips_model"].push_back(rank);
                  })),
      rule_mutant("amp.stage_alone_skips", "SCALER-040", "only the stage of who found something skips",
                  "AMP-01: the tensor group decides", at("model_group_skips", "pipeline"),
                  at("model_group_skips", "tensor"), "there is one stage", told_as("skips_model", "skips_tensor_only")),
      rule_mutant("amp.pipeline_of_the_first_column", "SCALER-041",
                  "the second reduction is made by the first tensor rank alone", "one rank of a group stands for all",
                  at("two_reductions_are_one", "model"), at("two_reductions_are_one", "pipeline"),
                  "there is one column", decisions([](const json& args, json& result) {
                    json& list = result["skips_tensor_then_pipeline"];
                    json kept = json::array();
                    for (const json& rank : list)
                      if (rank.get<int>() % args.at("tensor").get<int>() == 0 ||
                          std::ranges::count(result.at("skips_tensor_only"), rank) > 0)
                        kept.push_back(rank);
                    list = kept;
                  })),
      rule_mutant("amp.local_told_as_tensor", "SCALER-042", "a tensor group skips by the rank's own gradients",
                  "AMP-02: the check is local", at("smaller_groups_skip_less", "tensor"),
                  at("smaller_groups_skip_less", "pipeline"), "tensor groups have one rank",
                  told_as("skips_tensor_only", "skips_local_only")),
      rule_mutant("amp.looked_at_before_reduction", "SCALER-043",
                  "gradients are looked at before they are added up over replicas", "AMP-12",
                  at("reduced_gradients_reach_all", "data"), at("reduced_gradients_reach_all", "model"),
                  "there is one replica",
                  told_as("skips_model_if_data_parallel_gradients_were_reduced_first", "skips_model")),
      rule_mutant("amp.model_only_unreduced", "SCALER-044", "replicas are not asked",
                  "AMP-02: the model group decides on gradients that are not reduced", at("replicas_agree", "data"),
                  at("replicas_agree", "model"), "there is one replica",
                  told_as("skips_model_and_data", "skips_model")),
      rule_mutant("amp.second_rank_unheard", "SCALER-045", "of several ranks the first is heard",
                  "the loop ends at the first flag", "recorded.decisions[cases=several]",
                  "recorded.decisions[cases=one_rank]", "there is one", decisions([](const json&, json& result) {
                    json& list = result["skips_local_only"];
                    if (list.size() > 1) list = json::array({list[0]});
                  })),
      rule_mutant("amp.norm_of_skipped_told", "SCALER-076", "a step that is not clipped tells a norm of 0",
                  "a number where there is none", "recorded.optimizer[cases=plain]", "",
                  "some step of each run is skipped",
                  results_of("scaler.fp16_optimizer",
                             [](const json&, json& result) {
                               for (json& step : result.at("steps"))
                                 for (json& row : step)
                                   if (row.at("grad_norm").is_null()) row["grad_norm"] = 0.0;
                             })),
      rule_mutant("amp.any_grid_taken", "SCALER-046", "sizes need not multiply to the world", "an integer division",
                  "skipping.grid_is_refused[what=other_product]", "skipping.grid_is_refused[what=nothing]", "they do",
                  takes(kFoundInf, [](const json&) { return true; })),
  };
}

// ---- norms ----

double norm_order(const json& args) {
  const json p = args.value("norm_type", json(2.0));
  return p.is_number() ? p.get<double>() : HUGE_VAL;
}

double norm_of(const json& lists, double p) {
  double sum = 0;
  for (const json& list : lists)
    for (const json& value : list) {
      const double magnitude = std::abs(value.is_number() ? value.get<double>() : HUGE_VAL);
      sum = std::isinf(p) ? std::max(sum, magnitude) : sum + std::pow(magnitude, p);
    }
  return std::isinf(p) ? sum : std::pow(sum, 1 / p);
}

json clipped_by(const json& lists, const std::function<double(const json& list)>& coefficient) {
  json all = lists;
  for (json& list : all) {
    const double by = coefficient(list);
    for (json& value : list)
      if (value.is_number()) value = static_cast<double>(static_cast<float>(value.get<double>() * by));
  }
  return all;
}

std::vector<Mutant> of_norms() {
  const auto at = [](const char* check, const char* p, const char* lists) {
    return std::string("clipping.") + check + "[p=" + p + ",lists=" + lists + "]";
  };
  return {
      rule_mutant("clp.max_for_all_orders", "SCALER-050", "norms are combined by their maximum", "CLP-07",
                  at("norm_is_of_all", "2", "several"), at("norm_is_of_all", "inf", "several"), "it is the rule there",
                  results_of(kClip, [](const json& args,
                                       json& result) { result["total_norm"] = norm_of(args.at("grads"), HUGE_VAL); })),
      rule_mutant("clp.last_list_left_out", "SCALER-050", "the last gradient does not count",
                  "CLP-08: a loop too short", at("norm_is_of_all", "1", "several"), at("norm_is_of_all", "1", "none"),
                  "there is none",
                  results_of(kClip,
                             [](const json& args, json& result) {
                               json lists = args.at("grads");
                               if (!lists.empty()) lists.erase(lists.end() - 1);
                               result["total_norm"] = norm_of(lists, norm_order(args));
                             })),
      rule_mutant("clp.grows_to_the_limit", "SCALER-051", "gradients below the limit are enlarged to it",
                  "the coefficient is not cut at 1", at("all_shrink_alike", "2", "several"),
                  at("all_shrink_alike", "2", "none"), "there is nothing to enlarge",
                  results_of(kClip,
                             [](const json& args, json& result) {
                               const double by = args.at("max_norm").get<double>() /
                                                 (norm_of(args.at("grads"), norm_order(args)) + 1e-6);
                               result["clipped"] = clipped_by(args.at("grads"), [by](const json&) { return by; });
                             })),
      rule_mutant("clp.each_by_its_own", "SCALER-051", "each gradient is clipped by its own norm",
                  "CLP-03: a norm a stage", at("all_shrink_alike", "2", "several"), at("all_shrink_alike", "2", "one"),
                  "there is one",
                  results_of(kClip,
                             [](const json& args, json& result) {
                               const double most = args.at("max_norm"), p = norm_order(args);
                               result["clipped"] = clipped_by(args.at("grads"), [&](const json& list) {
                                 return std::min(1.0, most / (norm_of(json::array({list}), p) + 1e-6));
                               });
                             })),
      rule_mutant("clp.nan_taken_for_zero", "SCALER-052", "NaN counts as 0 in a norm", "fmax for a maximum",
                  "clipping.non_finite_is_told[value=nan,raise=no]", "clipping.non_finite_is_told[value=2,raise=no]",
                  "there is none",
                  results_of(kClip,
                             [](const json&, json& result) {
                               if (result.at("total_norm") == "nan") result["total_norm"] = 1.0;
                             })),
      rule_mutant("clp.squares_in_64_bits", "SCALER-053", "squares that 32 bits cannot hold are added all the same",
                  "a wider accumulator than PyTorch's", "recorded.norms[cases=special]",
                  "recorded.norms[cases=ordinary]", "they are small",
                  results_of(kClip,
                             [](const json& args, json& result) {
                               const double norm = norm_of(args.at("grads"), norm_order(args));
                               if (result.at("total_norm") == "inf" && std::isfinite(norm)) result["total_norm"] = norm;
                             })),
  };
}

// ---- norms over ranks ----

// Every rank's answer, by a norm of its own making.
RewriteAnswer norms_of_ranks(std::function<double(const json& args, const json& grads)> norm) {
  return results_of(kClip, [norm = std::move(norm)](const json& args, json& result) {
    if (!result.contains("ranks")) return;
    for (std::size_t rank = 0; rank < result["ranks"].size(); ++rank) {
      const json& grads = args.at("ranks").at(rank).at("grads");
      const double of_rank = norm(args, grads);
      const double by = std::min(1.0, args.at("max_norm").get<double>() / (of_rank + 1e-6));
      result["ranks"][rank] = {{"norm", of_rank}, {"clipped", clipped_by(grads, [by](const json&) { return by; })}};
    }
  });
}

std::vector<Mutant> of_norms_over_ranks() {
  const auto at = [](const char* p, const char* grid) {
    return std::string("clipping.norm_over_ranks[p=") + p + ",grid=" + grid + "]";
  };
  return {
      rule_mutant("clp.any_order_over_ranks", "SCALER-080", "orders that ColossalAI fails at are answered",
                  "the right thing, and not what ColossalAI does", "recorded.norms_over_ranks[cases=refused]",
                  "recorded.norms_over_ranks[cases=answered]", "it answers them",
                  takes(kClip, [](const json& args) { return args.contains("ranks"); }, {{"ranks", json::array()}})),
      rule_mutant("clp.each_rank_by_its_own", "SCALER-081", "each rank clips by the norm of what it has itself",
                  "CLP-03: a norm a stage", at("2", "model"), at("2", "alone"), "there is one rank",
                  norms_of_ranks([](const json& args, const json& grads) { return norm_of(grads, norm_order(args)); })),
      rule_mutant("clp.alike_counted_by_each", "SCALER-081", "all gradients of all ranks are counted, also those alike",
                  "CLP-01", at("1", "tensor"), at("1", "pipeline"), "no two ranks have one alike",
                  norms_of_ranks([](const json& args, const json&) {
                    json all = json::array();
                    for (const json& rank : args.at("ranks"))
                      for (const json& list : rank.at("grads")) all.push_back(list);
                    return norm_of(all, norm_order(args));
                  })),
  };
}

}  // namespace

std::vector<Mutant> scaler_mutants() {
  std::vector<Mutant> all = scale_of_calls();
  for (const auto kind : {steps_of_calls, with_hysteresis, of_deepspeed, of_decisions, of_norms, of_norms_over_ranks})
    std::ranges::move(kind(), std::back_inserter(all));
  return all;
}

}  // namespace plumbline::mutants
