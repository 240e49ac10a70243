// What a pipeline's messages carry: lists of tensors whose dtypes and shapes are told, promised, or change; in pieces,
// over one group or two; and their memory.
#include <algorithm>
#include <array>
#include <map>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "conformance/schedules/plans.hpp"
#include "conformance/schedules/schedules_checks.hpp"
#include "reference/schedules/executor.hpp"
#include "reference/schedules/generate.hpp"
#include "reference/schedules/lowering.hpp"

namespace plumbline::conformance {

using comm::DType;
using schedules::Action;
using schedules::ActionKind;
using schedules::DescriptionExchange;
using schedules::Metadata;
using schedules::Schedule;
using schedules::TensorDescription;
using schedules::TensorDescriptions;
using suite::Context;

namespace {

constexpr std::byte kNotThereYet{0xa5}, kGivenBack{0x5a};

/// What a stage's output is, for a micro-batch.
using Payload = std::function<TensorDescriptions(int stage, int micro_batch)>;
using Bytes = std::vector<std::byte>;

bool is_gradient(const Action& message) {
  return message.kind == ActionKind::send_backward || message.kind == ActionKind::recv_backward;
}
bool is_told(const Action& message) {
  return message.kind == ActionKind::send_metadata || message.kind == ActionKind::recv_metadata;
}
// The stage whose output the message is, is the gradient of, or tells of.
int boundary_of(const Action& message) {
  const bool after = message.kind == ActionKind::send_forward || message.kind == ActionKind::send_metadata ||
                     message.kind == ActionKind::recv_backward;
  return after ? message.stage : message.stage - 1;
}
std::size_t bytes_of(const TensorDescription& tensor) {
  return static_cast<std::size_t>(schedules::elements_of(tensor)) * size_of(tensor.dtype);
}

/// The contents of one tensor of one message: each byte of a schedule is another function of where it is.
Bytes contents(const Action& message, std::size_t tensor, std::size_t size) {
  const std::uint64_t where = (static_cast<std::uint64_t>(boundary_of(message)) * 64 +
                               static_cast<std::uint64_t>(message.micro_batch) * 4 + (is_gradient(message) ? 2 : 0)) *
                                  16 +
                              tensor;
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i)
    bytes[i] = static_cast<std::byte>(((where + 1) * 0x9e3779b97f4a7c15u + i * 0xd1b54a32d192ed03u) >> 56);
  return bytes;
}

/// The stages of a rank that only pass messages on, and look at what comes.
class Couriers {
 public:
  Couriers(const Schedule& schedule, Payload payload, Metadata told)
      : schedule_(schedule), payload_(std::move(payload)) {
    for (int stage = 0; stage < schedule.stages; ++stage) {
      sent_.emplace_back(told, payload_(stage, 0));
      heard_.emplace_back(told, payload_(stage, 0));
    }
  }

  schedules::StageCallbacks callbacks() {
    schedules::StageCallbacks callbacks;
    callbacks.forward = [this](int stage, int micro_batch) {
      if (stage > 0) judge({.kind = ActionKind::recv_forward, .stage = stage, .micro_batch = micro_batch});
    };
    callbacks.backward = [this](int stage, int micro_batch) {
      if (stage + 1 < schedule_.stages)
        judge({.kind = ActionKind::recv_backward, .stage = stage, .micro_batch = micro_batch});
    };
    callbacks.tensors = [this](const Action& message) { return memory_of(message); };
    callbacks.release = [this](const Action& message) { take_back(message); };
    return callbacks;
  }
  // How often each message's memory was asked for, and given back, by the message.
  [[nodiscard]] const std::map<std::string, int>& asked() const { return asked_; }
  [[nodiscard]] const std::map<std::string, int>& released() const { return released_; }

 private:
  struct Memory {
    TensorDescriptions tensors;
    std::vector<Bytes> bytes;
  };
  static std::string name_of(const Action& message) {
    return to_string(Action{.kind = message.kind, .stage = message.stage, .micro_batch = message.micro_batch});
  }

