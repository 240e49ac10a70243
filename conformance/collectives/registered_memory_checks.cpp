// Memory that is registered with a group before calls use it, and memory that the backend gives out.
#include <algorithm>
#include <array>
#include <cerrno>
#include <complex>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <sys/mman.h>

#include "conformance/collectives/collectives_checks.hpp"
#include "conformance/collectives/trials.hpp"
#include "conformance/support/holdings.hpp"
#include "harness/suite/machine_error.hpp"
#include "harness/suite/skipped.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::conformance {

using comm::Communicator;
using comm::Operation;
using comm::Registration;
using suite::Context;

namespace {

// Pages of this process' own, at an address that stays.
class Pages {
 public:
  explicit Pages(std::size_t bytes) : memory_(map(nullptr, bytes), bytes) {}
  ~Pages() { munmap(memory_.data(), memory_.size()); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  [[nodiscard]] std::span<std::byte> memory() const { return memory_; }
  /// Other pages at the same address, as an allocator gives them out again.
  void replace() { (void)map(memory_.data(), memory_.size()); }

 private:
  static std::byte* map(std::byte* at, std::size_t bytes) {
    const int fixed = at == nullptr ? 0 : MAP_FIXED;
    void* const made = mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);
    if (made == MAP_FAILED)
      throw suite::MachineFailure(fmt::format("mmap of {} bytes: {}", bytes, std::strerror(errno)));
    return static_cast<std::byte*>(made);
  }
  std::span<std::byte> memory_;
};

// Gives the memory out piece by piece, each beginning at an odd distance from the beginning of all.
Room pieces_of(std::span<std::byte> memory) {
  return [memory, used = std::size_t{0}](std::size_t bytes) mutable {
    constexpr std::size_t kApart = 1001;
    if (used + kApart + bytes > memory.size()) throw StateError("the exercises do not fit into their memory");
    const auto piece = memory.subspan(used + kApart, bytes);
    used += kApart + bytes;
    return piece;
  };
}

comm::Buffer buffer_of(std::span<std::byte> memory) { return {memory.data(), std::ssize(memory), comm::DType::u8}; }

constexpr std::size_t kRoom = std::size_t{1} << 20;

// Calls of that operation whose buffers lie in the memory, by each way, also in place.
void expect_results_in(Context& context, Operation operation, std::span<std::byte> memory, std::uint64_t seed) {
  const Room room = pieces_of(memory);
  const int root = context.size() - 1;
  for (const bool in_place : {false, true})
    for (const std::int64_t elements : {1, 17, 3000})
      for (const Way way : ways(context.capabilities())) {
        const Exercise exercise(context.world(),
                                {.operation = operation,
                                 .root = root,
                                 .elements = elements,
                                 .in_place = in_place,
                                 .out_offset = elements % 3,
                                 .seed = ++seed},
                                room);
        complete(context.world(), exercise.calls(), way);
        report(exercise.problem());
      }
}

// A sum and a copy of all members.
void expect_usual_results_in(Context& context, std::span<std::byte> memory, std::uint64_t seed) {
  const Room room = pieces_of(memory);
  for (const Operation operation : {Operation::all_reduce, Operation::all_gather})
    for (const std::int64_t elements : {5, 3000}) {
      const Exercise exercise(context.world(), {.operation = operation, .elements = elements, .seed = ++seed}, room);
      exercise.run(context.world());
      report(exercise.problem());
    }
}

// ---- registered memory ----

void parts_of_a_registration(Context& context) {
  const Pages pages(kRoom);
  const Registration registration = context.world().register_memory(buffer_of(pages.memory()));
  expect_results_in(context, operation_of(context), pages.memory(), context.seed());
  context.world().deregister(registration);
}

// Each number of members has registered its memory: the first ones, then the last ones.
void some_members_register(Context& context) {
  const Operation operation = operation_of(context);
  const int ranks = context.size();
  for (int registering = 1; registering < ranks; ++registering)
    for (const bool first : {true, false}) {
      const Pages pages(kRoom);
      const int from = first ? 0 : ranks - registering;
      const bool registers = context.rank() >= from && context.rank() < from + registering;
      const Registration registration =
          registers ? context.world().register_memory(buffer_of(pages.memory())) : Registration{};
      expect_results_in(context, operation, pages.memory(),
                        context.seed() + 1000 * static_cast<std::uint64_t>(registering));
      if (registers) context.world().deregister(registration);
    }
}

// Input and output in registrations of their own, and one of the two in none.
void buffers_apart(Context& context) {
  const Pages inputs(kRoom), outputs(kRoom);
  Communicator& world = context.world();
  std::uint64_t seed = context.seed();
  for (const bool registers_inputs : {true, false})
    for (const bool registers_outputs : {true, false}) {
      Registration of_inputs = 0, of_outputs = 0;
      if (registers_inputs) of_inputs = world.register_memory(buffer_of(inputs.memory()));
      if (registers_outputs) of_outputs = world.register_memory(buffer_of(outputs.memory()));
      // An exercise takes room for its input first.
      const Room rooms[] = {pieces_of(inputs.memory()), pieces_of(outputs.memory())};
      const Room room = [&, next = 0](std::size_t bytes) mutable { return rooms[next++ % 2](bytes); };
      for (const std::int64_t elements : {5, 3000}) {
        const Exercise exercise(world, {.operation = operation_of(context), .elements = elements, .seed = ++seed},
                                room);
        exercise.run(world);
        report(exercise.problem());
      }
      if (registers_inputs) world.deregister(of_inputs);
      if (registers_outputs) world.deregister(of_outputs);
    }
}

// What was registered is used again, replaced by other pages, and registered again.
void ends(Context& context) {
  Communicator& world = context.world();
  std::uint64_t seed = context.seed();
  Pages pages(kRoom);
  for (int round = 0; round < 3; ++round) {
    const Registration registration = world.register_memory(buffer_of(pages.memory()));
    expect_usual_results_in(context, pages.memory(), seed += 10);
    world.deregister(registration);
    expect_usual_results_in(context, pages.memory(), seed += 10);
    pages.replace();
    expect_usual_results_in(context, pages.memory(), seed += 10);
    world.barrier();  // all members' memory is their own again
    if (round == 1) pages.replace();
  }
}

// The same memory, a part of it and all of it again: each registration ends by itself.
void each_ends_by_itself(Context& context) {
  Communicator& world = context.world();
  std::uint64_t seed = context.seed();
  const Pages pages(kRoom);
  const auto all = pages.memory(), part = all.subspan(4096, kRoom / 2);
  std::vector<Registration> live{world.register_memory(buffer_of(all)), world.register_memory(buffer_of(part)),
                                 world.register_memory(buffer_of(all))};
  for (const Registration one : live)
    if (std::ranges::count(live, one) != 1) report(fmt::format("two registrations are both {}", one));
  while (!live.empty()) {
    expect_usual_results_in(context, all, seed += 10);
    expect_usual_results_in(context, part, seed += 10);
    world.deregister(live.front());
    live.erase(live.begin());
  }
  expect_usual_results_in(context, all, seed += 10);
}

// A registration that has ended, one that never was, and one of another communicator.
void rejects_what_is_none(Context& context) {
  Communicator& world = context.world();
  const auto other = world.duplicate();
  const Pages pages(kRoom);
  const Registration ended = world.register_memory(buffer_of(pages.memory()));
  world.deregister(ended);
  const Registration live = world.register_memory(buffer_of(pages.memory()));
  const Registration of_other = other->register_memory(buffer_of(pages.memory()));
  const std::pair<const char*, Registration> none[] = {
      {"one that has ended", ended}, {"0", 0}, {"one of another communicator", of_other}};
  for (const auto& [what, registration] : none) {
    if (registration == live) continue;  // a backend may use a number again
    words_of<InvalidArgument>([&] { world.deregister(registration); }, fmt::format("deregister of {}", what));
    expect_usual_results_in(context, pages.memory(), context.seed());
  }
  world.deregister(live);
  other->deregister(of_other);
  words_of<InvalidArgument>([&] { world.deregister(live); }, "a second deregister");
  words_of<InvalidArgument>([&] { (void)world.register_memory({nullptr, 1, comm::DType::u8}); },
                            "register_memory of a null pointer");
  expect_usable(world);
}

// ---- memory of the backend's own ----

void allocated_memory(Context& context) {
  Communicator& world = context.world();
  std::vector<std::span<std::byte>> all;
  for (const std::size_t bytes : {kRoom, std::size_t{1}, kRoom, std::size_t{100}}) {
    auto* const memory = static_cast<std::byte*>(world.allocate(bytes));
    if (memory == nullptr) return report(fmt::format("allocate({}) returned a null pointer", bytes));
    if (reinterpret_cast<std::uintptr_t>(memory) % sizeof(std::complex<double>) != 0)
      report(fmt::format("allocate({}) returned {}, which is not aligned for c128", bytes, static_cast<void*>(memory)));
    for (const auto other : all)
      if (memory < other.data() + other.size() && other.data() < memory + bytes)
        report(fmt::format("allocate({}) returned memory that lies in another piece", bytes));
    all.emplace_back(memory, bytes);
  }
  expect_results_in(context, operation_of(context), all[0], context.seed());
  for (const auto piece : {all[0], all[1], all[3]}) world.deallocate(piece.data());
  expect_results_in(context, operation_of(context), all[2], context.seed() + 100);
  world.deallocate(all[2].data());
}

// ---- memory that comes and goes ----

constexpr int kRounds = 48;
constexpr std::int64_t kLargest = kRounds * static_cast<std::int64_t>(kRoom) / 4;

// The first rounds fill what an allocator or a runtime keeps for later.
void expect_no_growth(Context& context, const std::string& what, const std::function<void()>& round) {
  if (!figures_of_memory_tell()) throw suite::Skipped{"a sanitizer's allocator keeps no figures of what is allocated"};
  for (int i = 0; i < 4; ++i) round();
  const Holdings before = holdings_at_rest(context.world());
  for (int i = 0; i < kRounds; ++i) round();
  const Holdings after = holdings_at_rest(context.world());
  if (const std::int64_t grown = after.resident - before.resident; grown >= kLargest)
    report(fmt::format("{} rounds of {} of {} bytes left {} bytes resident", kRounds, what, kRoom, grown));
  if (const std::int64_t grown = after.descriptors - before.descriptors; grown >= kRounds)
    report(fmt::format("{} rounds of {} left {} file descriptors", kRounds, what, grown));
}

void registrations_do_not_grow(Context& context) {
  std::uint64_t seed = context.seed();
  Pages pages(kRoom);
  expect_no_growth(context, "register_memory and deregister", [&] {
    const Registration registration = context.world().register_memory(buffer_of(pages.memory()));
    std::memset(pages.memory().data(), 1, kRoom);
    expect_usual_results_in(context, pages.memory(), seed += 10);
    context.world().deregister(registration);
    pages.replace();
  });
}

void allocations_do_not_grow(Context& context) {
  std::uint64_t seed = context.seed();
  expect_no_growth(context, "allocate and deallocate", [&] {
    const std::span memory(static_cast<std::byte*>(context.world().allocate(kRoom)), kRoom);
    std::memset(memory.data(), 1, kRoom);
    expect_usual_results_in(context, memory, seed += 10);
    context.world().deallocate(memory.data());
  });
}

}  // namespace

