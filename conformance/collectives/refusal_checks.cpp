// What must be refused, and that nothing happened then; and that what is claimed is not refused.
#include <fmt/format.h>

#include "conformance/collectives/collectives_checks.hpp"
#include "conformance/collectives/trials.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::conformance {

using comm::Call;
using comm::DType;
using comm::Operation;
using suite::Context;

namespace {

struct BadCall {
  std::string what;
  Call call;
};

// A sound call of each operation, for the wrong ones to differ from in one thing.
Call sound(const Exercise& exercise) { return exercise.calls().front(); }

// Calls with something wrong that every member can see by itself. `rank` is both root and caller.
std::vector<BadCall> bad_calls(const Exercise& all_reduce, const Exercise& all_gather, const Exercise& broadcast,
                               int rank, int ranks) {
  std::vector<BadCall> list;
  const auto add = [&](const std::string& what, Call call, auto&& change) {
    change(call);
    list.push_back({what, call});
  };
  const Call reduction = sound(all_reduce);
  add("a null input with a count", reduction, [](Call& call) { call.in.data = nullptr; });
  add("a null output with a count", reduction, [](Call& call) { call.out.data = nullptr; });
  add("a negative count", reduction, [](Call& call) { call.in.count = call.out.count = -1; });
  add("fewer elements out than in", reduction, [](Call& call) { --call.out.count; });
  add("another dtype out than in", reduction,
      [](Call& call) { call.out.dtype = call.in.dtype == DType::f32 ? DType::i32 : DType::f32; });
  add("an overlap that is no in-place form", reduction, [](Call& call) {
    call.in = {static_cast<std::byte*>(call.out.data) + size_of(call.out.dtype), call.out.count - 1, call.out.dtype};
    --call.out.count;
  });
  add("an output that is no multiple of the input", sound(all_gather), [](Call& call) { ++call.out.count; });
  add("a root past the last member", sound(broadcast), [ranks](Call& call) { call.root = ranks; });
  add("a negative root", sound(broadcast), [](Call& call) { call.root = -1; });
  const Call message{.operation = Operation::send, .root = rank, .in = reduction.in};
  add("a peer past the last member", message, [ranks](Call& call) { call.root = ranks; });
  add("a negative tag", message, [](Call& call) { call.tag = -1; });
  if (ranks > 1)
    add("an input that is no multiple of the members", reduction, [ranks](Call& call) {
      call.operation = Operation::all_to_all;
      call.in.count = call.out.count = ranks + 1;
    });
  return list;
}

// A property of the interface: Communicator refuses before a backend is called, so this fails for no backend alone; see
// adapter_refusal_checks.cpp for interfaces of others. A batch with one bad call is refused as a whole.
void arguments_refused(Context& context) {
  comm::Communicator& world = context.world();
  const Exercise all_reduce(world, {.operation = Operation::all_reduce, .elements = 9});
  const Exercise all_gather(world, {.operation = Operation::all_gather, .elements = 9});
  const Exercise broadcast(world, {.operation = Operation::broadcast, .root = world.rank(), .elements = 9});
  for (const BadCall& bad : bad_calls(all_reduce, all_gather, broadcast, world.rank(), world.size())) {
    words_of<InvalidArgument>([&] { world.run(bad.call); }, bad.what);
    words_of<InvalidArgument>([&] { (void)world.start(bad.call); }, bad.what + ", started");
    const Call batch[] = {sound(all_reduce), bad.call};
    words_of<InvalidArgument>([&] { (void)world.start(batch); }, bad.what + ", after a sound call");
    expect_usable_beside(world, [&] { (void)world.start(batch); });
    for (const Exercise* exercise : {&all_reduce, &all_gather, &broadcast}) {
      const std::string touched = exercise->touched();
      if (!touched.empty()) report(bad.what + ": " + touched);
    }
  }
}

void refuses_the_rest(Context& context) {
  comm::Communicator& world = context.world();
  for (const Operation operation : exercised_operations()) {
    const auto refused = [&](const std::string& what, DType dtype, comm::Device device) {
      const Exercise exercise(world, {.operation = operation, .dtype = dtype, .elements = 9});
      std::vector<Call> calls = exercise.calls();
      for (Call& call : calls) call.in.device = call.out.device = device;
      words_of<Unsupported>([&] { world.run(calls.front()); }, fmt::format("{} on {}", name_of(operation), what));
      const std::string touched = exercise.touched();
      if (!touched.empty()) report(what + ": " + touched);
    };
    for (const auto dtypes : {std::span<const DType>(comm::kAllDTypes), {comm::kOptionalDTypes}})
      for (const DType dtype : dtypes)
        if (!context.capabilities().supports(dtype)) refused(std::string(name_of(dtype)), dtype, {});
    const auto& devices = context.capabilities().devices;
    if (std::ranges::count(devices, comm::Device::Kind::cuda) == 0)
      refused("CUDA memory", some_dtype(context.capabilities()), {comm::Device::Kind::cuda, 0});
  }
  expect_usable(world);
}

void claims_hold(Context& context) {
  comm::Communicator& world = context.world();
  for (const DType dtype : claimed(context.capabilities()))
    for (const Operation operation : exercised_operations(context.world())) {
      const Exercise exercise(world, {.operation = operation, .dtype = dtype, .elements = 33, .seed = context.seed()});
      try {
        exercise.run(world);
        report(exercise.problem());
      } catch (const Unsupported& error) {
        report(fmt::format("claimed, but refused: {}", error.what()));
      }
    }
}

}  // namespace

void add_refusal_checks(suite::Suite& suite) {
  suite.add({.id = "collectives.arguments.refused",
             .verifies = {"COLL-028@0771"},
             .axes = {suite::worlds({1, 2, 3})},
             .body = arguments_refused});
  suite.add({.id = "collectives.capabilities.refuses_the_rest",
             .verifies = {"COLL-029@ba7b"},
             .axes = {suite::worlds({1, 3})},
             .body = refuses_the_rest});
  suite.add({.id = "collectives.capabilities.claims_hold",
             .verifies = {"COLL-030@a4f9"},
             .axes = {suite::worlds({2, 3, 6})},
             .body = claims_hold});
}

}  // namespace plumbline::conformance