  // What the message is, whatever was told of it.
  [[nodiscard]] TensorDescriptions truth_of(const Action& message) const {
    const TensorDescriptions output = payload_(boundary_of(message), message.micro_batch);
    return is_gradient(message) ? schedules::gradients_of(output) : output;
  }
  // What its own rank takes it for.
  TensorDescriptions known_of(const Action& message) {
    const auto boundary = static_cast<std::size_t>(boundary_of(message));
    const int micro_batch = message.micro_batch;
    if (message.kind == ActionKind::recv_forward) return heard_[boundary].expected(micro_batch);
    if (message.kind == ActionKind::send_backward)
      return schedules::gradients_of(heard_[boundary].expected(micro_batch));
    if (message.kind == ActionKind::send_forward) sent_[boundary].keep_to(micro_batch, truth_of(message));
    return truth_of(message);
  }

  std::vector<comm::Buffer> memory_of(const Action& message) {
    ++asked_[name_of(message)];
    const auto boundary = static_cast<std::size_t>(boundary_of(message));
    if (message.kind == ActionKind::send_metadata)
      return {sent_[boundary].tell(message.micro_batch, payload_(message.stage, message.micro_batch))};
    if (message.kind == ActionKind::recv_metadata) return {heard_[boundary].room(message.micro_batch)};
    const auto [place, is_new] = memory_.try_emplace(name_of(message));
    EXPECT_TRUE(is_new) << name_of(message) << ": its memory was asked for before";
    Memory& memory = place->second;
    memory.tensors = known_of(message);
    std::vector<comm::Buffer> buffers;
    for (const TensorDescription& tensor : memory.tensors) {
      Bytes& bytes =
          memory.bytes.emplace_back(is_send(message.kind) ? contents(message, memory.bytes.size(), bytes_of(tensor))
                                                          : Bytes(bytes_of(tensor), kNotThereYet));
      buffers.push_back({bytes.data(), schedules::elements_of(tensor), tensor.dtype});
    }
    return buffers;
  }

  void judge(const Action& received) { expect_right(received, "as it came"); }
  void expect_right(const Action& message, const char* when) {
    const Memory& memory = memory_[name_of(message)];
    const TensorDescriptions truth = truth_of(message);
    ASSERT_EQ(to_string(memory.tensors), to_string(truth)) << name_of(message) << " " << when;
    for (std::size_t i = 0; i < truth.size(); ++i) {
      const Bytes expected = contents(message, i, bytes_of(truth[i]));
      const auto wrong = std::ranges::mismatch(expected, memory.bytes[i]).in1 - expected.begin();
      EXPECT_EQ(wrong, std::ssize(expected)) << name_of(message) << " " << when << ", tensor " << i << " of "
                                             << to_string(truth) << ": byte " << wrong << " is wrong";
    }
  }

  // Of a receive the values are there, which it does not say earlier; they are still to be used.
  void take_back(const Action& message) {
    ++released_[name_of(message)];
    if (is_told(message)) return;
    expect_right(message, "when it was over");
    if (!is_send(message.kind)) return;
    for (Bytes& bytes : memory_[name_of(message)].bytes) std::ranges::fill(bytes, kGivenBack);
  }

