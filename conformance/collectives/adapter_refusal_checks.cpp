// What an adapter's ranks are refused. The rules stand in front of every backend in our own interface, so that no
// backend can break them; a program that brings an interface of its own can.
#include <map>

#include <fmt/format.h>

#include "conformance/collectives/collectives_checks.hpp"
#include "conformance/collectives/compare.hpp"
#include "conformance/collectives/trials.hpp"
#include "harness/suite/adapter_error.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using suite::Context;

namespace {

constexpr int kElements = 12;  // of a rank's memory
constexpr int kCount = 4;      // of the sound call's buffers

json window(int first, int count) { return {{"first", first}, {"count", count}}; }

json sound_call() {
  return {{"operation", "all_reduce"}, {"op", "sum"}, {"in", window(0, kCount)}, {"out", window(kCount, kCount)}};
}

// Other numbers at every place of every rank.
json memory_of(int ranks) {
  json memory(ranks, json::array());
  for (int rank = 0; rank < ranks; ++rank)
    for (int i = 0; i < kElements; ++i) memory[rank].push_back(1 + i + 20 * rank);
  return memory;
}

// What the sound call makes of that memory.
json memory_after(int ranks) {
  json memory = memory_of(ranks);
  for (int rank = 0; rank < ranks; ++rank)
    for (int i = 0; i < kCount; ++i) memory[rank][kCount + i] = ranks * (1 + i) + 10 * ranks * (ranks - 1);
  return memory;
}

void compare_refusals(const std::string& what, const json& got, const std::string& error, const json& memory) {
  const json errors(memory.size(), error.empty() ? json() : json(error));
  if (!got.is_object() || !got.contains("errors") || !got.contains("memory")) {
    report(fmt::format("{}: expected \"errors\" and \"memory\", got {}", what, got.dump().substr(0, 200)));
    return;
  }
  if (got["errors"] != errors)
    report(fmt::format("{}: expected the errors {}, got {}", what, errors.dump(), got["errors"].dump().substr(0, 200)));
  if (!got["memory"].is_array() || got["memory"].size() != memory.size())
    return report(fmt::format("{}: expected the memory of {} ranks, got {}", what, memory.size(),
                              got["memory"].dump().substr(0, 200)));
  for (std::size_t rank = 0; rank < memory.size(); ++rank)
    if (const std::string moved = first_difference(memory[rank], got["memory"][rank]); !moved.empty())
      report(fmt::format("{}: the memory of rank {}: {}", what, rank, moved));
}

// The call is refused on every rank with that error and moves nothing, and a sound one is made after it.
void expect_refused(Context& context, const std::string& dtype, const json& call, const std::string& error) {
  const int ranks = static_cast<int>(context.parameters().number("ranks"));
  json result;
  try {
    result = context.adapter().ask(
        "comm.calls",
        {{"world_size", ranks}, {"dtype", dtype}, {"memory", memory_of(ranks)}, {"calls", {call, sound_call()}}});
  } catch (const suite::AdapterError& failure) {
    return report(failure.what());
  }
  if (!result.is_object() || !result.contains("calls") || !result["calls"].is_array() || result["calls"].size() != 2)
    return report("expected an object with the two \"calls\", got " + result.dump().substr(0, 200));
  compare_refusals("the refused call", result["calls"][0], error, memory_of(ranks));
  compare_refusals("the sound call after it", result["calls"][1], "", memory_after(ranks));
}

void integer_average(Context& context) {
  const std::string& operation = context.parameters().text("operation");
  const int ranks = static_cast<int>(context.parameters().number("ranks"));
  json call = sound_call();
  call["operation"] = operation;
  call["op"] = "avg";
  if (operation == "reduce") call["root"] = 0;
  if (operation == "reduce_scatter") {
    call["in"] = window(0, 2 * ranks);
    call["out"] = window(2 * ranks, 2);
  }
  expect_refused(context, context.parameters().text("integers"), call, "unsupported");
}

// Each is the sound call with one thing wrong, or a call of another operation with one thing wrong.
json bad_call(const std::string& fault, int ranks) {
  json call = sound_call();
  const json broadcast{{"operation", "broadcast"}, {"out", window(0, kCount)}};
  const json message{{"operation", "send"}, {"root", 0}, {"in", window(0, kCount)}};
  const auto with = [](json changed, const char* field, const json& value) {
    changed[field] = value;
    return changed;
  };
  const std::map<std::string, json> calls{
      {"null_input", with(call, "in", {{"count", kCount}})},
      {"null_output", with(call, "out", {{"count", kCount}})},
      {"negative_count", with(with(call, "in", window(0, -1)), "out", window(kCount, -1))},
      {"fewer_out_than_in", with(call, "out", window(kCount, kCount - 1))},
      {"other_dtype_out", with(call, "out", {{"first", kCount}, {"count", kCount}, {"dtype", "int32"}})},
      {"overlap", with(call, "out", window(1, kCount))},
      {"no_multiple_of_the_members",
       {{"operation", "all_gather"}, {"in", window(0, 2)}, {"out", window(2, 2 * ranks + 1)}}},
      {"root_past_the_last", with(broadcast, "root", ranks)},
      {"negative_root", with(broadcast, "root", -1)},
      {"peer_past_the_last", with(message, "root", ranks)},
      {"negative_tag", with(message, "tag", -1)}};
  return calls.at(fault);
}

void bad_arguments(Context& context) {
  const int ranks = static_cast<int>(context.parameters().number("ranks"));
  expect_refused(context, "float32", bad_call(context.parameters().text("fault"), ranks), "invalid_argument");
}

std::vector<int> bad_list(const std::string& fault, int rank, int ranks) {
  if (fault == "rank_twice") return {rank, rank};
  if (fault == "rank_out_of_range") return {rank, ranks};
  if (fault == "negative_rank") return {-1, rank};
  if (fault == "without_the_caller") return {(rank + 1) % ranks};
  return {};  // "empty"
}

void bad_lists(Context& context) {
  const int ranks = static_cast<int>(context.parameters().number("ranks"));
  json call{{"operation", "create_group"}, {"ranks", json::array()}};
  for (int rank = 0; rank < ranks; ++rank)
    call["ranks"].push_back(bad_list(context.parameters().text("list"), rank, ranks));
  expect_refused(context, "float32", call, "invalid_argument");
}

suite::OptionValues of_type(const std::string& dtype) { return {{"comm.calls", {{"dtype", {dtype}}}}}; }

}  // namespace