void add_registered_memory_checks(suite::Suite& suite) {
  const suite::Axis operations = operations_axis(exercised_operations());
  const suite::Axis some = operations_axis(std::array{Operation::all_reduce, Operation::all_to_all});
  suite.add({.id = "collectives.registered.parts",
             .verifies = {"COLL-140@6a7e"},
             .axes = {operations, suite::worlds({3})},
             .body = parts_of_a_registration});
  suite.add({.id = "collectives.registered.some_members",
             .verifies = {"COLL-141@7e82"},
             .axes = {operations, suite::worlds({3})},
             .body = some_members_register});
  suite.add({.id = "collectives.registered.buffers_apart",
             .verifies = {"COLL-141@7e82"},
             .axes = {some, suite::worlds({3})},
             .body = buffers_apart});
  suite.add(
      {.id = "collectives.registered.ends", .verifies = {"COLL-142@24e8"}, .axes = {suite::worlds({3})}, .body = ends});
  suite.add({.id = "collectives.registered.each_ends_by_itself",
             .verifies = {"COLL-143@2bd9"},
             .axes = {suite::worlds({3})},
             .body = each_ends_by_itself});
  suite.add({.id = "collectives.registered.rejects_what_is_none",
             .verifies = {"COLL-144@2629"},
             .axes = {suite::worlds({1, 3})},
             .body = rejects_what_is_none});
  suite.add({.id = "collectives.registered.does_not_grow",
             .verifies = {"COLL-145@1697"},
             .axes = {suite::worlds({2, 3})},
             .body = registrations_do_not_grow});
  suite.add({.id = "collectives.allocated.results",
             .verifies = {"COLL-146@2c7e"},
             .axes = {operations, suite::worlds({3})},
             .body = allocated_memory});
  suite.add({.id = "collectives.allocated.does_not_grow",
             .verifies = {"COLL-147@649b"},
             .axes = {suite::worlds({3})},
             .body = allocations_do_not_grow});
}

}  // namespace plumbline::conformance