  const Schedule& schedule_;
  const Payload payload_;
  std::vector<DescriptionExchange> sent_, heard_;  // by the stage whose output it is
  std::map<std::string, Memory> memory_;
  std::map<std::string, int> asked_, released_;
};

struct Mailing {
  schedules::ScheduleKind schedule_kind = schedules::ScheduleKind::one_f_one_b;
  Payload payload;
  Metadata told = Metadata::each;
  schedules::ExecutorOptions options = {};
};

// A backend need not have every dtype: f32 or u8 of the same shape stands in for what it does not claim.
Payload claimed_of(Context& context, const Payload& payload) {
  return [&context, &payload](int stage, int micro_batch) {
    TensorDescriptions tensors = payload(stage, micro_batch);
    for (TensorDescription& tensor : tensors)
      if (!context.capabilities().supports(tensor.dtype))
        tensor.dtype = comm::is_floating(tensor.dtype) ? DType::f32 : DType::u8;
    return tensors;
  };
}

void mail(Context& context, const Mailing& mailing) {
  const int chunks = mailing.schedule_kind == schedules::ScheduleKind::interleaved ? 2 : 1;
  const Schedule schedule = schedules::lower(
      schedules::generate(mailing.schedule_kind,
                          {.ranks = context.size(), .micro_batches = 2 * context.size(), .stages_per_rank = chunks}),
      mailing.told);
  Couriers couriers(schedule, claimed_of(context, mailing.payload), mailing.told);
  (void)schedules::run_rank(context.world(), schedule, couriers.callbacks(), mailing.options);
  const auto& actions = schedule.ranks[static_cast<std::size_t>(context.rank())];
  std::map<std::string, int> once;
  for (const Action& action : actions)
    if (schedules::is_message(action.kind))
      once[to_string(Action{.kind = action.kind, .stage = action.stage, .micro_batch = action.micro_batch})] = 1;
  EXPECT_EQ(couriers.asked(), once) << "messages whose memory was asked for";
  EXPECT_EQ(couriers.released(), once) << "messages that were given back";
  context.world().barrier();  // memory lives until all has arrived, also what nobody waited for
}

// ---- checks ----

void dtypes(Context& context) {
  const DType dtype = context.parameters().dtype();
  mail(context, {.payload = [dtype](int stage, int) { return TensorDescriptions{{dtype, {2 + stage, 3}}}; }});
}

constexpr std::int64_t kPiece = 64;  // bytes

TensorDescriptions list_named(const std::string& name) {
  if (name == "none") return {};
  if (name == "single") return {{DType::f32, {5}}};
  if (name == "as_they_are") return {{DType::f32, {2, 3}}, {DType::i64, {}}, {DType::u8, {4, 0}}, {DType::f16, {7}}};
  if (name == "in_pieces") return {{DType::f32, {40}}, {DType::f64, {9, 3}}, {DType::u8, {200}}};
  return {{DType::f32, {2, 3}}, {DType::f64, {9, 3}}, {DType::i64, {}},        {DType::u8, {4, 0}},
          {DType::u8, {200}},   {DType::bf16, {33}},  {DType::i32, {2, 2, 2}}, {DType::f16, {}}};
}
void lists(Context& context) {
  const TensorDescriptions list = list_named(context.parameters().text("list"));
  mail(context, {.payload = [list](int, int) { return list; }, .options = {.most_bytes_a_call = kPiece}});
}

void shapes(Context& context) {
  const bool constant = context.parameters().text("shapes") == "constant";
  const auto payload = [constant](int stage, int micro_batch) -> TensorDescriptions {
    if (constant) micro_batch = 0;
    switch (micro_batch % 4) {
      case 0:
        return {{DType::f32, {3, 4}}};
      case 1:
        return {{DType::f32, {12 + stage}}, {DType::f32, {1}}};
      case 2:
        return {{DType::f16, {2, 3, 1 + micro_batch}}};
      default:
        return {{DType::f32, {}}};
    }
  };
  mail(context,
       {.schedule_kind = schedules::schedule_kind_of(context.parameters().text("schedule")), .payload = payload});
}

std::int64_t size_named(const std::string& name, std::int64_t threshold) {
  const std::map<std::string, std::int64_t> sizes{{"0", 0},
                                                  {"1", 1},
                                                  {"t-1", threshold - 1},
                                                  {"t", threshold},
                                                  {"t+1", threshold + 1},
                                                  {"2t", 2 * threshold},
                                                  {"2t+1", 2 * threshold + 1}};
  return sizes.at(name);
}
// All forwards come first, so that a short and a long one are under way.
void sizes(Context& context) {
  constexpr std::int64_t threshold = 4096;  // also the one from which on the local backend does not buffer
  const std::int64_t size = size_named(context.parameters().text("size"), threshold);
  mail(context, {.schedule_kind = schedules::ScheduleKind::gpipe,
                 .payload =
                     [size](int, int micro_batch) {
                       return TensorDescriptions{{DType::u8, {micro_batch % 2 == 0 ? size : 3}},
                                                 {DType::bf16, {micro_batch % 2 == 0 ? 1 : size / 2}}};
                     },
                 .options = {.most_bytes_a_call = threshold}});
}

void two_groups(Context& context) {
  const auto gradients = context.world().duplicate();
  const bool both = context.parameters().text("groups") == "two";
  mail(context,
       {.schedule_kind = schedules::schedule_kind_of(context.parameters().text("schedule")),
        .payload = [](int stage, int) { return TensorDescriptions{{DType::f32, {100 + stage}}, {DType::f32, {2}}}; },
        .told = Metadata::none,
        .options = {.gradients = both ? gradients.get() : nullptr}});
}

// Whether a send reads its memory at once or when its receive is there is the transport's to choose: long messages and
// a late transport choose the second.
void memory(Context& context) {
  const std::int64_t length = context.parameters().text("size") == "large" ? 20000 : 3;
  mail(context, {.payload = [length](int, int) { return TensorDescriptions{{DType::f32, {length}}}; },
                 .told = Metadata::none,
                 .options = {.most_outstanding_sends = 0}});
}

// A number to the next rank, from the previous one.
void pass_on(comm::Communicator& world, std::int64_t number, std::int64_t expected) {
  const int size = world.size(), next = (world.rank() + 1) % size, previous = (world.rank() + size - 1) % size;
  std::int64_t received = 0;
  world
      .start(std::array{
          comm::Call{.operation = comm::Operation::send, .root = next, .in = {&number, 1, DType::i64}},
          comm::Call{.operation = comm::Operation::recv, .root = previous, .out = {&received, 1, DType::i64}}})
      .wait();
  EXPECT_EQ(received, expected);
}
void promises(Context& context) {
  const bool broken = context.parameters().text("promise") == "broken";
  const bool told = context.parameters().text("told") == "once";
  comm::Communicator& world = context.world();
  const TensorDescriptions first{{DType::i64, {1}}};
  const std::vector<TensorDescriptions> others{
      {{DType::i64, {2}}}, {{DType::i64, {1, 1}}}, {{DType::i64, {}}}, {{DType::f64, {1}}}, {}, {first[0], first[0]}};
  DescriptionExchange boundary(told ? Metadata::once : Metadata::none, told ? TensorDescriptions{} : first);
  if (told) (void)boundary.tell(0, first);
  const int previous = (world.rank() + world.size() - 1) % world.size();
  boundary.keep_to(0, first);
  pass_on(world, world.rank() + 10, previous + 10);
  for (const TensorDescriptions& other : others) {
    if (!broken) break;
    try {
      boundary.keep_to(1, other);
      ADD_FAILURE() << to_string(other) << " passes for " << to_string(first);
    } catch (const schedules::DescriptionMismatch& error) {
      const std::string words = error.what();
      EXPECT_NE(words.find(to_string(first)), std::string::npos) << words;
      EXPECT_NE(words.find(to_string(other)), std::string::npos) << words;
    }
  }
  boundary.keep_to(2, first);
  pass_on(world, world.rank() + 20, previous + 20);
}

}  // namespace

