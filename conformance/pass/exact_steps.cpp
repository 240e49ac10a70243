#include "conformance/pass/exact_steps.hpp"

#include <stdexcept>
#include <string>
#include <utility>

namespace plumbline::conformance {

using nlohmann::json;

namespace {

json& variable(json& args, const std::string& name) {
  for (json& one : args["program"]["vars"])
    if (one["name"] == name) return one;
  throw std::out_of_range(name);
}

const std::string kLoss = "L l\n", kHalfLoss = "L l value=0.5\n", kThirdLoss = "L l value=0.3333333432674408\n";
const std::string kOtherLoss = "fill_any_like l0 -> l role=257 value=1\n";  // which no factor goes into
const std::string kHigher = "relu_grad_grad Out:l DDX:l -> DDOut:h\n";      // after which nothing is fused

// ---- factors and the gradient of the loss ----

ExactStep folded(const std::string& scaling, const std::string& loss, bool is_compared = true) {
  return {.before = kLoss + "assign l -> a\nR a\n" + scaling + "\nsgd W a",
          .after = loss + "assign l -> a\nG a\nsgd W a",
          .is_compared = is_compared};
}
ExactStep kept(const std::string& scaling, bool is_compared = true) {
  return {.before = kLoss + "assign l -> a\nR a\n" + scaling + "\nsgd W a",
          .after = kLoss + "assign l -> a\nG a\n" + scaling + "\nsgd W a",
          .is_compared = is_compared};
}

void add_factors(ExactSteps& steps) {
  steps["half"] = folded("S a", kHalfLoss);
  steps["third"] = folded("S a scale=0.3333333432674408", kThirdLoss);
  steps["millionth"] = folded("S a scale=9.999999974752427e-07", "L l value=9.999999974752427e-07\n");
  steps["half_without_bias"] = folded("S a bias=0", kHalfLoss);
  steps["half_and_bias"] = kept("S a bias=1", false);
  steps["half_and_whole_bias"] = kept("S a bias=1", false);
  steps["half_and_whole_bias"].with = [](json& args) {
    for (json& op : args["program"]["ops"])
      if (op["attrs"].contains("bias")) op["attrs"]["bias"] = 1;
  };
  steps["half_and_negative_bias"] = kept("S a bias=-1", false);
  steps["factor_of_a_variable"] = kept("scale X:a ScaleTensor:l -> a dp scale=0.5", false);
  for (const char* factor : {"0.3", "0.4", "0.6", "0.75", "1.5", "2", "3", "0", "-0.5", "-1"})
    steps[std::string("factor_") + factor] = kept(std::string("S a scale=") + factor);
  for (const char* factor : {"inf", "-inf", "nan"})
    steps[std::string("factor_") + factor] = kept(std::string("S a scale=") + factor, false);
  steps["no_factor"] = kept("scale a -> a dp", false);
  steps["one_rank"] = {.before = kLoss + "assign l -> a\nR a ring=15\nS a scale=1\nsgd W a",
                       .after = kLoss + "assign l -> a\nG a ring=15\nsgd W a"};
  const std::string of_one_rank = "L l value=0.3\nassign l -> a\n";  // 0.3 is no float
  steps["one_rank_keeps_the_value"] = {.before = of_one_rank + "R a ring=15\nS a scale=1\nsgd W a",
                                       .after = of_one_rank + "G a ring=15\nsgd W a"};
  steps["scaled_twice"] = folded("S a\nS a scale=0.25", "L l value=0.125\n");
  steps["of_another_scope"] = {.before = kLoss + "assign l -> a\nR a\nscale a -> a scale=0.5\nsgd W a",
                               .after = kLoss + "assign l -> a\nG a\nscale a -> a scale=0.5\nsgd W a"};
  steps["foreign_scaling_between"] = {.before = kLoss + "scale l -> m scale=3\nassign m -> a\nR a\nS a\nsgd W a",
                                      .after = kHalfLoss + "scale l -> m scale=3\nassign m -> a\nG a\nsgd W a"};
}

// Two gradients, of which something differs.
ExactStep both_kept(const std::string& first, const std::string& second, const std::string& rest) {
  return {.before = kLoss + "assign l -> a\nR a\n" + first + "assign l -> b\nR b ring=13\n" + second + rest,
          .after = kLoss + "assign l -> a\nG a\n" + first + "assign l -> b\nG b ring=13\n" + second + rest};
}

void add_pairs(ExactSteps& steps) {
  const std::string updates = "sgd W a\nsgd V b";
  steps["one_is_unscaled"] = both_kept("S a\n", "", updates);
  steps["other_is_unscaled"] = both_kept("", "S b\n", updates);
  steps["two_factors"] = both_kept("S a\n", "S b scale=0.25\n", updates);
  steps["one_is_scaled_twice"] = both_kept("S a\n", "S b\nS b\n", updates);
  steps["two_of_one_factor"] = {
      .before = kLoss + "assign l -> a\nR a\nS a\nassign l -> b\nR b ring=13\nS b\n" + updates,
      .after = kHalfLoss + "assign l -> a\nG a\nassign l -> b\nG b ring=13\n" + updates};
  steps["read_together_unequal"] = both_kept("S a\n", "S b scale=0.25\nsum a,b -> c\n", "sgd W c");
  steps["unread"] = {.before = kLoss + "assign l -> a\nR a\nS a\nassign l -> b\nR b ring=13\nsgd W a",
                     .after = kLoss + "assign l -> a\nG a\nS a\nassign l -> b\nG b ring=13\nsgd W a"};
  steps["unread_and_scaled"] = {.before = kLoss + "assign l -> a\nR a\nS a\nassign l -> b\nR b ring=13\nS b\nsgd W a",
                                .after = kHalfLoss + "assign l -> a\nG a\nassign l -> b\nG b ring=13\nsgd W a"};
  steps["scaled_into_another"] = {.before = kLoss +
                                            "assign l -> a\nassign l -> b\nR b ring=13\nR a\n"
                                            "scale a -> b dp scale=0.5\nsgd W b",
                                  .after = kLoss +
                                           "assign l -> a\nassign l -> b\nG b ring=13\nG a\n"
                                           "scale a -> b dp scale=0.5\nsgd W b"};
  steps["scaled_and_nothing_of_the_loss"] = {.before = kLoss + "assign x -> a\nR a\nS a\nsgd W a",
                                             .after = kLoss + "assign x -> a\nG a\nS a\nsgd W a"};
}

// `start` makes gradient a; what follows its scaling is told.
ExactStep stays(const std::string& start, const std::string& end = "") {
  return {.before = start + "R a\nS a\n" + end + "sgd W a", .after = start + "G a\nS a\n" + end + "sgd W a"};
}
ExactStep goes(const std::string& start, const std::string& after) {
  return {.before = start + "R a\nS a\nsgd W a", .after = after + "G a\nsgd W a"};
}

void add_ways_from_losses(ExactSteps& steps) {
  steps["two_losses"] = goes("L l\nL m value=3\nsum l,m -> a\n", "L l value=0.5\nL m value=1.5\nsum l,m -> a\n");
  steps["one_loss_without_value"] = stays("L l\nfill_constant -> m role=257\nsum l,m -> a\n");
  steps["one_loss_without_value"].is_compared = false;
  steps["loss_of_another_op"] = stays(kOtherLoss + "assign l -> a\n");
  steps["loss_of_a_later_op"] = stays("gaussian_random l0 -> l role=257 value=1\nassign l -> a\n");
  steps["shared_buffer_ahead_of_the_loss"] = stays("share_buffer x -> y\n" + kLoss + "assign l -> a\n");
  steps["constant_of_the_backward"] = stays("fill_constant -> l value=1\nassign l -> a\n");
  steps["constant_of_the_forward"] = stays("fill_constant -> l role=256 value=1\nassign l -> a\n");
  steps["loss_kept"] = stays(kLoss + "assign l -> P\nassign l -> a\n");
  steps["kept_behind_scaling"] = {.before = kLoss + "assign l -> a\n" + "R a\nS a\nassign a -> P\nsgd W a",
                                  .after = kHalfLoss + "assign l -> a\nG a\nassign a -> P\nsgd W a"};
  steps["gradient_that_persists"] = {.before = kLoss + "assign l -> A\nR A\nS A\nsgd W A",
                                     .after = kLoss + "assign l -> A\nR A calc=0\nS A\nsgd W A"};
  steps["gradient_that_persists"].after = kLoss + "assign l -> A\nG A\nS A\nsgd W A";
  steps["received"] = goes("recv_v2 -> r ring=13\nassign r -> a\n", "recv_v2 -> r ring=13\nassign r -> a\n");
  steps["received"].is_compared = false;  // the stage with the loss divides
  steps["received_by_the_forward"] = stays("recv_v2 -> r ring=13 role=0\nassign r -> a\n");
  steps["sent_behind_scaling"] = stays(kLoss + "assign l -> a\n", "send_v2 a -> ring=13\n");
  steps["sent_ahead_of_scaling"] =
      goes(kLoss + "assign l -> a\nsend_v2 a -> ring=13\n", kHalfLoss + "assign l -> a\nsend_v2 a -> ring=13\n");
}

void add_ways(ExactSteps& steps) {
  for (const char* type : {"assign", "transpose2"})
    steps[std::string("scope_of_") + type] = goes(kLoss + type + " l -> a dp\n", kHalfLoss + type + " l -> a dp\n");
  steps["unknown_op"] = stays(kLoss + "mystery l -> a\n");
  steps["unknown_op_with_gradients"] = stays(kLoss + "mystery Out@GRAD:l -> a\n");
  steps["derivative_by_another_slot"] = stays(kLoss + "tanh_grad Out:l Out@GRAD:l -> a\n");
  steps["derivative_and_something"] = stays(kLoss + "sum_grad Out@GRAD:l Other@GRAD:x -> a\n");
  steps["read_by_the_forward"] = stays(kLoss + "assign l -> y role=0\nassign l -> a\n");
  steps["read_by_an_optimizer"] = stays(kLoss + "assign l -> y role=2\nassign l -> a\n");
  steps["overwritten_on_the_way"] = stays(kLoss + "assign l -> m\nassign x -> m\nassign m -> a\n");
  steps["zeros_overwritten"] = stays(kLoss + "fill_constant -> z value=0\nassign x -> z\nsum l,z -> a\n");
  steps["zeros"] = goes(kLoss + "fill_constant -> z value=0\nconcat z,z -> y\nsum l,y -> a\n",
                        kHalfLoss + "fill_constant -> z value=0\nconcat z,z -> y\nsum l,y -> a\n");
  steps["zeros_in_part"] = stays(kLoss + "fill_constant -> z value=0\nconcat z,x -> y\nsum l,y -> a\n");
  steps["ones"] = stays(kLoss + "fill_constant -> z value=1\nconcat z,z -> y\nsum l,y -> a\n");
  steps["of_the_world"] =
      goes(kLoss + "all_reduce l -> a ring=0 by=sum\n", kHalfLoss + "all_reduce l -> a ring=0 by=sum\n");
  steps["largest_of_the_world"] = stays(kLoss + "all_reduce l -> a ring=0 by=max\n");
  steps["largest_of_the_world"].is_compared = false;
  steps["shared_buffer"] = stays(kLoss + "share_buffer x -> y\nassign l -> a\n");
  for (const char* type : {"elementwise_mul", "matmul_v2", "mul"}) {
    steps[std::string(type) + "_of_itself"] = stays(kLoss + type + " X:l Y:l -> a\n");
    steps[std::string(type) + "_of_zeros"] = stays(kLoss + "fill_constant -> z value=0\n" + type + " X:l Y:z -> a\n");
    steps[std::string(type) + "_of_a_value"] =
        goes(kLoss + type + " X:l Y:x -> a\n", kHalfLoss + type + " X:l Y:x -> a\n");
    // The model of an op adds its inputs up.
    for (const char* which : {"_of_itself", "_of_zeros", "_of_a_value"})
      steps[type + std::string(which)].is_compared = false;
  }
}

// Reductions of memory that has several names stay where they are.
void add_memory(ExactSteps& steps) {
  const std::string whole = "C w a,b\n", made = "assign l -> a\nassign l -> b\n", updates = "sgd W a\nsgd V b";
  steps["whole"] = {.before = kLoss + whole + made + "R w\nS w\n" + updates,
                    .after = kHalfLoss + whole + made + "R w\n" + updates};
  steps["whole_is_squared"] = {.before = kLoss + whole + made + "square w -> y\nR w\nS w\n" + updates};
  steps["part_of_another_since"] = {
      .before = kLoss + whole + "C v a\n" + "assign l -> a\nsquare w -> y\nR a\nS a\nsgd W a",
      .after = kHalfLoss + whole + "C v a\n" + "assign l -> a\nsquare w -> y\nR a\nsgd W a"};
  steps["part_of_another_is_squared"] = {.before = kLoss + whole + "C v a\n" +
                                                   "assign l -> a\nsquare v -> y\nR a\nS a\nsgd W a"};
  steps["whole_of_nothing"] = {.before = kLoss + "coalesce_tensor -> FusedOutput:w\nassign l -> w\nR w\nS w\nsgd W w",
                               .after = kHalfLoss + "coalesce_tensor -> FusedOutput:w\nassign l -> w\nR w\nsgd W w",
                               .is_compared = false};
  steps["parts_of_nothing"] = {.before = kLoss + "coalesce_tensor -> Output:a\nassign l -> a\nR a\nS a\nsgd W a",
                               .after = kHalfLoss + "coalesce_tensor -> Output:a\nassign l -> a\nR a\nsgd W a",
                               .is_compared = false};
}

}  // namespace

const ExactSteps& exact_scalings() {
  static const ExactSteps all = [] {
    ExactSteps steps;
    add_factors(steps);
    add_pairs(steps);
    add_ways_from_losses(steps);
    add_ways(steps);
    add_memory(steps);
    return steps;
  }();
  return all;
}

// ---- factors of optimizers ----

namespace {

// `a` is made, reduced, and what `middle` says; then `ends`. No loss can hold its factor.
ExactStep optimized(const std::string& middle, const std::string& middle_after, const std::string& ends,
                    const std::string& ends_after) {
  const std::string start = kOtherLoss + "assign l -> a\n";
  return {.before = start + "R a\n" + middle + ends, .after = start + "G a\n" + middle_after + ends_after};
}
ExactStep optimized_not(const std::string& rest) { return optimized("", "", rest, rest); }

void add_lone_optimizers(ExactSteps& steps) {
  const std::string half = " rescale_grad=0.5";
  for (const char* type : {"momentum", "lars_momentum", "sparse_momentum", "dgc_momentum", "merged_momentum"})
    steps[type] = optimized("S a\n", "", std::string(type) + " W a", std::string(type) + " W a" + half);
  for (const char* type : {"adam", "merge_momentum"}) steps[type] = optimized_not(std::string("S a\n") + type + " W a");
  steps["sgd"] = optimized_not("S a\nsgd W a");
  steps["sgd_with_a_factor"] = optimized_not("S a\nsgd W a rescale_grad=1");
  steps["factor_of_its_own"] = optimized("S a\n", "", "momentum W a rescale_grad=3", "momentum W a rescale_grad=1.5");
  steps["third"] =
      optimized("S a scale=0.3333333432674408\n", "", "momentum W a", "momentum W a rescale_grad=0.3333333432674408");
  steps["no_factor"] = optimized_not("S a\nmomentum Param:W Grad:a -> ParamOut:W role=2");
  steps["not_an_optimizer"] = optimized_not("S a\nmomentum W a role=1");
  steps["no_gradient"] = optimized_not("S a\nmomentum Param:W X:a -> ParamOut:W role=2 rescale_grad=1");
  steps["no_divisor"] = optimized_not("S a scale=0.3\nmomentum W a");
  steps["scaled_twice"] = optimized_not("S a\nS a\nmomentum W a");
  steps["scaled_late"] = optimized_not("momentum W a\nS a");
  steps["scaled_between_two"] = optimized_not("momentum W a\nS a\nmomentum V a");
  steps["two"] = optimized("S a\n", "", "momentum W a\nmomentum V a", "momentum W a" + half + "\nmomentum V a" + half);
  steps["one_cannot"] = optimized_not("S a\nmomentum W a\nsgd V a");
  steps["read_before"] = optimized("assign a -> y\nS a\n", "assign a -> y\n", "momentum W a", "momentum W a" + half);
  steps["read_since"] = optimized_not("S a\nassign a -> y\nmomentum W a");
  steps["read_last"] = optimized_not("S a\nmomentum W a\nassign a -> y");
  steps["written_since"] = optimized_not("S a\nassign x -> a\nmomentum W a");
  steps["cast"] = optimized_not("S a\ncast a -> c\nmomentum W c");
  steps["in_another_slot"] =
      optimized_not("S a\nmomentum Param:W Grad:x MasterParam:a -> ParamOut:W role=2 rescale_grad=1");
  steps["unread"] = optimized_not("S a\nmomentum W x");
  for (const char* type : {"momentum", "lars_momentum", "sparse_momentum", "dgc_momentum", "merged_momentum", "adam",
                           "sgd", "merge_momentum", "not_an_optimizer"})
    steps[type].told = {{"analysis",
                         {{"support_rescale_grad", std::string(type).find("momentum") != std::string::npos &&
                                                       std::string(type) != "merge_momentum"}}}};
  for (auto& [name, step] : steps) step.is_compared = name != "no_gradient" && name != "not_an_optimizer";
}

// Of two gradients, each over its ring.
ExactStep two_optimized(const std::string& scalings, const std::string& scalings_after, const std::string& ends,
                        const std::string& ends_after) {
  const std::string start = kOtherLoss + "assign l -> a\nassign l -> b\n";
  return {.before = start + "R a\nR b ring=13\n" + scalings + ends,
          .after = start + "G a\nG b ring=13\n" + scalings_after + ends_after};
}

void add_pairs_of_optimizers(ExactSteps& steps) {
  const std::string half = " rescale_grad=0.5", both = "merged_momentum W a,b", each = "momentum W a\nmomentum V b";
  steps["both"] = two_optimized("S a\nS b\n", "", both, both + half);
  steps["both_unequal"] = two_optimized("S a\nS b scale=0.25\n", "S a\nS b scale=0.25\n", both, both);
  steps["first_of_both"] = two_optimized("S a\n", "S a\n", both, both);
  steps["second_of_both"] = two_optimized("S b\n", "S b\n", both, both);
  steps["each"] =
      two_optimized("S a\nS b scale=0.25\n", "", each, "momentum W a rescale_grad=0.5\nmomentum V b rescale_grad=0.25");
  steps["first_of_each"] = two_optimized("S a\n", "", each, "momentum W a" + half + "\nmomentum V b");
  steps["second_of_each"] = two_optimized("S b\n", "", each, "momentum W a\nmomentum V b" + half);
  steps["one_that_cannot"] =
      two_optimized("S a\nS b\n", "S b\n", "momentum W a\nsgd V b", "momentum W a" + half + "\nsgd V b");
  steps["unread_beside_another"] = two_optimized("S a\nS b\n", "S a\n", "momentum V b", "momentum V b" + half);
  // What one cannot hold, none does that shares a gradient with it, by way of others.
  const std::string chain = "merged_momentum W a,b\nmerged_momentum V b,x";
  steps["by_way_of_another"] = two_optimized("S a\nS b\n", "S a\nS b\n", chain, chain);
  const std::string other_way = "merged_momentum V b,x\nmerged_momentum W a,b";
  steps["by_way_of_an_earlier_one"] = two_optimized("S a\nS b\n", "S a\nS b\n", other_way, other_way);
  steps["into_another"] =
      two_optimized("scale b -> a dp scale=0.5\n", "scale b -> a dp scale=0.5\n", "momentum W a", "momentum W a");
  const std::string copied = "S a\nscale a -> b dp scale=0.5\n";
  steps["scaled_and_then_into_another"] = two_optimized(copied, copied, each, each);
  steps["shared_buffer"] = {.before = kOtherLoss + "assign l -> a\nshare_buffer a -> z\nR a\nS a\nmomentum W a"};
  steps["persistent"] = {.before = kOtherLoss + "assign l -> A\nR A\nS A\nmomentum W A",
                         .after = kOtherLoss + "assign l -> A\nG A\nS A\nmomentum W A"};
  // What one rank's loss can hold goes there, although optimizers could.
  steps["into_the_loss"] = {.before = kLoss + "assign l -> a\nR a\nS a\nmomentum W a",
                            .after = kHalfLoss + "assign l -> a\nG a\nmomentum W a"};
  steps["unwanted"] = {.before = kLoss + "assign l -> a\nR a\nS a\nmomentum W a",
                       .after = kLoss + "assign l -> a\nG a\nS a\nmomentum W a",
                       .with = [](json& args) { args["options"]["gradient_scale"] = false; }};
}

}  // namespace

const ExactSteps& exact_optimizers() {
  static const ExactSteps all = [] {
    ExactSteps steps;
    add_lone_optimizers(steps);
    add_pairs_of_optimizers(steps);
    return steps;
  }();
  return all;
}

// ---- waits ----

namespace {

// `a` is made and reduced, and nothing is fused; what follows is told.
ExactStep awaited(const std::string& rest, const std::string& rest_after, const std::string& reduced = "W 12\nO a\n") {
  const std::string start = kLoss + kHigher + "assign l -> a\n";
  return {.before = start + "R a\n" + rest, .after = start + reduced + rest_after};
}

void add_waits_of_readers(ExactSteps& steps) {
  steps["reader"] = awaited("sgd W a", "Q 12\nsgd W a");
  steps["two_readers"] = awaited("assign a -> y\nsgd W a", "Q 12\nassign a -> y\nsgd W a");
  steps["writer"] = awaited("assign x -> a\nsgd W a", "Q 12\nassign x -> a\nsgd W a");
  steps["nobody"] = awaited("assign x -> y\nsgd W y", "assign x -> y\nsgd W y");
  steps["two_of_one_ring"] =
      awaited("assign l -> b\nR b\nsgd W a\nsgd V b", "assign l -> b\nW 12\nO b\nQ 12\nsgd W a\nsgd V b");
  steps["two_rings"] = awaited("assign l -> b\nR b ring=13\nsgd W a\nsgd V b",
                               "assign l -> b\nW 13\nO b ring=13\nQ 12\nsgd W a\nQ 13\nsgd V b");
  steps["read_at_once"] = awaited("assign l -> b\nR b ring=13\nsum a,b -> c\nsgd W c",
                                  "assign l -> b\nW 13\nO b ring=13\nQ 12\nQ 13\nsum a,b -> c\nsgd W c");
  steps["again"] = awaited("R a\nsgd W a", "W 12\nO a\nQ 12\nsgd W a");
  steps["again_over_another"] = awaited("R a ring=13\nsgd W a", "Q 12\nW 13\nO a ring=13\nQ 13\nsgd W a");
  steps["again_over_an_earlier"] = awaited("R a ring=11\nsgd W a", "Q 12\nW 11\nO a ring=11\nQ 11\nsgd W a");
  steps["again_behind_a_wait"] = awaited("W 13\nR a ring=13\nsgd W a", "Q 12\nW 13\nO a ring=13\nQ 13\nsgd W a");
  steps["again_behind_another_wait"] =
      awaited("W 11\nR a ring=13\nsgd W a", "W 11\nQ 12\nW 13\nO a ring=13\nQ 13\nsgd W a");
  steps["again_and_sharded"] = awaited("sgd W a", "sgd W a", "R a\n");
  steps["again_and_sharded"].with = [](json& args) { args["options"]["use_sharding"] = true; };
  steps["too_many_rings"] = awaited("sgd W a", "sgd W a", "R a\n");
  steps["too_many_rings"].with = [](json& args) { args["max_overlap_rings"] = 0; };
  steps["just_as_many_rings"] = awaited("sgd W a", "Q 12\nsgd W a");
  steps["just_as_many_rings"].with = [](json& args) { args["max_overlap_rings"] = 1; };
}

void add_waits_of_programs(ExactSteps& steps) {
  for (const char* ring : {"11", "13"}) {
    const std::string other = std::string("Q ") + ring + "\n", before = std::string("W ") + ring + "\n";
    steps[std::string("wait_of_ring_") + ring] = awaited(other + "sgd W a", other + "Q 12\nsgd W a");
    steps[std::string("calculation_awaited_by_ring_") + ring] = {
        .before = kLoss + kHigher + "assign l -> a\n" + before + "R a\nsgd W a",
        .after = kLoss + kHigher + "assign l -> a\n" + before + "W 12\nO a\nQ 12\nsgd W a"};
    const std::string named = std::string("c_wait_compute a -> a ring=") + ring + "\n";
    steps[std::string("named_by_the_wait_of_ring_") + ring] = awaited(named + "sgd W a", "Q 12\n" + named + "sgd W a");
    const std::string named_comm = std::string("c_wait_comm a -> a ring=") + ring + "\n";
    steps[std::string("named_by_the_communication_of_ring_") + ring] =
        awaited(named_comm + "sgd W a", "Q 12\n" + named_comm + "sgd W a");
  }
  // Other communication of its ring, in order with the calculation.
  for (const char* type : {"all_gather", "all_reduce", "c_allreduce_sum", "c_wait_zzz", "reduce", "send_v2", "zzz"}) {
    const std::string other =
        std::string(type) + " x:a -> " + (std::string(type) == "send_v2" ? "" : "out:a ") + "ring=12\n";
    steps[std::string("read_by_") + type] = awaited(other + "sgd W a", "Q 12\n" + other + "sgd W a");
    steps[std::string("read_behind_a_wait_by_") + type] =
        awaited("W 12\n" + other + "sgd W a", "W 12\nQ 12\n" + other + "sgd W a");
  }
  steps["calculation_awaited_since"] = awaited("W 12\nsgd W a", "W 12\nQ 12\nsgd W a");
  steps["wait_of_no_ring"] = awaited("c_wait_comm ->\nsgd W a", "c_wait_comm ->\nQ 12\nsgd W a");
  const std::string sent = "W 13\nsend_v2 K -> ring=13 calc=0\nQ 13\n";
  steps["read_by_a_reduction_that_stays"] = {
      .before = kLoss + kHigher + "assign l -> a\n" + sent + "R a\nR a K\nsgd W K\nsgd V a",
      .after = kLoss + kHigher + "assign l -> a\n" + sent + "W 12\nO a\nQ 12\nR a K\nsgd W K\nsgd V a"};
  steps["wait_that_there_is"] = awaited("Q 12\nsgd W a", "Q 12\nsgd W a");
  steps["wait_that_is_too_early"] = {.before = kLoss + kHigher + "assign l -> a\nQ 12\nR a\nsgd W a",
                                     .after = kLoss + kHigher + "assign l -> a\nQ 12\nW 12\nO a\nQ 12\nsgd W a"};
  steps["calculation_awaited"] = {.before = kLoss + kHigher + "assign l -> a\nW 12\nR a\nsgd W a",
                                  .after = kLoss + kHigher + "assign l -> a\nW 12\nO a\nQ 12\nsgd W a"};
  steps["named_by_its_own_wait"] =
      awaited("c_wait_compute a -> a ring=12\nsgd W a", "c_wait_compute a -> a ring=12\nQ 12\nsgd W a");
  steps["first_of_all"] = {.before = "R x\n" + kLoss + kHigher + "assign x -> y\nsgd W y",
                           .after = "W 12\nO x\n" + kLoss + kHigher + "Q 12\nassign x -> y\nsgd W y"};
}

// Reductions that write another variable: what they read, others may read, too.
void add_waits_of_two_names(ExactSteps& steps) {
  const auto apart = [](const std::string& rest, const std::string& rest_after) {
    const std::string start = kLoss + kHigher + "assign l -> a\n";
    return ExactStep{.before = start + "R a s\n" + rest, .after = start + "W 12\nO a s\n" + rest_after};
  };
  steps["what_it_reads_is_read"] = apart("assign a -> y\nsgd W s", "assign a -> y\nQ 12\nsgd W s");
  steps["what_it_reads_is_written"] = apart("assign x -> a\nsgd W s", "Q 12\nassign x -> a\nsgd W s");
  steps["what_it_reads_is_reduced"] =
      apart("R a ring=13\nsgd W s\nsgd V a", "Q 12\nW 13\nO a ring=13\nsgd W s\nQ 13\nsgd V a");
  steps["what_it_reads_is_reduced_into_another"] =
      apart("R a t ring=13\nsgd W s\nsgd V t", "W 13\nO a t ring=13\nQ 12\nsgd W s\nQ 13\nsgd V t");
}

// Readers on streams of their own, whom names order with waits alone.
void add_waits_of_streams(ExactSteps& steps) {
  for (const char* stream : {"aaa", "zzz"}) {
    const std::string on = std::string(" on=") + stream, name = std::string("_on_") + stream;
    const std::string start = kLoss + kHigher + "assign l -> a\n", reader = "assign a -> y" + on + "\n";
    steps["reader" + name] = {
        .before = start + "R a\n" + reader + "sgd W a",
        .after =
            start + "c_wait_compute X:a -> Out:a ring=12\nO a\nc_wait_comm -> Out:a ring=12\n" + reader + "sgd W a"};
    steps["reader_before" + name] = {
        .before = start + reader + "R a\nsgd W a",
        .after = start + reader + "c_wait_compute X:a -> Out:a ring=12\nO a\nc_wait_comm -> Out:a ring=12\nsgd W a"};
    steps["reader_of_what_is_read" + name] = {
        .before = start + reader + "R a s\nsgd W s",
        .after = start + reader + "c_wait_compute X:a -> ring=12\nO a s\nc_wait_comm -> Out:a ring=12\nsgd W s"};
    steps["awaited" + name] = {.before = start + "R a\nc_wait_comm -> Out:a ring=12" + on + "\n" + reader + "sgd W a",
                               .after = start +
                                        "c_wait_compute X:a -> Out:a ring=12\nO a\nc_wait_comm -> Out:a ring=12" + on +
                                        "\n" + reader + "sgd W a"};
    steps["awaited_without_a_name" + name] = {
        .before = start + "R a\nQ 12\n" + reader + "sgd W a",
        .after = start + "c_wait_compute X:a -> Out:a ring=12\nO a\nQ 12\nc_wait_comm -> Out:a ring=12\n" + reader +
                 "sgd W a"};
    steps["awaited_elsewhere" + name] = {.before = start + "R a\nQ 12" + on + "\nsgd W a",
                                         .after = start + "W 12\nO a\nQ 12" + on + "\nQ 12\nsgd W a"};
  }
  const std::string start = kLoss + kHigher + "assign l -> a\n", reader = "assign a -> y on=default\n";
  steps["reader_on_default"] = {.before = start + "R a\n" + reader + "sgd W a",
                                .after = start + "W 12\nO a\nQ 12\n" + reader + "sgd W a"};
  steps["awaited_on_default"] = {.before = start + "R a\nQ 12 on=default\nsgd W a",
                                 .after = start + "W 12\nO a\nQ 12 on=default\nsgd W a"};
  steps["reduction_on_a_stream"] = {.before = start + "R a on=zzz\nsgd W a",
                                    .after = start + "W 12\nO a on=zzz\nQ 12\nsgd W a"};
}

// What other communication touches that has left the calculation stream, stays.
void add_waits_of_others(ExactSteps& steps) {
  const std::string start = kLoss + kHigher + "assign l -> a\n";
  const std::string sent = "W 13\nsend_v2 a -> ring=13 calc=0\nQ 13\n";
  steps["sent"] = {.before = start + sent + "R a\nsgd W a"};
  steps["sent_since"] = {.before = start + "R a\n" + sent + "sgd W a"};
  const std::string other = "W 13\nsend_v2 x -> ring=13 calc=0\nQ 13\n";
  steps["sent_another"] = {.before = start + other + "R a\nsgd W a",
                           .after = start + other + "W 12\nO a\nQ 12\nsgd W a"};
  const std::string in_order = "send_v2 a -> ring=13 calc=1\n";
  steps["sent_in_order"] = {.before = start + in_order + "R a\nsgd W a",
                            .after = start + in_order + "W 12\nO a\nQ 12\nsgd W a"};
}

}  // namespace

const ExactSteps& exact_waits() {
  static const ExactSteps all = [] {
    ExactSteps steps;
    add_waits_of_readers(steps);
    add_waits_of_programs(steps);
    add_waits_of_two_names(steps);
    add_waits_of_streams(steps);
    add_waits_of_others(steps);
    return steps;
  }();
  return all;
}

// ---- groups ----

namespace {

const std::string kUpdates = "sgd W a\nsgd V b";

// Two gradients that one reduction reduces.
ExactStep fused_step(const std::string& made, const std::string& made_after, const std::string& ahead,
                     const std::string& rest = kUpdates) {
  return {.before = kLoss + made + "R b\n" + rest,
          .after = kLoss + made_after + "N " + ahead + "\nG $0\nN $0 -> a,b\n" + rest};
}

void add_producers(ExactSteps& steps) {
  const std::string a = "assign l -> a\n", b = "assign l -> b\n", memory = "C $0 a,b\n";
  steps["in_order"] = fused_step(a + "R a\n" + b, memory + a + b, "b -> $0");
  steps["by_the_first_op"] = {.before = a + "R a\n" + b + "R b\n" + kUpdates,
                              .after = memory + a + b + "N b -> $0\nG $0\nN $0 -> a,b\n" + kUpdates,
                              .told = {{"groups", {{{"coalesce_op_idx", 0}}}}}};
  steps["reduced_by_the_first_op"] = {
      .before = "R x\nassign x -> y\nsgd W y",
      .after = "G x\nassign x -> y\nsgd W y",
      .told = {{"groups", {{{"remove_wait_op_indices", {0}}, {"coalesce_op_idx", 1}}}}}};
  steps["other_order"] = fused_step(b + a + "R a\n", memory + b + a, "a -> $0");
  steps["made_at_once"] = fused_step("split l -> a,b\nR a\n", memory + "split l -> a,b\n", "b -> $0");
  steps["first_on_a_stream"] =
      fused_step("assign l -> a on=s\nR a\n" + b, memory + "assign l -> a on=s\n" + b, "a,b -> $0");
  steps["first_on_an_early_stream"] =
      fused_step("assign l -> a on=aaa\nR a\n" + b, memory + "assign l -> a on=aaa\n" + b, "a,b -> $0");
  steps["second_on_a_stream"] =
      fused_step(a + "R a\nassign l -> b on=s\n", memory + a + "assign l -> b on=s\n", "a,b -> $0");
  steps["both_on_a_stream"] = fused_step("assign l -> b on=s\nassign l -> a on=s\nR a\n",
                                         memory + "assign l -> b on=s\nassign l -> a on=s\n", "a -> $0");
  steps["on_two_streams"] = fused_step("assign l -> a on=s\nR a\nassign l -> b on=t\n",
                                       memory + "assign l -> a on=s\nassign l -> b on=t\n", "a,b -> $0");
  steps["on_default"] =
      fused_step("assign l -> a on=default\nR a\n" + b, memory + "assign l -> a on=default\n" + b, "b -> $0");
  steps["both_on_default"] =
      fused_step(b + "assign l -> a on=default\nR a\n", memory + b + "assign l -> a on=default\n", "a -> $0");
  steps["made_twice"] = fused_step(a + b + "sum a,l -> a\nR a\n", memory + a + b + "sum a,l -> a\n", "a -> $0");
  steps["made_on_two_streams"] =
      fused_step(a + b + "sum a,l -> a on=s\nR a\n", memory + a + b + "sum a,l -> a on=s\n", "a,b -> $0");
  steps["read_since"] = fused_step(b + a + "assign a -> y\nR a\n", memory + b + a + "assign a -> y\n", "a -> $0,a");
  steps["read_since_and_not_last"] =
      fused_step(a + "assign a -> y\nR a\n" + b, memory + a + "assign a -> y\n" + b, "b -> $0,a");
  steps["both_read_since"] =
      fused_step(a + b + "sum a,b -> y\nR a\n", memory + a + b + "sum a,b -> y\n", "b -> $0,a,b");
  steps["written_since_it_was_read"] = fused_step(a + "assign a -> y\nsum a,l -> a\nR a\n" + b,
                                                  memory + a + "assign a -> y\nsum a,l -> a\n" + b, "b -> $0");
}

void add_shapes(ExactSteps& steps) {
  const std::string made = "assign l -> a\nR a\nassign l -> b\n", after = "C $0 a,b\nassign l -> a\nassign l -> b\n";
  const ExactStep plain = fused_step(made, after, "b -> $0");
  const ExactStep apart{.before = plain.before, .after = kLoss + "assign l -> a\nG a\nassign l -> b\nG b\n" + kUpdates};
  for (const int limit : {0, 4, 7, 8, 9}) {
    const bool is_fused = limit >= 8;
    ExactStep& step = steps["limit_" + std::to_string(limit)] = is_fused ? plain : apart;
    step.with = [limit](json& args) { args["max_fuse_numel"] = limit; };
    step.told = {{"groups", {{{"closed_by", is_fused ? "op" : "limit"}}}}};
    if (!is_fused) step.told["groups"].push_back({{"closed_by", "op"}});
  }
  for (const char* type : {"bool", "bfloat16", "float64", "complex128"}) {
    ExactStep& step = steps[std::string("type_") + type] = apart;
    step.with = [type](json& args) { variable(args, "b")["dtype"] = type; };
    step.told = {{"groups", {{{"closed_by", "type"}, {"dtype", "float32"}}, {{"closed_by", "op"}, {"dtype", type}}}}};
  }
  steps["end"] = fused_step(made, after, "b -> $0", "");
  steps["end"].told = {{"groups", {{{"closed_by", "end"}, {"closed_at", -1}}}}};
  for (const char* unknown : {"a", "b"}) {
    ExactStep& step = steps[std::string("unknown_shape_of_") + unknown] = apart;
    step.with = [unknown](json& args) { variable(args, unknown)["shape"] = {-1, 4}; };
    step.told = {{"groups",
                  {{{"gradients", {"a"}}, {"closed_by", "alone"}, {"numel", *unknown == 'a' ? 0 : 4}},
                   {{"gradients", {"b"}}, {"numel", *unknown == 'b' ? 0 : 4}}}}};
  }
  steps["name_is_taken"] = plain;
  steps["name_is_taken"].after = kLoss + "C coalesce_grad_0_1 a,b\nassign l -> a\nassign l -> b\n" +
                                 "N b -> coalesce_grad_0_1\nG coalesce_grad_0_1\nN coalesce_grad_0_1 -> a,b\n" +
                                 kUpdates;
  steps["name_is_taken"].with = [](json& args) {
    json taken = variable(args, "a");
    taken["name"] = "coalesce_grad_0_0";
    args["program"]["vars"].push_back(std::move(taken));
  };
}

// What is not fused, and the groups around it.
void add_alone(ExactSteps& steps) {
  const auto between = [](const std::string& one, const std::string& one_after, const std::string& rest) {
    const std::string start = kLoss + "assign l -> a\nR a\nassign l -> b\nR b\n";
    const std::string end = "assign l -> c\nR c\nassign l -> d\nR d\n";
    const auto group = [](const std::string& name, const std::string& first, const std::string& second) {
      return "C " + name + " " + first + "," + second + "\nassign l -> " + first + "\nassign l -> " + second + "\nN " +
             second + " -> " + name + "\nG " + name + "\nN " + name + " -> " + first + "," + second + "\n";
    };
    return ExactStep{.before = start + one + end + rest,
                     .after = kLoss + group("$2", "a", "b") + one_after + group("$0", "c", "d") + rest};
  };
  const std::string rest = "merged_momentum W a,b,c,d";
  steps["persistent"] = between("assign l -> P\nR P\n", "assign l -> P\nG P\n", rest);
  steps["from_outside"] = between("R x\n", "G x\n", rest + "\nsgd X x");
  for (const char* to : {"aa", "zz"})
    steps[std::string("written_to_") + to] =
        between(std::string("assign l -> m\nR m ") + to + "\n", std::string("assign l -> m\nG m ") + to + "\n",
                rest + "\nsgd X " + to);
  steps["average"] = between("assign l -> m\nR m by=avg\n", "assign l -> m\nG m by=avg\n", rest + "\nsgd X m");
  steps["of_older_kind"] =
      between("assign l -> m\nc_allreduce_sum m -> m dp ring=12\n",
              "assign l -> m\nc_allreduce_sum m -> m dp ring=12 calc=1 on=gradient_sync_stream\n", rest + "\nsgd X m");
  steps["to_one_rank"] =
      between("assign l -> m\nreduce m -> m dp ring=12\n",
              "assign l -> m\nreduce m -> m dp ring=12 calc=1 on=gradient_sync_stream\n", rest + "\nsgd X m");
  steps["sent"] = between("assign l -> m\nW 13\nsend_v2 m -> ring=13 calc=0\nQ 13\nR m\n",
                          "assign l -> m\nW 13\nsend_v2 m -> ring=13 calc=0\nQ 13\nR m\n", rest + "\nsgd X m");
  steps["part_of_another"] = between("C w m\nassign l -> m\nR m\n", "C w m\nassign l -> m\nR m\n", rest + "\nsgd X m");
  steps["buffer_of_another"] = between("assign l -> m\nshare_buffer m -> n\nR m\n",
                                       "assign l -> m\nshare_buffer m -> n\nR m\n", rest + "\nsgd X m");
  for (const char* ring : {"11", "13"})
    steps[std::string("over_ring_") + ring] =
        between(std::string("assign l -> m\nR m ring=") + ring + "\n",
                std::string("assign l -> m\nG m ring=") + ring + "\n", rest + "\nsgd X m");
  for (const char* attribute : {"k=1", "k=2", "k=true", "k=word"})
    steps[std::string("with_attribute_") + attribute] =
        between(std::string("assign l -> m\nR m ") + attribute + "\n",
                std::string("assign l -> m\nG m ") + attribute + "\n", rest + "\nsgd X m");
  for (const char* twice : {"persistent", "from_outside", "written_to_aa", "average"})
    steps[twice].told = {
        {"groups", {{{"fused", true}, {"coalesce_var", "coalesce_grad_2_0"}}, {{"fused", false}}, {{"fused", true}}}},
        {"summary", {{"coalesce_allreduce_ops", 3}, {"not_fused", 0}}}};
  steps["persistent"].told["groups"][0].update({{"closed_by", "alone"}, {"gradients", {"a", "b"}}});
  steps["average"].told["groups"][0].update({{"closed_by", "reduction"}});
}

// A gradient that is reduced twice is in no group with others.
void add_twice(ExactSteps& steps) {
  const auto pairs = [](int ring_of_a, int ring_of_b) {
    return json::array({json::array({"a", ring_of_a}), json::array({"b", ring_of_b})});
  };
  const std::string a = "assign l -> a\n", b = "assign l -> b\n";
  steps["twice"] = {.before = kLoss + a + "R a\nR a\n" + b + "R b\n" + kUpdates,
                    .after = kLoss + a + "G a\nG a\n" + b + "G b\n" + kUpdates};
  steps["twice_around_another"] = {.before = kLoss + a + "R a\n" + b + "R b\nR a\n" + kUpdates,
                                   .after = kLoss + a + "G a\n" + b + "G b\nG a\n" + kUpdates};
  steps["twice_over_two_rings"] = {
      .before = kLoss + a + "R a\nR a ring=13\n" + b + "R b ring=13\n" + kUpdates,
      .after = kLoss + a + "G a\nG a ring=13\n" + b + "G b ring=13\n" + kUpdates,
      .told = {{"analysis", {{"grad_to_ring", pairs(12, 13)}, {"ring_to_grads", {{12, {"a"}}, {13, {"a", "b"}}}}}}}};
  steps["twice"].told = {
      {"analysis", {{"grad_to_ring", pairs(12, 12)}, {"ring_to_grads", json::array({{12, {"a", "b"}}})}}},
      {"summary", {{"allreduce_ops", 2}, {"coalesce_allreduce_ops", 3}}}};
}

void add_touched(ExactSteps& steps) {
  const std::string a = "assign l -> a\n", b = "assign l -> b\n";
  const auto apart = [&](const std::string& touch, int at) {
    return ExactStep{.before = kLoss + a + "R a\n" + touch + b + "R b\n" + kUpdates,
                     .after = kLoss + a + "G a\n" + touch + b + "G b\n" + kUpdates,
                     .told = {{"groups", {{{"closed_by", "op"}, {"closed_at", at}}, {{"closed_by", "op"}}}}}};
  };
  steps["read_between"] = apart("assign a -> y\n", 4);
  steps["written_between"] = apart("assign x -> a\n", 4);
  steps["named_by_a_dependency"] = apart("nop a -> y\n", 4);
  steps["another_is_read_between"] =
      fused_step(a + "R a\nassign x -> y\n" + b, "C $0 a,b\n" + a + "assign x -> y\n" + b, "b -> $0");
  steps["read_by_its_producer"] = apart("", 5);
  steps["read_by_its_producer"].before = kLoss + a + "R a\nassign a -> b\nR b\n" + kUpdates;
  steps["read_by_its_producer"].after = kLoss + a + "G a\nassign a -> b\nG b\n" + kUpdates;
  steps["read_by_its_producer"].told["groups"][0]["closed_at"] = 4;
}

// Waits of other communication, and of none.
void add_foreign_waits(ExactSteps& steps) {
  const std::string a = "assign l -> a\n", b = "assign l -> b\n", memory = "C $0 a,b\n";
  for (const char* ring : {"11", "13"}) {
    const std::string wait = std::string("W ") + ring + "\n", name = std::string("_of_ring_") + ring;
    steps["wait" + name] = fused_step(a + wait + "R a\n" + b + wait, memory + a + wait + b + wait, "b -> $0");
    steps["wait_at_the_end" + name] = fused_step(a + "R a\n" + b, memory + a + b, "b -> $0", kUpdates + "\nW " + ring);
    // Where reductions stay on the calculation stream, none has a wait of the pass.
    ExactStep& step = steps["no_wait" + name] = steps["wait" + name];
    step.with = [](json& args) { args["max_overlap_rings"] = 0; };
    step.told = {{"groups", {{{"remove_wait_op_indices", json::array()}}}}};
  }
  steps["own_waits"] = fused_step(a + "W 12\nR a\n" + b + "W 12\n", memory + a + b, "b -> $0");
  steps["own_waits_of_the_calculation"] = steps["own_waits"];
  steps["own_waits_of_the_calculation"].with = [](json& args) { args["max_overlap_rings"] = 0; };
  steps["own_waits_of_the_calculation"].told = {{"groups",
                                                 {{{"remove_wait_op_indices", {2}},
                                                   {"remove_allreduce_op_indices", {3}},
                                                   {"allreduce_op_idx", 6},
                                                   {"coalesce_op_idx", 1}}}}};
  steps["own_wait_at_the_end"] = fused_step(a + "R a\n" + b, memory + a + b, "b -> $0", kUpdates + "\nW 12");
  steps["wait_with_a_name"] = fused_step(a + "c_wait_compute x -> y ring=12\nR a\n" + b,
                                         memory + a + "c_wait_compute x -> y ring=12\n" + b, "b -> $0");
  steps["wait_of_communication"] = fused_step(a + "Q 12\nR a\n" + b, memory + a + "Q 12\n" + b, "b -> $0");
  for (const char* mode : {"calc=0", "calc=1", "on=s", "on=s calc=0"}) {
    ExactStep& step = steps[std::string("issued_otherwise_") + mode] =
        fused_step(a + "R a " + mode + "\n" + b, memory + a + b, "b -> $0");
    step.with = [](json& args) { args["max_overlap_rings"] = 0; };
    step.is_compared = false;  // with calc=0 it races before the pass
  }
}

}  // namespace

const ExactSteps& exact_groups() {
  static const ExactSteps all = [] {
    ExactSteps steps;
    add_producers(steps);
    add_shapes(steps);
    add_alone(steps);
    add_twice(steps);
    add_touched(steps);
    add_foreign_waits(steps);
    return steps;
  }();
  return all;
}

// ---- the convention paddle ----

namespace {

const auto kNoOverlap = [](json& args) { args["max_overlap_rings"] = 0; };

// A scale op directly before a reduction marks the op after that one as its own: the source looks before and takes
// what comes after. Of several marked ops the last is kept for the group.
void add_lookbehind(ExactSteps& steps) {
  const std::string start = kLoss + "assign l -> z\n", made = "split l -> a,b,c\n";
  const std::string start_after = start + "G z ring=13\n", dependent = "N c -> $0\nG $0\nN $0 -> a,b,c\n";
  const auto with = [](json& args) {
    kNoOverlap(args);
    args["options"]["gradient_scale"] = false;
  };
  steps["marked_twice"] = {.before = start + "R z ring=13\n" + made + "R a\nS z\nR b\nS z\nR c\nS z\nsgd W z",
                           .after = start_after + "C $0 a,b,c\n" + made + "S z\n" + dependent + "S $0\nsgd W z",
                           .with = with,
                           .told = {{"groups",
                                     {{{"ring_id", 13}},
                                      {{"scale_op_idx", 9},
                                       {"remove_scale_op_indices", {7}},
                                       {"remove_allreduce_op_indices", {4, 6}},
                                       {"allreduce_op_idx", 8},
                                       {"coalesce_op_idx", 3}}}}}};
  for (const char* end : {"", "sgd W z"})
    steps[std::string("marked_once_before_") + (*end == '\0' ? "the_end" : "others")] = {
        .before = start + "R z ring=13\n" + made + "R a\nR b\nS z\nR c\nS z\n" + end,
        .after = start_after + "C $0 a,b,c\n" + made + "S z\n" + dependent + end,
        .with = with,
        .told = {{"groups", {{{"ring_id", 13}}, {{"scale_op_idx", -1}, {"remove_scale_op_indices", {8}}}}}}};
  steps["nothing_behind_to_mark"] = {
      .before = start + "R z ring=13\n" + made + "R a\nR b\nS z\nR c",
      .after = start_after + "C $0 a,b,c\n" + made + "S z\n" + dependent,
      .with = with,
      .told = {{"groups", {{{"ring_id", 13}}, {{"scale_op_idx", -1}, {"remove_scale_op_indices", json::array()}}}}}};
}

// From the end to the last op of the forward fused reductions get dependencies, except those of optimizers.
void add_dependencies_of_source(ExactSteps& steps) {
  const std::string two = "assign l -> a\nR a\nassign l -> b\nR b\n",
                    memory = "C $0 a,b\nassign l -> a\nassign l -> b\n";
  const std::string dependent = "N b -> $0\nG $0\nN $0 -> a,b\n";
  for (const char* role : {"0", "256"})
    steps[std::string("before_an_op_of_role_") + role] = {
        .before = kLoss + two + "assign x -> y role=" + role + "\n" + kUpdates,
        .after = kLoss + memory + "G $0\nassign x -> y role=" + role + "\n" + kUpdates};
  for (const char* role : {"1", "2", "257", "4"})
    steps[std::string("before_an_op_of_role_") + role] = {
        .before = kLoss + two + "assign x -> y role=" + role + "\n" + kUpdates,
        .after = kLoss + memory + dependent + "assign x -> y role=" + role + "\n" + kUpdates};
  steps["reduced_by_an_optimizer"] = {.before = kLoss + "assign l -> a\nR a\nassign l -> b\nR b role=2\n" + kUpdates,
                                      .after = kLoss + memory + "G $0 role=2\n" + kUpdates};
  const auto in_sequence = [](json& args) { args["options"]["sequential_run"] = true; };
  steps["sequential_and_nothing_fused"] = {
      .before = kLoss + "assign l -> a\nR a\nassign l -> b\nR b ring=13\n" + kUpdates,
      .after = kLoss + "assign l -> a\nG a\nassign l -> b\nG b ring=13\n" + kUpdates,
      .with = in_sequence};
  steps["sequential_and_hidden_by_the_forward"] = {.before = kLoss + two + "assign x -> y role=0\n" + kUpdates,
                                                   .after = kLoss + memory + "G $0\nassign x -> y role=0\n" + kUpdates,
                                                   .with = in_sequence};
  for (const char* ring : {"11", "12", "13"})
    steps[std::string("wait_of_ring_") + ring] = {.before = kLoss + "W " + ring + "\n" + two + kUpdates + "\nW " + ring,
                                                  .after = kLoss + memory + dependent + kUpdates};
  steps["wait_with_a_name"] = {
      .before = kLoss + two + "c_wait_compute x -> ring=12\nc_wait_compute -> y ring=12\nQ 12\n" + kUpdates,
      .after =
          kLoss + memory + dependent + "c_wait_compute x -> ring=12\nc_wait_compute -> y ring=12\nQ 12\n" + kUpdates};
}

void add_optimizers_of_source(ExactSteps& steps) {
  for (const char* type : {"momentum", "lars_momentum", "sparse_momentum", "dgc_momentum", "merge_momentum",
                           "merged_momentum", "adam", "sgd"}) {
    const std::string update = std::string(type) + " W a\n";
    const bool takes = update.find("momentum") != std::string::npos && !update.starts_with("merged");
    steps[std::string("folded_for_") + type] = {.before = kLoss + "assign l -> a\nR a\nS a\n" + update,
                                                .after = kHalfLoss + "assign l -> a\nG a\n" + update,
                                                .told = {{"analysis", {{"support_rescale_grad", takes}}}}};
    if (takes)
      steps[std::string("folded_into_") + type] = {
          .before =
              kLoss + "assign l -> a\nR a\nS a\nassign l -> b\nR b ring=14\nS b scale=0.25\n" + update + type + " V b",
          .after = kLoss + "assign l -> a\nG a\nassign l -> b\nG b ring=14\n" + type + " W a rescale_grad=0.5\n" +
                   type + " V b rescale_grad=0.25"};
  }
  // Whose factor is not looked at.
  steps["divided_by_the_size_of_the_ring"] = {.before = kLoss + "assign l -> a\nR a\nS a scale=3\nsgd W a",
                                              .after = kHalfLoss + "assign l -> a\nG a\nsgd W a"};
  steps["last_of_two_losses"] = {.before = kLoss + "L m value=3\nsum l,m -> a\nR a\nS a\nsgd W a",
                                 .after = kLoss + "L m value=1.5\nsum l,m -> a\nG a\nsgd W a"};
  steps["no_loss"] = {.before = "assign l -> a\nR a\nS a\nsgd W a", .after = "assign l -> a\nG a\nsgd W a"};
  steps["unwanted"] = {.before = kLoss + "assign l -> a\nR a\nS a\nsgd W a",
                       .after = kLoss + "assign l -> a\nG a\nS a\nsgd W a",
                       .with = [](json& args) { args["options"]["gradient_scale"] = false; }};
  steps["nobody_takes_a_factor"] = {
      .before = kLoss + "assign l -> a\nR a\nS a\nassign l -> b\nR b ring=14\nS b scale=0.25\nsgd W a\nsgd V b",
      .after = kLoss + "assign l -> a\nG a\nS a\nassign l -> b\nG b ring=14\nS b scale=0.25\nsgd W a\nsgd V b"};
}

// Its first gradient's op stands directly before the reduction, or before a sum that tensors are split by.
void add_producers_of_source(ExactSteps& steps) {
  const std::string end = "assign l -> b\n";
  const std::string dependent = "N b -> $0\nG $0\nN $0 -> a,b\n" + kUpdates;
  for (const char* by : {"", " by=sum"}) {
    const std::string sum = std::string("all_reduce a -> a ring=14") + by + "\n";
    steps[std::string("tensor_parallel") + (*by == '\0' ? "" : "_sum")] = {
        .before = kLoss + "assign l -> a\n" + sum + "R a\n" + end + "R b\n" + kUpdates,
        .after = kLoss + "C $0 a,b\nassign l -> a\n" + sum + end + dependent};
  }
  steps["made_by_the_first_op"] = {.before = "assign l -> a\nR a\n" + end + "R b\n" + kUpdates,
                                   .after = "C $0 a,b\nassign l -> a\n" + end + dependent,
                                   .told = {{"groups", {{{"coalesce_op_idx", 0}}}}}};
  steps["second_is_made_anywhere"] = {.before = kLoss + "assign l -> b\nassign l -> a\nR a\nR b\n" + kUpdates,
                                      .after = kLoss + "assign l -> b\nC $0 a,b\nassign l -> a\n" + dependent};
  steps["own_waits"] = {.before = kLoss + "assign l -> a\nW 12\nR a\n" + end + "W 12\nR b\n" + kUpdates,
                        .after = kLoss + "C $0 a,b\nassign l -> a\n" + end + dependent,
                        .with = kNoOverlap,
                        .told = {{"groups", {{{"remove_wait_op_indices", {2}}, {"coalesce_op_idx", 1}}}}}};
  steps["one_own_wait"] = {.before = kLoss + "assign l -> a\nR a\n" + end + "W 12\nR b\n" + kUpdates,
                           .after = kLoss + "C $0 a,b\nassign l -> a\n" + end + dependent,
                           .with = kNoOverlap,
                           .told = {{"groups", {{{"remove_wait_op_indices", {4}}, {"coalesce_op_idx", 1}}}}}};
}

void add_refused_groups(RefusedSteps& steps) {
  const std::string two = "assign l -> a\nR a\nassign l -> b\nR b\n";
  const auto in_sequence = [](json& args) { args["options"]["sequential_run"] = true; };
  steps["sequential"] = {kLoss + two + kUpdates, "add_dependencies", "AttributeError", in_sequence};
  steps["first_of_all"] = {"R x\nsgd W x", "group_grads"};
  steps["first_of_all_in_order"] = {"R x\nsgd W x", "group_grads", "AssertionError", kNoOverlap};
  steps["behind_the_first_sum"] = {"all_reduce x -> x ring=14\nR x\nsgd W x", "group_grads"};
  steps["made_by_another_op"] = {kLoss + "assign l -> a\nassign x -> y\nR a\nsgd W a", "group_grads"};
  steps["behind_another_reduction"] = {kLoss + "assign l -> a\nall_reduce x -> x ring=14 by=max\nR a", "group_grads"};
  steps["twice_in_a_group"] = {kLoss + "assign l -> a\nR a\nR a\nsgd W a", "group_grads"};
  steps["behind_a_group"] = {kLoss + "assign l -> a\nR a\nassign a -> a\nR a\nsgd W a", "group_grads"};
  steps["unknown_shape"] = {kLoss + "assign l -> a\nR a\nsgd W a", "group_grads", "AssertionError",
                            [](json& args) { variable(args, "a")["shape"] = {-1}; }};
  steps["an_average_is_kept"] = {kLoss + "assign l -> a\nR a\nassign l -> b\nR b by=avg\n" + kUpdates,
                                 "update_program"};
  steps["a_reduce_is_kept"] = {kLoss + "assign l -> a\nR a\nassign l -> b\nreduce b -> b dp ring=12\n" + kUpdates,
                               "update_program"};
  steps["a_reduce_goes"] = {kLoss + "assign l -> a\nreduce a -> a dp ring=12\nassign l -> b\nR b\n" + kUpdates,
                            "update_program"};
  const auto with = [](json& args) {
    kNoOverlap(args);
    args["options"]["gradient_scale"] = false;
  };
  const std::string marked = kLoss + "assign l -> z\nR z ring=13\nsplit l -> a,b,c\nR a\nS z\nR b\n";
  for (const char* type : {"assign", "broadcast", "reduce", "zzz"}) {
    const std::string other = std::string(type) + " x -> y\n";
    steps[std::string("marks_") + type] = {marked + other + kUpdates, "update_program", "AssertionError", with};
    steps[std::string("keeps_") + type] = {marked + "S z\nR c\n" + other + kUpdates, "update_program", "AssertionError",
                                           with};
  }
}

void add_refused_scalings(RefusedSteps& steps) {
  const std::string start = kLoss + "assign l -> a\nR a\nS a\n";
  const std::string other = "assign l -> b\nR b ring=14\nS b scale=0.25\n";
  steps["scaled_and_not_reduced"] = {kLoss + "assign l -> a\nR a\nS x\nsgd W a", "analyze"};
  steps["no_ring"] = {kLoss + "assign l -> a\nall_reduce a -> a dp\nsgd W a", "analyze"};
  steps["no_ring_again"] = {kLoss + "assign l -> a\nR a\nall_reduce a -> a dp\nsgd W a", "overlap"};
  steps["unknown_ring"] = {kLoss + "assign l -> a\nR a ring=99\nsgd W a", "analyze"};
  steps["loss_of_another_op"] = {kOtherLoss + "assign l -> a\nR a\nS a\nsgd W a", "prune"};
  steps["loss_without_value"] = {"fill_constant -> l role=257\nassign l -> a\nR a\nS a\nsgd W a", "prune"};
  steps["no_factor"] = {start + other + "momentum W a\nmomentum Param:V Grad:b -> ParamOut:V role=2", "prune"};
  steps["two_gradients"] = {start + other + "momentum W a,b", "prune"};
  steps["no_gradient"] = {start + other + "momentum W a\nmomentum Param:V -> ParamOut:V role=2 rescale_grad=1",
                          "prune"};
  steps["unknown_gradient"] = {start + other + "momentum W a\nmomentum V b\nmomentum U x", "prune", "KeyError"};
  steps["left_unscaled"] = {start + other + "momentum W a\nsgd V b", "prune"};
}

}  // namespace

const RefusedSteps& refused_paddle() {
  static const RefusedSteps all = [] {
    RefusedSteps steps;
    add_refused_groups(steps);
    add_refused_scalings(steps);
    return steps;
  }();
  return all;
}

const ExactSteps& exact_paddle() {
  static const ExactSteps all = [] {
    ExactSteps steps;
    add_lookbehind(steps);
    add_dependencies_of_source(steps);
    add_optimizers_of_source(steps);
    add_producers_of_source(steps);
    // The source divides the loss also where nothing is scaled.
    for (auto& [name, step] : steps)
      if (step.before.find("S ") == std::string::npos)
        step.with = [with = step.with](json& args) {
          if (with) with(args);
          args["options"]["gradient_scale"] = false;
        };
    return steps;
  }();
  return all;
}

}  // namespace plumbline::conformance
