// Training with a reducer: each step's gradients are the single device's, whatever the passes, buckets and ranks do.
#include <cstring>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "conformance/bucketing/reducer_checks.hpp"
#include "conformance/bucketing/reducer_training.hpp"

namespace plumbline::conformance {

using bucketing::Unused;
using suite::Context;

namespace {

constexpr std::int64_t kFlat = 1 << 30;

MadeIn made_in(const std::string& memory) {
  if (memory == "views") return MadeIn::views;
  return memory == "handed_in" ? MadeIn::new_memory : MadeIn::own_memory;
}

void train_and_judge(Context& context, const ReducerTraining& training, const std::string& requirement) {
  const Trained trained = train_with_reducer(context.world(), training);
  judge_training(context, training, trained, nearness_of(context.capabilities()), requirement);
}

void single_device(Context& context) {
  const std::string model = context.parameters().text("model");
  ReducerTraining training{.sizes = sizes_of_model(model == "aligned" ? "mlp" : model),
                           .made_in = made_in(context.parameters().text("memory"))};
  if (model == "aligned") training.aligned = 16;
  if (model == "resnet50") training.limit_bytes = 64 << 10;
  train_and_judge(context, training, "BUCKET-050");
}

// 2-1-3: as many in the first, second, third step.
std::function<int(int)> passes_named(const std::string& name) {
  if (name == "213") return [](int step) { return std::array{2, 1, 3}.at(static_cast<std::size_t>(step % 3)); };
  return [count = std::stoi(name)](int) { return count; };
}

void accumulation(Context& context) {
  train_and_judge(context,
                  {.sizes = sizes_of_model("mlp"),
                   .made_in = made_in(context.parameters().text("memory")),
                   .passes = passes_named(context.parameters().text("passes"))},
                  "BUCKET-051");
}

// Ranks whose gradients get ready in orders of their own, where it says so.
std::vector<int> rotated(int rank, std::size_t count, bool differs) {
  std::vector<int> order(count);
  for (std::size_t i = 0; i < count; ++i)
    order[i] = static_cast<int>((i + (differs ? static_cast<std::size_t>(rank) : 0) + 3) % count);
  return order;
}

void rebuilt(Context& context) {
  const bool differs = context.parameters().text("order") == "differs";
  ReducerTraining training{.sizes = sizes_of_model("mlp"), .passes = passes_named(context.parameters().text("passes"))};
  training.order = [differs, count = training.sizes.size()](int rank) { return rotated(rank, count, differs); };
  training.options.rebuild = [&training](std::span<const int> order) {
    return plan_of_training(training, {order.begin(), order.end()});
  };
  const Trained trained = train_with_reducer(context.world(), training);
  judge_training(context, training, trained, nearness_of(context.capabilities()), "BUCKET-052");
  // The buckets that are reduced in the end are those of rank 0's order.
  const auto plan = plan_of_training(training, rotated(0, training.sizes.size(), differs));
  std::vector<std::int64_t> expected, found;
  for (const auto& bucket : plan.buckets) expected.push_back(bucket.elements);
  for (const auto& launch : trained.back().passes.back().launches)
    if (launch.what == bucketing::Launch::What::bucket) found.push_back(launch.elements);
  EXPECT_EQ(found, expected) << "BUCKET-052: buckets of the last step";
}

// Which gradients a rank lacks.
std::function<bool(int, int, int, int)> produced(const std::string& lacking) {
  if (lacking == "one_rank") return [](int, int, int rank, int gradient) { return rank != 1 || gradient != 2; };
  if (lacking == "all_ranks") return [](int, int, int, int gradient) { return gradient != 2 && gradient != 5; };
  if (lacking == "everything") return [](int, int, int rank, int) { return rank != 1; };
  if (lacking == "in_turn")
    return [](int step, int, int rank, int gradient) { return (gradient + step + rank) % 3 != 0; };
  if (lacking == "last_pass") return [](int, int pass, int, int gradient) { return pass == 0 || gradient % 2 == 0; };
  return [](int, int, int, int) { return true; };
}

void unused(Context& context) {
  const std::string lacking = context.parameters().text("lacking");
  ReducerTraining training{.sizes = sizes_of_model("mlp"),
                           .made_in = made_in(context.parameters().text("memory")),
                           .passes = passes_named(lacking == "last_pass" ? "2" : "1"),
                           .produces = produced(lacking)};
  training.options.unused = Unused::find_unused;
  train_and_judge(context, training, "BUCKET-053");
}

void absent(Context& context) {
  ReducerTraining training{.sizes = sizes_of_model("mlp"),
                           .made_in = made_in(context.parameters().text("memory")),
                           .produces = produced(context.parameters().text("lacking"))};
  training.options.unused = Unused::find_unused;
  const Trained trained = train_with_reducer(context.world(), training);
  for (std::size_t step = 0; step < trained.size(); ++step)
    for (std::size_t i = 0; i < training.sizes.size(); ++i) {
      bool any = false;
      for (int rank = 0; rank < context.size(); ++rank)
        any = any || training.produces(static_cast<int>(step), 0, rank, static_cast<int>(i));
      EXPECT_EQ(!trained[step].gradients[i].empty(), any)
          << "BUCKET-054: step " << step << ", whether p" << i << " has one";
      if (step + 1 < trained.size() && !any) {
        EXPECT_EQ(trained[step + 1].before[i], trained[step].before[i]) << "BUCKET-054: step " << step << ", p" << i;
      }
    }
}

// The bits of everything that was used.
std::vector<float> all_gradients(const Trained& trained) {
  std::vector<float> all;
  for (const TrainedStep& step : trained)
    for (const auto& values : step.gradients) all.insert(all.end(), values.begin(), values.end());
  return all;
}
bool same_bits(const Trained& a, const Trained& b) {
  const std::vector<float> x = all_gradients(a), y = all_gradients(b);
  return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0;
}

void same_bits_again(Context& context) {
  ReducerTraining training{.sizes = sizes_of_model("mlp"), .passes = passes_named("2")};
  const Trained first = train_with_reducer(context.world(), training);
  const Trained again = train_with_reducer(context.world(), training);
  training.options.overlap = false;
  const Trained serial = train_with_reducer(context.world(), training);
  EXPECT_TRUE(same_bits(first, again)) << "BUCKET-055: the same run twice";
  EXPECT_TRUE(same_bits(first, serial)) << "BUCKET-055: with and without overlap";
}

void fused(Context& context) {
  ReducerTraining training{.sizes = sizes_of_model("mlp"), .made_in = made_in(context.parameters().text("memory"))};
  const Trained buckets = train_with_reducer(context.world(), training);
  training.limit_bytes = 0;
  const Trained alone = train_with_reducer(context.world(), training);
  training.limit_bytes = kFlat;
  const Trained flat = train_with_reducer(context.world(), training);
  EXPECT_TRUE(same_bits(buckets, alone)) << "BUCKET-056: in buckets and one by one";
  EXPECT_TRUE(same_bits(flat, alone)) << "BUCKET-056: all in one buffer and one by one";
}

void join(Context& context) {
  const bool uneven = context.parameters().text("rows") == "uneven";
  const bool present = context.parameters().text("divisor") == "present_ranks";
  ReducerTraining training{.sizes = sizes_of_model("mlp")};
  training.options.join = true;
  training.options.join_divisor =
      present ? bucketing::JoinDivisor::present_ranks : bucketing::JoinDivisor::initial_world;
  training.steps_of_rank = [uneven](int rank) { return uneven ? 4 + (rank * 2) % 3 : 4; };
  Nearness near = nearness_of(context.capabilities());
  near.bitwise = near.bitwise && !uneven;  // zeros are added, which keeps the value and not always the sign of zero
  const Trained trained = train_with_reducer(context.world(), training);
  judge_training(context, training, trained, near, "BUCKET-057");
}

suite::Axis memory(std::vector<std::string> values = {"views", "handed_in", "own"}) {
  return {"memory", std::move(values)};
}

}  // namespace

void add_reducer_training_checks(suite::Suite& suite) {
  suite.add({.id = "bucketing.reducer.single_device",
             .verifies = {"BUCKET-050@e3c3"},
             .axes = {{"model", {"mlp", "equal", "one", "aligned", "resnet50"}}, memory(), suite::worlds({1, 2, 3, 4})},
             .applies =
                 [](const suite::Parameters& parameters) {
                   if (parameters.text("model") == "mlp") return true;
                   return parameters.text("memory") != "handed_in" && parameters.world() % 2 == 1;
                 },
             .deadlock_prone = true,
             .body = single_device});
  suite.add({.id = "bucketing.reducer.accumulation",
             .verifies = {"BUCKET-051@5f22"},
             .axes = {{"passes", {"1", "2", "213"}}, memory(), suite::worlds({2, 3})},
             .deadlock_prone = true,
             .body = accumulation});
  suite.add({.id = "bucketing.reducer.rebuilt",
             .verifies = {"BUCKET-052@9590"},
             .axes = {{"order", {"same", "differs"}}, {"passes", {"1", "2", "213"}}, suite::worlds({2, 3})},
             .deadlock_prone = true,
             .body = rebuilt});
  const suite::Axis lacking{"lacking", {"nothing", "one_rank", "all_ranks", "everything", "in_turn", "last_pass"}};
  suite.add({.id = "bucketing.reducer.unused",
             .verifies = {"BUCKET-053@7320"},
             .axes = {lacking, memory(), suite::worlds({2, 3})},
             .deadlock_prone = true,
             .body = unused});
  suite.add(
      {.id = "bucketing.reducer.absent",
       .verifies = {"BUCKET-054@a2d4"},
       .axes = {{"lacking", {"one_rank", "all_ranks", "in_turn"}}, memory({"views", "own"}), suite::worlds({2, 3})},
       .body = absent});
  suite.add({.id = "bucketing.reducer.same_bits",
             .verifies = {"BUCKET-055@545f"},
             .axes = {suite::worlds({2, 3, 4})},
             .body = same_bits_again});
  suite.add({.id = "bucketing.reducer.fused",
             .verifies = {"BUCKET-056@5e34"},
             .axes = {memory({"views", "own"}), suite::worlds({2, 3, 4})},
             .body = fused});
  suite.add({.id = "bucketing.reducer.join",
             .verifies = {"BUCKET-057@f4cd"},
             .axes = {{"rows", {"even", "uneven"}},
                      {"divisor", {"initial_world", "present_ranks"}},
                      suite::worlds({2, 3, 4})},
             .deadlock_prone = true,
             .body = join});
}

void add_reducer_checks(suite::Suite& suite) {
  add_reducer_training_checks(suite);
  add_reducer_rule_checks(suite);
  add_reducer_memory_checks(suite);
  add_compression_checks(suite);
  add_sparse_checks(suite);
  add_reducer_refusal_checks(suite);
  add_tuning_checks(suite);
  add_plan_library_checks(suite);
  add_finding_checks(suite);
  add_reducer_model_checks(suite);
}

}  // namespace plumbline::conformance