void add_message_checks_of_schedules(suite::Suite& suite) {
  const auto add = [&](const char* name, const char* requirement, std::vector<suite::Axis> axes,
                       void (*body)(Context&)) {
    axes.push_back(suite::worlds({2, 3}));
    suite.add({.id = std::string("schedules.messages.") + name,
               .verifies = {requirement},
               .axes = std::move(axes),
               .deadlock_prone = true,
               .body = body});
  };
  const suite::Axis schedule{"schedule", {"1f1b", "interleaved"}};
  add("dtypes", "SCHED-053@7058", {suite::dtypes()}, dtypes);
  add("lists", "SCHED-054@8e82", {{"list", {"none", "single", "as_they_are", "in_pieces", "mixed"}}}, lists);
  add("shapes", "SCHED-055@8a38", {schedule, {"shapes", {"constant", "changing"}}}, shapes);
  add("promises", "SCHED-056@e2a5", {{"told", {"never", "once"}}, {"promise", {"kept", "broken"}}}, promises);
  add("sizes", "SCHED-057@1739", {{"size", {"0", "1", "t-1", "t", "t+1", "2t", "2t+1"}}}, sizes);
  add("two_groups", "SCHED-058@b1db", {schedule, {"groups", {"one", "two"}}}, two_groups);
  add("memory", "SCHED-059@e374", {{"size", {"small", "large"}}}, memory);
}

}  // namespace plumbline::conformance
