// Memory of devices: what is ordered by streams, what the host does not wait for, and what is refused. The other checks
// of the component run on a device as they are, staged (harness/device/staged.hpp); these use its memory themselves.
#include <algorithm>
#include <array>
#include <chrono>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "conformance/collectives/collectives_checks.hpp"
#include "conformance/collectives/device_exercise.hpp"
#include "conformance/collectives/trials.hpp"
#include "harness/suite/skipped.hpp"
#include "reference/comm/dtype.hpp"
#include "reference/comm/errors.hpp"
#include "reference/device/runtime.hpp"

namespace plumbline::conformance {

using comm::Call;
using comm::Communicator;
using comm::DType;
using comm::Operation;
using comm::ReduceOp;
using device::Memory;
using device::OwnEvent;
using device::OwnStream;
using suite::Context;
using suite::DeviceSeat;
using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

namespace {

constexpr auto kSlow = 30ms;  // of a producer that a call which does not wait for it overtakes

// The case's operation with data of its own for each member whose producer is slow.
Trial slow_trial(Context& context, int slow) {
  return {.operation = operation_of(context),
          .root = context.size() - 1,
          .elements = 1000,
          .seed = context.seed() + static_cast<std::uint64_t>(slow)};
}

// A member whose producer is slow, each in turn: the call starts when it has ended, and all consumers meet its result,
// in the order of their streams, without a wait of the host.
void stream_order(Context& context) {
  const DeviceSeat& seat = context.device_seat();
  Communicator& world = context.world();
  const OwnStream stream(seat.runtime, seat.device.index);
  const bool is_started = context.parameters().text("how") == "started";
  if (is_started) require_start(context, operation_of(context));
  world.use_stream(stream.get());
  for (int slow = 0; slow < world.size(); ++slow) {
    DeviceExercise exercise(seat, world, slow_trial(context, slow));
    if (world.rank() == slow) seat.runtime->pause(seat.device.index, kSlow, stream.get());
    exercise.produce(stream.get());
    if (is_started) {
      comm::Work work = exercise.start(world);
      work.wait();
    } else {
      exercise.run(world);
    }
    exercise.consume(stream.get());
    stream.synchronize();
    report(exercise.problem());
  }
}

// A started call, its producer slow: the stream that is the caller's at the last wait, whichever was at the start,
// meets the result.
void streams_of_waits(Context& context) {
  const DeviceSeat& seat = context.device_seat();
  const int device = seat.device.index;
  Communicator& world = context.world();
  const bool is_waited_for_twice = context.parameters().text("wait") == "second";
  require_start(context, operation_of(context));
  const OwnStream start(seat.runtime, device), first(seat.runtime, device), second(seat.runtime, device);
  for (int slow = 0; slow < world.size(); ++slow) {
    DeviceExercise exercise(seat, world, slow_trial(context, slow));
    world.use_stream(start.get());
    if (world.rank() == slow) seat.runtime->pause(device, kSlow, start.get());
    exercise.produce(start.get());
    comm::Work work = exercise.start(world);
    world.use_stream(first.get());
    work.wait();
    if (is_waited_for_twice) {
      world.use_stream(second.get());
      work.wait();
    }
    const OwnStream& last = is_waited_for_twice ? second : first;
    exercise.consume(last.get());
    last.synchronize();
    report(exercise.problem());
  }
}

// Whether the host came so far while the device was busy, in one of some attempts with ever slower producers, until all
// members did: on a busy machine it may be late by itself.
constexpr std::array kProducers{100ms, 800ms, 5000ms};

// Whether all members say yes. In the group's stream, which is given.
bool all_agree(const DeviceSeat& seat, Communicator& group, const OwnStream& stream, bool mine) {
  std::int32_t answer = mine ? 1 : 0;
  const Memory place(seat.runtime, seat.device.index, sizeof answer);
  const comm::Buffer buffer{place.data(), 1, DType::i32, seat.device};
  seat.runtime->copy(seat.device.index, place.data(), &answer, sizeof answer, stream.get());
  group.all_reduce(buffer, buffer, ReduceOp::min);
  seat.runtime->copy(seat.device.index, &answer, place.data(), sizeof answer, stream.get());
  stream.synchronize();
  return answer != 0;
}

void host_goes_on(Context& context) {
  const DeviceSeat& seat = context.device_seat();
  Communicator& world = context.world();
  const OwnStream stream(seat.runtime, seat.device.index), other(seat.runtime, seat.device.index);
  world.use_stream(stream.get());
  bool started = false, told_early = false, went_on = false;
  for (const auto producer : kProducers) {
    DeviceExercise exercise(seat, world, {.elements = 1000, .seed = context.seed()});
    DeviceExercise waited(seat, world, {.elements = 10, .seed = context.seed()});
    const OwnEvent produced(seat.runtime, seat.device.index);
    // The pause stands for a producer. It comes last: a copy from memory that is not pinned may let the host wait for
    // what is before.
    exercise.produce(stream.get());
    waited.produce(stream.get());
    seat.runtime->pause(seat.device.index, producer, stream.get());
    produced.record(stream.get());
    comm::Work work = exercise.start(world);
    started = started || !produced.is_reached();
    for (const bool is_waited_for : {false, true}) {
      if (is_waited_for) work.wait();
      const bool done = work.test();  // of a moment before the event is looked at
      told_early = told_early || (done && !produced.is_reached());
    }
    waited.run(world);
    went_on = went_on || !produced.is_reached();
    const auto end = Clock::now() + 60s;
    while (!work.test() && Clock::now() < end) std::this_thread::sleep_for(1ms);
    EXPECT_TRUE(work.test()) << "test() says after a minute that a call is not done";
    exercise.consume(other.get());  // not ordered with the call: the device is done
    waited.consume(stream.get());
    other.synchronize();
    stream.synchronize();
    report(exercise.problem());
    report(waited.problem());
    if (all_agree(seat, world, stream, started && went_on)) break;
  }
  EXPECT_TRUE(started) << "start() waited for the device";
  EXPECT_TRUE(went_on) << "wait() or run() waited for the device";
  EXPECT_FALSE(told_early) << "test() said that a call was done whose input was not there";
}

// A group whose stream is busy holds up no other's; and a result that the next call reads in another stream is waited
// for by an event.
void streams_apart(Context& context) {
  const DeviceSeat& seat = context.device_seat();
  const int device = seat.device.index;
  Communicator& busy = context.world();
  const auto free = busy.duplicate();
  const OwnStream slow(seat.runtime, device), fast(seat.runtime, device);
  busy.use_stream(slow.get());
  free->use_stream(fast.get());
  bool apart = false;
  for (const auto producer : kProducers) {
    DeviceExercise late(seat, busy, {.elements = 100, .seed = context.seed()});
    DeviceExercise soon(seat, *free, {.operation = Operation::all_gather, .elements = 70, .seed = context.seed()});
    const OwnEvent produced(seat.runtime, device);
    late.produce(slow.get());  // first, as in host_goes_on
    seat.runtime->pause(device, producer, slow.get());
    produced.record(slow.get());
    late.run(busy);
    soon.produce(fast.get());
    soon.run(*free);
    soon.consume(fast.get());
    fast.synchronize();
    apart = apart || !produced.is_reached();
    report(soon.problem());
    const OwnEvent reduced(seat.runtime, device);
    reduced.record(slow.get());
    seat.runtime->wait(device, fast.get(), reduced.get());
    late.consume(fast.get());
    fast.synchronize();
    report(late.problem());
    if (all_agree(seat, *free, fast, apart)) break;
  }
  EXPECT_TRUE(apart) << "a group's call waited for the stream of another group";
}

// Calls on the same buffers, a member's next input put into its stream after each. The host waits for none of them.
void device_back_to_back(Context& context) {
  constexpr std::size_t kCalls = 64;
  const DeviceSeat& seat = context.device_seat();
  const int device = seat.device.index;
  Communicator& world = context.world();
  const OwnStream stream(seat.runtime, device);
  world.use_stream(stream.get());
  const auto copy = [&](void* to, const void* from, std::size_t bytes) {
    if (bytes > 0) seat.runtime->copy(device, to, from, bytes, stream.get());
  };
  const bool starts = context.capabilities().has(comm::Capability::nonblocking);
  for (const std::int64_t elements : {5, 3000}) {
    std::vector<Exercise> exercises;
    for (std::size_t call = 0; call < kCalls; ++call)
      exercises.emplace_back(world, Trial{.operation = operation_of(context),
                                          .root = world.size() - 1,
                                          .elements = elements,
                                          .seed = context.seed() + call});
    std::size_t in_bytes = 0, out_bytes = 0;
    for (const Call& call : exercises.front().calls()) {
      in_bytes = std::max(in_bytes, call.in.bytes());
      out_bytes = std::max(out_bytes, call.out.bytes());
    }
    const Memory in(seat.runtime, device, in_bytes), out(seat.runtime, device, out_bytes);
    for (std::size_t turn = 0; turn < kCalls; ++turn) {
      const std::vector<Call>& on_host = exercises[turn].calls();
      std::vector<Call> there = on_host;
      for (Call& call : there) {
        copy(in.data(), call.in.data, call.in.bytes());
        copy(out.data(), call.out.data, call.out.bytes());
        call.in = {in.data(), call.in.count, call.in.dtype, seat.device};
        call.out = {out.data(), call.out.count, call.out.dtype, seat.device};
      }
      complete(world, there, turn % 2 == 0 || !starts ? Way::block : Way::wait);
      for (const Call& call : on_host) copy(call.out.data, out.data(), call.out.bytes());
    }
    stream.synchronize();
    for (std::size_t turn = 0; turn < kCalls; ++turn)
      if (const std::string problem = exercises[turn].problem(); !problem.empty())
        report(fmt::format("call {} on the same buffers: {}", turn, problem));
    world.barrier();  // the buffers live until all have their result
  }
}

// Lengths and starts around vectors and blocks of kernels, in place and not.
void odd_lengths(Context& context) {
  const DeviceSeat& seat = context.device_seat();
  Communicator& world = context.world();
  const DType dtype = context.parameters().dtype();
  const OwnStream stream(seat.runtime, seat.device.index);
  world.use_stream(stream.get());
  const auto expect = [&](Trial trial) {
    trial.dtype = dtype;
    trial.root = world.size() - 1;
    trial.seed = context.seed();
    DeviceExercise exercise(seat, world, trial);
    exercise.produce(stream.get());
    exercise.run(world);
    exercise.consume(stream.get());
    stream.synchronize();
    report(exercise.problem());
  };
  const auto block = static_cast<std::int64_t>(16384 / size_of(dtype));
  for (const Operation operation : exercised_operations(context.world()))
    for (const std::int64_t elements : {std::int64_t{1}, std::int64_t{7}, std::int64_t{33}, block + 3})
      for (const std::int64_t offset : {0, 1, 3}) {
        expect({.operation = operation, .elements = elements, .in_offset = offset, .out_offset = offset});
        expect({.operation = operation, .elements = elements, .in_offset = offset, .out_offset = 2});
        expect({.operation = operation, .elements = elements, .in_place = true, .out_offset = offset});
      }
  for (const ReduceOp op : ops_on(dtype))
    expect({.op = op, .elements = 2 * block + 5, .in_offset = 1, .out_offset = 1});
}

template <class Half>
void expect_sum_of_ones(Context& context, float large, Half (*narrow)(float)) {
  const DeviceSeat& seat = context.device_seat();
  Communicator& world = context.world();
  constexpr std::int64_t count = 37;
  const std::vector<Half> given(count, narrow(world.rank() == 0 ? large : 1));
  const Half expected = narrow(large + static_cast<float>(world.size() - 1));
  const OwnStream stream(seat.runtime, seat.device.index);
  world.use_stream(stream.get());
  const Memory in(seat.runtime, seat.device.index, count * 2), out(seat.runtime, seat.device.index, count * 2);
  std::vector<Half> sums(count);
  seat.runtime->copy(seat.device.index, in.data(), given.data(), count * 2, stream.get());
  const DType dtype = context.parameters().dtype();
  world.all_reduce({in.data(), count, dtype, seat.device}, {out.data(), count, dtype, seat.device}, ReduceOp::sum);
  seat.runtime->copy(seat.device.index, sums.data(), out.data(), count * 2, stream.get());
  stream.synchronize();
  for (std::int64_t i = 0; i < count; ++i)
    ASSERT_EQ(to_float(sums[static_cast<std::size_t>(i)]), to_float(expected)) << "element " << i;
}

// 2048 + 1 is 2048 in f16, and 256 + 1 is 256 in bf16: who rounds after each addition never gets further.
void half_accumulation(Context& context) {
  if (context.capabilities().rounds_each_half_addition)
    throw suite::Skipped{"the subject claims no more than to round after each addition of two halves"};
  if (context.parameters().dtype() == DType::f16)
    expect_sum_of_ones<comm::Float16>(context, 2048, comm::to_float16);
  else
    expect_sum_of_ones<comm::BFloat16>(context, 256, comm::to_bfloat16);
}

struct Misplaced {
  std::string what;
  comm::ConstBuffer in;
  comm::Buffer out;
  std::vector<std::string> words;
};

std::vector<Misplaced> misplaced(const DeviceSeat& seat, const Memory& memory, std::vector<float>& host) {
  const comm::Device here = seat.device, cpu{};
  const comm::Device nowhere{here.kind, static_cast<std::int16_t>(seat.runtime->count())};
  auto* const data = memory.data();
  const std::string name = comm::name_of(here);
  std::vector<Misplaced> list{{"the host's memory as the device's",
                               {host.data(), 4, DType::f32, here},
                               {data, 4, DType::f32, here},
                               {"in", name, "host"}},
                              {"the host's memory as the device's output",
                               {data, 4, DType::f32, here},
                               {host.data(), 4, DType::f32, here},
                               {"out", name, "host"}},
                              {"a device that there is not",
                               {data, 4, DType::f32, nowhere},
                               {data + 64, 4, DType::f32, nowhere},
                               {comm::name_of(nowhere)}},
                              {"a device and the host in one call",
                               {data, 4, DType::f32, here},
                               {host.data(), 4, DType::f32, cpu},
                               {name, "cpu"}},
                              {"an address between elements",
                               {data + 1, 4, DType::f32, here},
                               {data + 64, 4, DType::f32, here},
                               {"in", "4 bytes", "f32"}}};
  if (seat.runtime->count() > 1) {
    const comm::Device other{here.kind, static_cast<std::int16_t>((here.index + 1) % seat.runtime->count())};
    list.push_back({"another device's memory",
                    {data, 4, DType::f32, other},
                    {data + 64, 4, DType::f32, other},
                    {comm::name_of(other), name}});
  }
  return list;
}

void refuses_misplaced(Context& context) {
  const DeviceSeat& seat = context.device_seat();
  Communicator& world = context.world();
  const Memory memory(seat.runtime, seat.device.index, 256);
  std::vector<float> host(16, 1);
  for (const Misplaced& one : misplaced(seat, memory, host)) {
    const Call call{.operation = Operation::all_reduce, .in = one.in, .out = one.out};
    for (const bool start : {false, true}) {
      if (start && !context.capabilities().has(comm::Capability::nonblocking)) continue;
      const std::string words = words_of<InvalidArgument>(
          [&] {
            if (start)
              (void)world.start(call);
            else
              world.run(call);
          },
          one.what);
      for (const std::string& word : one.words)
        EXPECT_NE(words.find(word), std::string::npos) << one.what << ": no '" << word << "' in: " << words;
      EXPECT_EQ(words.find('\n'), std::string::npos) << words;
    }
  }
  const OwnStream stream(seat.runtime, seat.device.index);
  world.use_stream(stream.get());
  DeviceExercise exercise(seat, world, {.elements = 5});
  exercise.produce(stream.get());
  exercise.run(world);
  exercise.consume(stream.get());
  stream.synchronize();
  report(exercise.problem());
}

// One member gives the host's memory, the others a device's. Of a backend that knows both.
void mixed_members(Context& context) {
  const DeviceSeat& seat = context.device_seat();
  const auto victim = context.world().duplicate();
  const Memory memory(seat.runtime, seat.device.index, 64);
  std::vector<float> host(5, 1);
  const bool deviates = context.rank() == context.size() - 1;
  const comm::Buffer buffer{deviates ? static_cast<void*>(host.data()) : memory.data(), 5, DType::f32,
                            deviates ? comm::Device{} : seat.device};
  const std::string words = words_of<comm::MismatchError>(
      [&] { victim->all_reduce(buffer, buffer, ReduceOp::sum, 30s); }, "members that mix kinds of memory");
  for (const char* word : {"host", "device"})
    EXPECT_NE(words.find(word), std::string::npos) << "no '" << word << "' in: " << words;
  context.world().barrier();
}

// More than there is, and then what there is room for.
void out_of_memory(Context& context) {
  const DeviceSeat& seat = context.device_seat();
  const std::uint64_t all = seat.runtime->describe(seat.device.index).memory_bytes;
  const std::string words = words_of<OutOfMemory>([&] { (void)Memory(seat.runtime, seat.device.index, 2 * all); },
                                                  "twice the device's memory");
  for (const std::string& figure : {std::to_string(2 * all), std::to_string(all), comm::name_of(seat.device)})
    EXPECT_NE(words.find(figure), std::string::npos) << "no " << figure << " in: " << words;
  const Memory some(seat.runtime, seat.device.index, 1000);
  EXPECT_EQ(seat.runtime->holder_of(some.data()), seat.device.index);
}

}  // namespace

void add_device_checks(suite::Suite& suite) {
  suite.add({.id = "collectives.device.stream_order",
             .verifies = {"DEVICE-001@f420", "DEVICE-002@5aa5"},
             .axes = {operations_axis(exercised_operations()), {"how", {"run", "started"}}, suite::worlds({1, 2, 3})},
             .on_device = true,
             .body = stream_order});
  suite.add({.id = "collectives.device.streams_of_waits",
             .verifies = {"DEVICE-050@fdc5"},
             .axes = {operations_axis(exercised_operations()), {"wait", {"first", "second"}}, suite::worlds({1, 2, 3})},
             .on_device = true,
             .body = streams_of_waits});
  suite.add({.id = "collectives.device.host_goes_on",
             .verifies = {"DEVICE-003@d4e3"},
             .axes = {suite::worlds({1, 2, 3})},
             .needs = {comm::Capability::nonblocking},
             .limit = 90s,
             .on_device = true,
             .body = host_goes_on});
  suite.add({.id = "collectives.device.streams_apart",
             .verifies = {"DEVICE-004@0106"},
             .axes = {suite::worlds({1, 2, 3})},
             .on_device = true,
             .body = streams_apart});
  suite.add({.id = "collectives.device.back_to_back",
             .verifies = {"DEVICE-051@3902"},
             .axes = {operations_axis(exercised_operations()), suite::worlds({1, 2, 3})},
             .on_device = true,
             .body = device_back_to_back});
  suite.add({.id = "collectives.device.odd_lengths",
             .verifies = {"DEVICE-005@6d78"},
             .axes = {suite::dtypes(), suite::worlds({1, 2, 3})},
             .limit = 60s,
             .on_device = true,
             .body = odd_lengths});
  suite.add({.id = "collectives.device.half_accumulation",
             .verifies = {"DEVICE-006@07da"},
             .axes = {suite::half_dtypes(), suite::worlds({2, 3, 5})},
             .on_device = true,
             .body = half_accumulation});
  suite.add({.id = "collectives.device.refuses_misplaced",
             .verifies = {"DEVICE-007@6749"},
             .axes = {suite::worlds({1, 2, 3})},
             .on_device = true,
             .body = refuses_misplaced});
  suite.add({.id = "collectives.device.mixed_members",
             .verifies = {"DEVICE-008@1f88"},
             .axes = {suite::worlds({2, 3})},
             .limit = 60s,
             .on_device = true,
             .beside_host = true,
             .spoils_group = true,
             .body = mixed_members});
  suite.add({.id = "collectives.device.out_of_memory",
             .verifies = {"DEVICE-009@46a4"},
             .axes = {suite::worlds({1, 3})},
             .on_device = true,
             .body = out_of_memory});
}

}  // namespace plumbline::conformance