void add_adapter_refusal_checks(suite::Suite& suite) {
  suite.add({.id = "collectives.adapter.integer_average",
             .verifies = {"COLL-012@ecb8"},
             .door = suite::Door::adapter,
             .axes = {{"operation", {"all_reduce", "reduce", "reduce_scatter"}},
                      {"integers", {"int32", "int64"}},
                      {"ranks", {"1", "3"}}},
             .operations = {"comm.calls"},
             .options = [](const suite::Parameters& parameters) { return of_type(parameters.text("integers")); },
             .body = integer_average});
  suite.add({.id = "collectives.adapter.bad_arguments",
             .verifies = {"COLL-028@0771"},
             .door = suite::Door::adapter,
             .axes = {{"fault",
                       {"null_input", "null_output", "negative_count", "fewer_out_than_in", "other_dtype_out",
                        "overlap", "no_multiple_of_the_members", "root_past_the_last", "negative_root",
                        "peer_past_the_last", "negative_tag"}},
                      {"ranks", {"1", "3"}}},
             .applies =
                 [](const suite::Parameters& parameters) {  // alone, every count is a multiple
                   return parameters.number("ranks") > 1 || parameters.text("fault") != "no_multiple_of_the_members";
                 },
             .operations = {"comm.calls"},
             .options = [](const suite::Parameters&) { return of_type("float32"); },
             .body = bad_arguments});
  suite.add({.id = "collectives.adapter.bad_lists",
             .verifies = {"COLL-036@9c7e"},
             .door = suite::Door::adapter,
             .axes = {{"list", {"empty", "rank_twice", "rank_out_of_range", "negative_rank", "without_the_caller"}},
                      {"ranks", {"1", "3"}}},
             .applies =
                 [](const suite::Parameters& parameters) {  // alone, the next rank is the caller
                   return parameters.number("ranks") > 1 || parameters.text("list") != "without_the_caller";
                 },
             .operations = {"comm.calls"},
             .options = [](const suite::Parameters&) { return of_type("float32"); },
             .body = bad_lists});
}

}  // namespace plumbline::conformance
