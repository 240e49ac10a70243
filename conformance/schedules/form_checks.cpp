// Plans in the forms of others, whatever schedule they are of: places of stages, instructions with buffers, traces with
// peers, rows that are loaded. Each is judged by what follows from it when ranks do what it says.
#include <algorithm>
#include <array>
#include <charconv>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "conformance/schedules/plans.hpp"
#include "conformance/schedules/random_plans.hpp"
#include "conformance/schedules/schedules_checks.hpp"
#include "conformance/support/asking.hpp"
#include "conformance/support/property.hpp"
#include "conformance/support/sizes.hpp"
#include "reference/comm/errors.hpp"
#include "reference/schedules/lowering.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using schedules::Action;
using schedules::ActionKind;
using suite::Context;
using suite::Door;

namespace {

// What a judge says, or that a cell or number of the answer is none.
std::string problem_of_reading(const std::function<std::string()>& judge) {
  try {
    return judge();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
}

// ---- places ----

struct Places {
  int ranks = 1;
  int chunks = 1;  // of a rank, or of the first ones, where the last stages do not go round
  int extra = 0;
};

// From stage to stage one rank on, and round; or there and back, where the last rank of a chunk is the first of the
// next.
std::string problem_of_places(const std::vector<int>& places, const Places& asked, bool turns) {
  const int stages = asked.ranks * asked.chunks + asked.extra;
  if (static_cast<int>(places.size()) != stages) return fmt::format("{} places of {} stages", places.size(), stages);
  if (places.front() != 0) return fmt::format("stage 0 is on rank {}", places.front());
  int step = 1;
  for (int stage = 1; stage < stages; ++stage) {
    const int before = places[static_cast<std::size_t>(stage) - 1], here = places[static_cast<std::size_t>(stage)];
    const bool new_chunk = stage % asked.ranks == 0;
    if (turns && new_chunk) step = -step;
    const int expected = !new_chunk ? before + step : turns ? before : 0;
    if (here != expected) return fmt::format("stage {} is on rank {} instead of {}", stage, here, expected);
  }
  return {};
}

void places(Context& context) {
  const std::string& style = context.parameters().text("style");
  const auto question = [&](const Places& value) {
    return json{{"pp", value.ranks}, {"num_stages", value.ranks * value.chunks + value.extra}, {"style", style}};
  };
  const Property<Places> property{
      .draw =
          [&](Random& random) {
            Places value{.ranks = random.between(1, 12), .chunks = random.between(1, 5)};
            if (style == "loop") value.extra = random.between(0, value.ranks - 1);
            return value;
          },
      .problem =
          [&](const Places& value) {
            return problem_of(context.adapter(), "schedules.stage_to_rank", question(value), [&](const json& result) {
              return problem_of_places(result.at("result").get<std::vector<int>>(), value, style == "v");
            });
          },
      .smaller =
          [](const Places& value) {
            std::vector<Places> list;
            if (value.extra > 0) list.push_back({value.ranks, value.chunks, value.extra - 1});
            if (value.chunks > 1) list.push_back({value.ranks, value.chunks - 1, value.extra});
            if (value.ranks > 1 && value.extra + 1 < value.ranks)
              list.push_back({value.ranks - 1, value.chunks, value.extra});
            return list;
          },
      .words = [&](const Places& value) { return question(value).dump(); }};
  constexpr int trials = 60;
  report_words(search(property, context.seed(), trials));
}

void no_places(Context& context) {
  const std::string& fault = context.parameters().text("fault");
  json args{{"pp", 3}, {"num_stages", 6}, {"style", "v"}};
  if (fault == "no_ranks") args["pp"] = 0;
  if (fault == "no_stages") args["num_stages"] = 0;
  if (fault == "ranks_do_not_divide") args["num_stages"] = 7;
  if (fault == "style") args["style"] = "zigzag";
  report_words(problem_of_refusal(context.adapter(), "schedules.stage_to_rank", args));
}

// ---- instructions that name buffers ----

// The number there; below 0 where there is none.
int number_at(const std::string& text, std::size_t begin) {
  int number = -1;
  std::from_chars(text.data() + std::min(begin, text.size()), text.data() + text.size(), number);
  return number;
}

struct Instruction {
  std::string name;
  std::optional<int> buffer;
};

Instruction instruction_of(const std::string& text) {
  const auto open = text.find('('), equals = text.find('=');
  Instruction one{text.substr(0, open), {}};
  if (equals != std::string::npos) one.buffer = number_at(text, equals + 1);
  return one;
}

struct StreamQuestion {
  std::string schedule;
  int stages = 1, micro_batches = 1;
};

// What stages do with their buffers when they follow their streams, and what they tell each other. A transfer is over
// when both sides have come to it.
class Streams {
 public:
  Streams(const json& answer, const StreamQuestion& asked)
      : asked_(asked), trains_(asked.schedule != "InferenceSchedule") {
    for (const json& stage : answer.at("stages")) {
      Stage& one = stages_.emplace_back();
      const int buffers = stage.at("num_pipe_buffers");
      if (buffers < 1 || buffers > asked.micro_batches + asked.stages)
        throw InvalidArgument(fmt::format("a stage with {} buffers", buffers));
      one.buffers.resize(static_cast<std::size_t>(buffers));
      for (const json& step : stage.at("steps"))
        for (const json& text : step) one.program.push_back(instruction_of(text.get<std::string>()));
      steps_.insert(stage.at("steps").size());
    }
  }

  std::string problem() {
    if (static_cast<int>(stages_.size()) != asked_.stages) return fmt::format("{} stages", stages_.size());
    if (steps_.size() > 1) return "the stages have different numbers of steps";
    for (bool moving = true; moving && problem_.empty();) {
      moving = false;
      for (std::size_t stage = 0; stage < stages_.size() && problem_.empty(); ++stage)
        while (problem_.empty() && take(stage)) moving = true;
    }
    for (std::size_t stage = 0; stage < stages_.size() && problem_.empty(); ++stage) judge_end(stage);
    return problem_;
  }

 private:
  static constexpr int kNone = -1;
  // What is in a buffer: whose input, whose labels or samples, whether it went forward, whose output's gradient, and
  // whether its own gradient is still to be sent.
  struct Buffer {
    int input = kNone, loaded = kNone, gradient = kNone;
    bool forward = false, backward = false;
  };
  struct Stage {
    std::vector<Instruction> program;
    std::size_t next = 0;
    std::vector<Buffer> buffers;
    int loads = 0, forwards = 0, backwards = 0, reductions = 0, steps = 0;
  };

  [[nodiscard]] bool is_first(std::size_t stage) const { return stage == 0; }
  [[nodiscard]] bool is_last(std::size_t stage) const { return stage + 1 == stages_.size(); }

  template <class... Values>
  bool fail(std::size_t stage, fmt::format_string<Values...> words, Values&&... values) {
    problem_ = fmt::format("stage {}, instruction {}: ", stage, stages_[stage].next) +
               fmt::format(words, std::forward<Values>(values)...);
    return false;
  }

  static bool uses_buffer(const Instruction& one) {
    constexpr std::array names{"LoadMicroBatch", "ForwardPass",    "BackwardPass", "SendActivation",
                               "SendGrad",       "RecvActivation", "RecvGrad"};
    return std::ranges::count(names, one.name) > 0;
  }
  static bool has_buffer(const Stage& stage, const Instruction& one) {
    return one.buffer && *one.buffer >= 0 && *one.buffer < static_cast<int>(stage.buffers.size());
  }

  // Whether the stage went on.
  bool take(std::size_t at) {
    Stage& stage = stages_[at];
    if (stage.next == stage.program.size()) return false;
    const Instruction& one = stage.program[stage.next];
    if (uses_buffer(one) && !one.buffer) return fail(at, "{} names no buffer", one.name);
    if (one.buffer && !has_buffer(stage, one)) return fail(at, "buffer {} of {}", *one.buffer, stage.buffers.size());
    if (one.name == "SendActivation" || one.name == "SendGrad") return send(at, one);
    if (one.name == "RecvActivation" || one.name == "RecvGrad") return false;  // taken with its send
    if (one.name == "LoadMicroBatch") load(at, one);
    if (one.name == "ForwardPass") forward(at, one);
    if (one.name == "BackwardPass") backward(at, one);
    if (one.name == "ReduceGrads") ++stage.reductions, all_done(at);
    if (one.name == "OptimizerStep") ++stage.steps, all_done(at);
    ++stage.next;
    return problem_.empty();
  }
  void all_done(std::size_t at) {
    if (stages_[at].backwards != asked_.micro_batches) fail(at, "before the last backward");
  }
  Buffer& buffer_of(Stage& stage, const Instruction& one) {
    return stage.buffers[static_cast<std::size_t>(*one.buffer)];
  }

  void load(std::size_t at, const Instruction& one) {
    Buffer& buffer = buffer_of(stages_[at], one);
    if (buffer.loaded != kNone || buffer.forward) fail(at, "buffer {} is in use", *one.buffer);
    buffer.loaded = stages_[at].loads++;
    if (is_first(at)) buffer.input = buffer.loaded;
  }
  void forward(std::size_t at, const Instruction& one) {
    Buffer& buffer = buffer_of(stages_[at], one);
    if (buffer.input == kNone) fail(at, "a forward of an empty buffer {}", *one.buffer);
    if (buffer.forward) fail(at, "a second forward of buffer {}", *one.buffer);
    if (is_last(at) && buffer.loaded != buffer.input)
      fail(at, "micro-batch {} with the labels of {}", buffer.input, buffer.loaded);
    if (buffer.input != stages_[at].forwards++) fail(at, "the forward of micro-batch {}", buffer.input);
    buffer.forward = true;
    if (!trains_ && is_last(at)) buffer = {};
  }
  void backward(std::size_t at, const Instruction& one) {
    Buffer& buffer = buffer_of(stages_[at], one);
    if (!buffer.forward || buffer.backward) fail(at, "a backward without a forward, of buffer {}", *one.buffer);
    if (!is_last(at) && buffer.gradient != buffer.input)
      fail(at, "micro-batch {} with the gradient of {}", buffer.input, buffer.gradient);
    ++stages_[at].backwards;
    buffer.backward = true;
    if (is_first(at)) buffer = {};
  }

  // Both sides of a transfer, when the other one has come to it.
  bool send(std::size_t at, const Instruction& one) {
    const bool activation = one.name == "SendActivation";
    if (activation ? is_last(at) : is_first(at)) return fail(at, "there is nobody to send to");
    const std::size_t peer = activation ? at + 1 : at - 1;
    Stage &sender = stages_[at], &receiver = stages_[peer];
    if (receiver.next == receiver.program.size()) return false;
    const Instruction& other = receiver.program[receiver.next];
    if (other.name != (activation ? "RecvActivation" : "RecvGrad")) return false;
    if (!has_buffer(receiver, other)) return fail(peer, "there is no such buffer");
    Buffer &from = buffer_of(sender, one), &to = buffer_of(receiver, other);
    if (activation) {
      if (!from.forward) return fail(at, "an output that is not there");
      if (to.input != kNone) return fail(peer, "buffer {} is in use", *other.buffer);
      to.input = from.input;
      if (!trains_) from = {};
    } else {
      if (!from.backward) return fail(at, "a gradient that is not there");
      if (!to.forward) return fail(peer, "a gradient for buffer {}, of which there is no output", *other.buffer);
      to.gradient = from.input;
      from = {};
    }
    ++sender.next;
    ++receiver.next;
    return true;
  }

  void judge_end(std::size_t at) {
    const Stage& stage = stages_[at];
    const int trained = trains_ ? 1 : 0;
    if (stage.next < stage.program.size()) fail(at, "waits for ever at {}", stage.program[stage.next].name);
    if (stage.forwards != asked_.micro_batches) fail(at, "{} forwards", stage.forwards);
    if (stage.backwards != trained * asked_.micro_batches) fail(at, "{} backwards", stage.backwards);
    if (stage.reductions != trained || stage.steps != trained)
      fail(at, "{} reductions and {} optimizer steps", stage.reductions, stage.steps);
  }

  StreamQuestion asked_;
  bool trains_;
  std::vector<Stage> stages_;
  std::set<std::size_t> steps_;
  std::string problem_;
};

void streams(Context& context) {
  const std::string& schedule = context.parameters().text("schedule");
  const auto question = [](const StreamQuestion& value) {
    return json{{"schedule", value.schedule}, {"pp", value.stages}, {"microbatches", value.micro_batches}};
  };
  const bool one_stage = schedule == "DataParallelSchedule";
  const Property<StreamQuestion> property{
      .draw = [&](Random& random) -> StreamQuestion {
        return {schedule, one_stage ? 1 : random.between(1, 9), random.between(1, 20)};
      },
      .problem =
          [&](const StreamQuestion& value) {
            return problem_of(context.adapter(), "schedules.instruction_stream", question(value),
                              [&](const json& result) {
                                return problem_of_reading([&] { return Streams(result, value).problem(); });
                              });
          },
      .smaller =
          [](const StreamQuestion& value) {
            std::vector<StreamQuestion> list;
            if (value.stages > 1) list.push_back({value.schedule, value.stages - 1, value.micro_batches});
            if (value.micro_batches > 1) list.push_back({value.schedule, value.stages, value.micro_batches - 1});
            return list;
          },
      .words = [&](const StreamQuestion& value) { return question(value).dump(); }};
  constexpr int trials = 60;
  report_words(search(property, context.seed(), trials));
}

// No stage, no such number of micro-batches, or more steps than anybody asks for.
void no_streams(Context& context) {
  static const std::map<std::string, StreamQuestion> questions{{"no_ranks", {"TrainSchedule", 0, 2}},
                                                               {"negative_ranks", {"InferenceSchedule", -1, 2}},
                                                               {"negative_micro_batches", {"InferenceSchedule", 2, -1}},
                                                               {"data_parallel_stages", {"DataParallelSchedule", 2, 2}},
                                                               {"data_parallel_empty", {"DataParallelSchedule", 1, 0}},
                                                               {"too_many", {"TrainSchedule", 8192, 1}}};
  const StreamQuestion& asked = questions.at(context.parameters().text("fault"));
  report_words(
      problem_of_refusal(context.adapter(), "schedules.instruction_stream",
                         {{"schedule", asked.schedule}, {"pp", asked.stages}, {"microbatches", asked.micro_batches}}));
}

// A pipeline of one stage and no micro-batches has no step.
void empty_stream(Context& context) {
  const std::string& schedule = context.parameters().text("schedule");
  const json args{{"convention", "deepspeed"}, {"schedule", schedule}, {"pp", 1}, {"microbatches", 0}};
  report_words(problem_of(context.adapter(), "schedules.instruction_stream", args, [](const json& result) {
    const json only{{"stage", 0}, {"is_first_stage", true}, {"is_last_stage", true}, {"steps", json::array()}};
    return first_difference(json{{"stages", {only}}}, result);
  }));
}

// ---- traces that name peers ----

// One cell of a trace: a computation, or messages that are posted together.
struct TraceMessage {
  bool sends = false, gradient = false;
  int peer = 0;
  int stage = 0, micro_batch = 0;  // of what is sent
};
struct TraceCell {
  std::optional<Action> computation;
  std::vector<TraceMessage> messages;
};

// "SEND act0.1>1", "RECV grad<1".
TraceMessage message_of(const std::string& text) {
  TraceMessage message{.sends = text.starts_with("SEND"), .gradient = text.find("grad") != std::string::npos};
  message.peer = number_at(text, text.find_first_of("<>") + 1);
  if (!message.sends) return message;
  message.stage = number_at(text, text.find_first_of("0123456789"));
  message.micro_batch = number_at(text, text.find('.') + 1);
  return message;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts{""};
  for (const char letter : text) letter == separator ? (void)parts.emplace_back() : parts.back().push_back(letter);
  return parts;
}

std::vector<TraceCell> cells_of(const std::string& row) {
  std::vector<TraceCell> cells;
  for (const std::string& text : split(row, ',')) {
    TraceCell& cell = cells.emplace_back();
    if (!text.starts_with("P2P(")) {
      cell.computation = schedules::parse_row(text).at(0);
      continue;
    }
    for (const std::string& message : split(text.substr(4, text.size() - 5), ';'))
      cell.messages.push_back(message_of(message));
  }
  return cells;
}

// The ranks take their cells one after the other. Messages that are posted together are over when each has met its
// other side; of one kind from one rank to another, the first sent is the first received.
class Traces {
 public:
  Traces(const json& trace, const PlanShape& shape, bool forward_only) : shape_(shape), forward_only_(forward_only) {
    for (const json& row : trace) ranks_.push_back({.cells = cells_of(row.get<std::string>())});
  }

  std::string problem() {
    if (static_cast<int>(ranks_.size()) != shape_.ranks) return fmt::format("{} rows", ranks_.size());
    for (bool moving = true; moving && problem_.empty();) {
      moving = false;
      for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
        while (problem_.empty() && take(rank)) moving = true;
    }
    if (!problem_.empty()) return problem_;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
      if (ranks_[rank].next < ranks_[rank].cells.size())
        return fmt::format("rank {} waits for ever in its cell {}", rank, ranks_[rank].next);
    const int stages = shape_.ranks * shape_.chunks, kinds = forward_only_ ? 1 : 2;
    const int expected = stages * shape_.micro_batches * kinds;
    if (static_cast<int>(done_.size()) != expected)
      return fmt::format("{} computations instead of {}", done_.size(), expected);
    for (const auto& [way, queues] : ways_)
      if (!queues.sent.empty() || !queues.awaited.empty()) return "a message has no other side";
    return {};
  }

 private:
  using Value = std::tuple<bool, int, int>;  // a gradient; stage, micro-batch
  struct Rank {
    std::vector<TraceCell> cells;
    std::size_t next = 0;
    bool posted = false;
    int unmet = 0;   // messages of the cell
    int stages = 0;  // that it has computed something of
    std::set<Value> arrived;
  };
  struct Sent {
    std::size_t rank = 0;
    Value value;
  };
  struct Queues {
    std::deque<Sent> sent;
    std::deque<std::size_t> awaited;
  };

  // Whether the rank went on.
  bool take(std::size_t number) {
    Rank& rank = ranks_[number];
    if (rank.next == rank.cells.size()) return false;
    const TraceCell& cell = rank.cells[rank.next];
    if (cell.computation) {
      compute(number, *cell.computation);
    } else {
      if (!rank.posted) post(number, cell);
      if (rank.unmet > 0) return false;
      rank.posted = false;
    }
    ++rank.next;
    return true;
  }

  // All computations of a stage are on one rank, each of which has the same number of stages.
  void hold(std::size_t number, int stage) {
    const auto [holder, is_new] = holders_.try_emplace(stage, number);
    if (is_new) ++ranks_[number].stages;
    if (holder->second != number)
      problem_ = fmt::format("stage {} is computed on ranks {} and {}", stage, holder->second, number);
    if (ranks_[number].stages > shape_.chunks) problem_ = fmt::format("rank {} computes too many stages", number);
  }

  void compute(std::size_t number, const Action& action) {
    const Rank& rank = ranks_[number];
    hold(number, action.stage);
    const bool back = action.kind != ActionKind::forward;
    const int from = action.stage + (back ? 1 : -1), stages = shape_.ranks * shape_.chunks;
    const std::string words = to_string(action);
    if (from >= 0 && from < stages && !rank.arrived.contains({back, from, action.micro_batch}))
      problem_ = words + " before what it needs has come";
    if (back && !done_.contains({false, action.stage, action.micro_batch})) problem_ = words + " before its forward";
    if (action.stage >= stages || action.micro_batch >= shape_.micro_batches) problem_ = words + " is not to be done";
    if (!done_.insert({back, action.stage, action.micro_batch}).second) problem_ = words + " is done twice";
  }

  void post(std::size_t number, const TraceCell& cell) {
    ranks_[number].posted = true;
    for (const TraceMessage& message : cell.messages) {
      const auto peer = static_cast<std::size_t>(message.peer);
      if (peer >= ranks_.size()) {
        problem_ = fmt::format("a message for rank {}", message.peer);
        return;
      }
      ++ranks_[number].unmet;
      if (!message.sends) {
        ways_[{peer, number, message.gradient}].awaited.push_back(number);
        meet({peer, number, message.gradient});
        continue;
      }
      const Value value{message.gradient, message.stage, message.micro_batch};
      const auto holder = holders_.find(message.stage);
      if (!done_.contains(value) || holder == holders_.end() || holder->second != number)
        problem_ = fmt::format("rank {} sends what it has not made", number);
      ways_[{number, peer, message.gradient}].sent.push_back({number, value});
      meet({number, peer, message.gradient});
    }
  }
  using Way = std::tuple<std::size_t, std::size_t, bool>;  // from, to, gradients
  void meet(const Way& way) {
    Queues& queues = ways_[way];
    if (queues.sent.empty() || queues.awaited.empty()) return;
    Rank& receiver = ranks_[queues.awaited.front()];
    --ranks_[queues.sent.front().rank].unmet;
    --receiver.unmet;
    receiver.arrived.insert(queues.sent.front().value);
    queues.sent.pop_front();
    queues.awaited.pop_front();
  }

  PlanShape shape_;
  bool forward_only_;
  std::vector<Rank> ranks_;
  std::map<Way, Queues> ways_;
  std::map<int, std::size_t> holders_;  // of each stage, the rank that computes it
  std::set<Value> done_;
  std::string problem_;
};

void traces(Context& context) {
  const std::string& schedule = context.parameters().text("schedule");
  const bool forward_only = context.parameters().text("direction") == "forward";
  const auto question = [&](const PlanShape& value) {
    return json{{"schedule", schedule},
                {"pp", value.ranks},
                {"microbatches", value.micro_batches},
                {"stages_per_rank", value.chunks},
                {"forward_only", forward_only}};
  };
  const Property<PlanShape> property{
      .draw =
          [&](Random& random) {
            PlanShape value{.schedule = schedule, .ranks = random.between(2, 6)};
            value.micro_batches = random.between(1, 12);
            if (schedule == "interleaved") {
              value.chunks = random.between(2, 4);
              value.micro_batches = value.ranks * random.between(1, 3);
            }
            return value;
          },
      .problem =
          [&](const PlanShape& value) {
            return problem_of(context.adapter(), "schedules.trace", question(value), [&](const json& result) {
              return problem_of_reading([&] { return Traces(result.at("trace"), value, forward_only).problem(); });
            });
          },
      .smaller =
          [](const PlanShape& value) {
            std::vector<PlanShape> list;
            const int round = value.chunks > 1 ? value.ranks : 1;
            if (value.micro_batches > round)
              list.push_back({value.schedule, value.ranks, value.micro_batches - round, value.chunks});
            if (value.chunks > 2) list.push_back({value.schedule, value.ranks, value.micro_batches, value.chunks - 1});
            if (value.ranks > 2)
              list.push_back(
                  {value.schedule, value.ranks - 1, value.micro_batches / round * (value.ranks - 1), value.chunks});
            return list;
          },
      .words = [&](const PlanShape& value) { return question(value).dump(); }};
  constexpr int trials = 40;
  report_words(search(property, context.seed(), trials));
}

// Megatron-LM's groups: at least as many micro-batches as ranks, at most all, and the last one is full or has as many.
bool is_group(int ranks, int micro_batches, int group) {
  if (group < ranks || group > micro_batches) return false;
  return micro_batches % group == 0 || micro_batches % group >= ranks;
}

void no_traces(Context& context) {
  const std::string& fault = context.parameters().text("fault");
  json args{{"schedule", "interleaved"}, {"pp", 2}, {"microbatches", 4}, {"stages_per_rank", 2}};
  if (fault == "group") {
    for (int ranks = 2; ranks <= 4; ++ranks)
      for (int micro_batches = 1; micro_batches <= 9; ++micro_batches)
        for (int group = 0; group <= 10; ++group) {
          if (is_group(ranks, micro_batches, group)) continue;
          args.update({{"pp", ranks}, {"microbatches", micro_batches}, {"microbatch_group_size", group}});
          const std::string problem = problem_of_refusal_beside_answers(context.adapter(), "schedules.trace", args);
          if (!problem.empty()) return report_words(problem);
        }
    return;
  }
  if (fault == "one_rank") args["pp"] = 1;
  if (fault == "no_ranks") args["pp"] = 0;
  if (fault == "no_micro_batches") args["microbatches"] = 0;
  if (fault == "no_chunks") args["stages_per_rank"] = 0;
  report_words(problem_of_refusal(context.adapter(), "schedules.trace", args));
}

void grouped_traces(Context& context) {
  for (int ranks = 2; ranks <= 4; ++ranks)
    for (int micro_batches = ranks; micro_batches <= 9; ++micro_batches)
      for (int group = ranks; group <= micro_batches; ++group)
        for (const bool forward_only : {false, true}) {
          if (!is_group(ranks, micro_batches, group)) continue;
          const PlanShape shape{
              .schedule = "interleaved", .ranks = ranks, .micro_batches = micro_batches, .chunks = 2 + group % 2};
          const json args{{"schedule", "interleaved"},     {"pp", ranks},
                          {"microbatches", micro_batches}, {"stages_per_rank", shape.chunks},
                          {"forward_only", forward_only},  {"microbatch_group_size", group}};
          const std::string problem = problem_of(context.adapter(), "schedules.trace", args, [&](const json& result) {
            return problem_of_reading([&] { return Traces(result.at("trace"), shape, forward_only).problem(); });
          });
          if (!problem.empty()) return report_words(args.dump() + ": " + problem);
        }
}

// ---- rows that are loaded ----

json loading(const PlanShape& shape, const json& rows) {
  return {{"pp", shape.ranks},
          {"microbatches", shape.micro_batches},
          {"stages_per_rank", shape.chunks},
          {"format", "compute_only"},
          {"csv", rows}};
}

std::vector<Action> computations_of(const std::vector<Action>& actions) {
  std::vector<Action> kept;
  for (const Action& action : actions)
    if (is_compute(action.kind)) kept.push_back(action);
  return kept;
}

// Each message between stages on two ranks once, on its stages' ranks, and all computations as they were.
std::string problem_of_loading(const schedules::Schedule& given, const json& result) {
  if (result.at("accepted") != true) return "the rows are not accepted";
  const json& loaded = result.at("result");
  if (std::string problem = first_difference(given.stage_to_rank, loaded.at("stage_to_rank")); !problem.empty())
    return "places: " + problem;
  const auto rank_of = [&](int stage) { return given.stage_to_rank.at(static_cast<std::size_t>(stage)); };
  std::map<std::tuple<ActionKind, int, int>, int> expected, found;
  for (std::size_t rank = 0; rank < given.ranks.size(); ++rank) {
    const auto actions = schedules::parse_row(loaded.at("with_comms").at(rank).get<std::string>());
    if (computations_of(actions) != computations_of(given.ranks[rank]))
      return fmt::format("rank {} computes something else", rank);
    for (const Action& action : actions)
      if (is_message(action.kind)) {
        if (rank_of(action.stage) != static_cast<int>(rank)) return to_string(action) + " is on another rank";
        ++found[{action.kind, action.stage, action.micro_batch}];
      }
    for (const Action& action : given.ranks[rank]) {
      const bool back = action.kind == ActionKind::backward || action.kind == ActionKind::input_gradient;
      if (!back && action.kind != ActionKind::forward) continue;
      const int to = action.stage + (back ? -1 : 1);
      if (to < 0 || to >= given.stages || rank_of(to) == static_cast<int>(rank)) continue;
      expected[{back ? ActionKind::send_backward : ActionKind::send_forward, action.stage, action.micro_batch}] = 1;
      expected[{back ? ActionKind::recv_backward : ActionKind::recv_forward, to, action.micro_batch}] = 1;
    }
  }
  return found == expected ? "" : "the messages are not those that the stages need";
}

void loads(Context& context) {
  for (const PlanShape& shape : shapes_of(context.parameters())) {
    if (!is_allowed(shape)) continue;
    const std::string problem =
        problem_of_plan(context.adapter(), shape, [&](const PlanShape&, const schedules::Schedule& schedule) {
          return problem_of(context.adapter(), "schedules.load_csv", loading(shape, rows_of(schedule)),
                            [&](const json& result) {
                              return problem_of_reading([&] { return problem_of_loading(schedule, result); });
                            });
        });
    if (!problem.empty()) return report_words(problem);
  }
}

// Rows of 2 ranks, 2 micro-batches, with one thing wrong.
json wrong_rows(const std::string& fault) {
  if (fault == "backward_first") return {"0F0,0B0,0B1,0F1", "1F0,1B0,1F1,1B1"};
  if (fault == "weight_gradient_first") return {"0F0,0F1,0W0,0I0,0B1", "1F0,1B0,1F1,1B1"};
  if (fault == "lost_forward") return {"0F0,0B0", "1F0,1B0,1F1,1B1"};
  if (fault == "lost_weight_gradient") return {"0F0,0F1,0I0,0B1", "1F0,1B0,1F1,1B1"};
  if (fault == "two_places") return {"0F0,0F1,0B0,0B1", "1F0,1B0,0F1,1F1,1B1"};
  if (fault == "unknown_stage") return {"0F0,0F1,0B0,0B1", "1F0,1B0,1F1,1B1,2F0"};
  if (fault == "too_few_ranks") return {"0F0,0F1,0B0,0B1"};
  if (fault == "too_many_ranks") return {"0F0,0F1,0B0,0B1", "1F0,1B0,1F1,1B1", ""};
  if (fault == "unknown_micro_batch") return {"0F0,0F2,0B0,0B2", "1F0,1B0,1F2,1B2"};
  if (fault == "one_more") return {"0F0,0F1,0F2,0B0,0B1,0B2", "1F0,1B0,1F1,1B1,1F2,1B2"};
  if (fault == "message") return {"0F0,0SEND_F0,0F1,0B0,0B1", "1F0,1B0,1F1,1B1"};
  if (fault == "reduction") return {"0F0,0F1,0B0,0B1,0REDUCE_GRAD", "1F0,1B0,1F1,1B1"};
  if (fault == "circle") return {"0F0,0B0,0F1,0B1", "1F0,1F1,1B1,1B0"};
  return {"0F0,0F1,0B0,0X1", "1F0,1B0,1F1,1B1"};
}

void does_not_load(Context& context) {
  const PlanShape shape{.schedule = "1f1b", .ranks = 2, .micro_batches = 2, .chunks = 1};
  report_words(problem_of_refusal(context.adapter(), "schedules.load_csv",
                                  loading(shape, wrong_rows(context.parameters().text("fault")))));
}

// Of no ranks, stages or micro-batches, and of rows that fit them.
void loads_no_shape(Context& context) {
  const std::string& fault = context.parameters().text("fault");
  PlanShape shape{.schedule = "1f1b", .ranks = 1, .micro_batches = 1, .chunks = 1};
  json rows{"0F0,0B0"};
  if (fault == "no_ranks") shape.ranks = 0, rows = json::array();
  if (fault == "negative_ranks") shape.ranks = -1, shape.chunks = -1, rows = json::array();
  if (fault == "no_stages") shape.chunks = 0, rows = {""};
  if (fault == "no_micro_batches") shape.micro_batches = 0, rows = {""};
  if (fault == "huge") shape.chunks = (1 << 20) + 1;
  report_words(problem_of_refusal(context.adapter(), "schedules.load_csv", loading(shape, rows)));
}

// A right plan in any order is loaded; without one of its computations, or with it on another rank, it is not.
void loads_nothing_less(Context& context) {
  Random random(context.seed());
  int asked = 0;
  for (int trial = 0; trial < 400 && asked < 60; ++trial) {
    const schedules::Schedule plan = random_plan(random, false);
    const auto ranks = static_cast<int>(plan.ranks.size());
    if (plan.stages % ranks != 0) continue;
    ++asked;
    const PlanShape shape{
        .schedule = "any", .ranks = ranks, .micro_batches = plan.micro_batches, .chunks = plan.stages / ranks};
    const std::string problem = problem_of(
        context.adapter(), "schedules.load_csv", loading(shape, rows_of(plan)),
        [&](const json& result) { return problem_of_reading([&] { return problem_of_loading(plan, result); }); });
    if (!problem.empty()) return report_words(loading(shape, rows_of(plan)).dump() + ": " + problem);
    schedules::Schedule less = plan;
    auto& row = less.ranks[static_cast<std::size_t>(random.between(0, ranks - 1))];
    if (row.empty()) continue;
    const auto lost = row.begin() + random.between(0, static_cast<int>(row.size()) - 1);
    const schedules::Action action = *lost;
    row.erase(lost);
    std::string answered =
        problem_of_refusal_beside_answers(context.adapter(), "schedules.load_csv", loading(shape, rows_of(less)));
    if (!answered.empty()) return report_words(answered);
    auto& other = less.ranks[static_cast<std::size_t>(random.between(0, ranks - 1))];
    if (&other == &row) continue;
    other.insert(other.begin() + random.between(0, static_cast<int>(other.size())), action);
    answered =
        problem_of_refusal_beside_answers(context.adapter(), "schedules.load_csv", loading(shape, rows_of(less)));
    if (!answered.empty()) return report_words(loading(shape, rows_of(less)).dump() + ": " + answered);
    json with_messages = loading(shape, rows_of(schedules::lower(plan)));
    with_messages["format"] = "compute_comms";
    auto& text = with_messages["csv"].at(static_cast<std::size_t>(&other - less.ranks.data()));
    text =
        fmt::format("{}{}{}", text.get<std::string>(), text.get<std::string>().empty() ? "" : ",", to_string(action));
    answered = problem_of_refusal_beside_answers(context.adapter(), "schedules.load_csv", with_messages);
    if (!answered.empty()) return report_words(with_messages.dump() + ": " + answered);
  }
  if (asked < 30) report_words(fmt::format("only {} plans were asked for", asked));
}

// ---- forms of real size ----

JudgeSize long_streams(const std::string& convention, const std::string& schedule) {
  return [=](suite::Adapter& adapter, int micro_batches) {
    const StreamQuestion asked{schedule, ranks_of_size(micro_batches), micro_batches};
    const json args{
        {"convention", convention}, {"schedule", schedule}, {"pp", asked.stages}, {"microbatches", micro_batches}};
    return problem_of(adapter, "schedules.instruction_stream", args, [&](const json& result) {
      return problem_of_reading([&] { return Streams(result, asked).problem(); });
    });
  };
}

JudgeSize long_traces(const std::string& convention, const std::string& schedule, int chunks) {
  return [=](suite::Adapter& adapter, int micro_batches) {
    const PlanShape shape{
        .schedule = schedule, .ranks = ranks_of_size(micro_batches), .micro_batches = micro_batches, .chunks = chunks};
    const json args{{"convention", convention}, {"schedule", schedule},      {"pp", shape.ranks},
                    {"forward_only", false},    {"stages_per_rank", chunks}, {"microbatches", micro_batches}};
    return problem_of(adapter, "schedules.trace", args, [&](const json& result) {
      return problem_of_reading([&] { return Traces(result.at("trace"), shape, false).problem(); });
    });
  };
}

}  // namespace

void add_form_checks(suite::Suite& suite) {
  const auto add = [&](const char* name, const char* requirement, std::vector<std::string> operations,
                       std::vector<suite::Axis> axes, void (*body)(Context&),
                       bool (*applies)(const suite::Parameters&) = nullptr, std::vector<AskedOption> options = {}) {
    suite.add({.id = std::string("schedules.forms.") + name,
               .verifies = {requirement},
               .door = Door::adapter,
               .axes = std::move(axes),
               .applies = applies,
               .operations = std::move(operations),
               .options = options_of(std::move(options)),
               .body = body});
  };
  add("places", "SCHED-113@42b0", {"schedules.stage_to_rank"}, {{"style", {"loop", "v"}}}, places, nullptr,
      {{"schedules.stage_to_rank", "style", {}, "style"}});
  add("no_places", "SCHED-113@42b0", {"schedules.stage_to_rank"},
      {{"fault", {"no_ranks", "no_stages", "ranks_do_not_divide", "style"}}}, no_places, nullptr,
      {{"schedules.stage_to_rank",
        "style",
        {},
        "fault",
        {{"no_ranks", {"v"}}, {"no_stages", {"v"}}, {"ranks_do_not_divide", {"v"}}, {"style", {"v"}}}}});
  add("streams", "SCHED-114@cf3e", {"schedules.instruction_stream"},
      {{"schedule", {"TrainSchedule", "InferenceSchedule", "DataParallelSchedule"}}}, streams, nullptr,
      {{"schedules.instruction_stream", "schedule", {}, "schedule"}});
  add("traces", "SCHED-115@8bc1", {"schedules.trace"},
      {{"schedule", {"1F1B", "interleaved"}}, {"direction", {"forward", "both"}}}, traces, nullptr,
      {{"schedules.trace", "schedule", {}, "schedule"}});
  add("no_streams", "SCHED-129@bf9d", {"schedules.instruction_stream"},
      {{"fault",
        {"no_ranks", "negative_ranks", "negative_micro_batches", "data_parallel_stages", "data_parallel_empty",
         "too_many"}}},
      no_streams, nullptr,
      {{"schedules.instruction_stream",
        "schedule",
        {},
        "fault",
        {{"no_ranks", {"TrainSchedule"}},
         {"negative_ranks", {"InferenceSchedule"}},
         {"negative_micro_batches", {"InferenceSchedule"}},
         {"data_parallel_stages", {"DataParallelSchedule"}},
         {"data_parallel_empty", {"DataParallelSchedule"}},
         {"too_many", {"TrainSchedule"}}}}});
  suite.add({.id = "schedules.forms.empty_stream",
             .verifies = {"SCHED-029@6af7"},
             .door = Door::adapter,
             .axes = {{"schedule", {"TrainSchedule", "InferenceSchedule"}}},
             .operations = {"schedules.instruction_stream"},
             .convention = "deepspeed",
             .options = options_of({{"schedules.instruction_stream", "schedule", {}, "schedule"}}),
             .body = empty_stream});
  add("no_traces", "SCHED-129@bf9d", {"schedules.trace"},
      {{"fault", {"one_rank", "no_ranks", "no_micro_batches", "no_chunks", "group"}}}, no_traces, nullptr,
      {{"schedules.trace", "schedule", {"interleaved"}}});
  add("grouped_traces", "SCHED-115@8bc1", {"schedules.trace"}, {}, grouped_traces, nullptr,
      {{"schedules.trace", "schedule", {"interleaved"}}});
  add("loads_no_shape", "SCHED-116@8766", {"schedules.load_csv"},
      {{"fault", {"no_ranks", "negative_ranks", "no_stages", "no_micro_batches", "huge"}}}, loads_no_shape);
  add("loads_nothing_less", "SCHED-116@8766", {"schedules.load_csv"}, {}, loads_nothing_less);
  add("loads", "SCHED-116@8766", {"schedules.generate", "schedules.load_csv"},
      {{"schedule",
        {"gpipe", "1f1b", "interleaved", "looped-bfs", "zb-h1", "interleaved-zero-bubble", "zbv", "dualpipev"}},
       {"micro_batches", {"p", "2p"}}},
      loads, some_allowed, {{"schedules.generate", "schedule", {}, "schedule"}});
  add("does_not_load", "SCHED-116@8766", {"schedules.load_csv"},
      {{"fault",
        {"backward_first", "weight_gradient_first", "lost_forward", "lost_weight_gradient", "two_places",
         "unknown_stage", "too_few_ranks", "circle", "no_action", "too_many_ranks", "unknown_micro_batch", "one_more",
         "message", "reduction"}}},
      does_not_load);
  const auto add_streams = [&](const char* requirement, const char* convention) {
    const char* const stream = "schedules.instruction_stream";
    add_sized_check(suite, "schedules",
                    {stream,
                     requirement,
                     sizes_of_plans(),
                     {},
                     convention,
                     "",
                     {},
                     {},
                     {"schedule",
                      {{"TrainSchedule", long_streams(convention, "TrainSchedule")},
                       {"InferenceSchedule", long_streams(convention, "InferenceSchedule")}}}});
  };
  add_streams("SCHED-114@cf3e", "plumbline");
  add_streams("SCHED-029@6af7", "deepspeed");
  add_streams("SCHED-030@40dd", "deepspeed-0.6");
  const auto add_traces = [&](const char* requirement, const char* convention, const char* single,
                              const char* several) {
    const char* const trace = "schedules.trace";
    const std::vector<int>& all = sizes_of_plans();
    for (const auto& [schedule, chunks, sizes, part] :
         {std::tuple(single, 1, all, ""),
          std::tuple(several, 2, std::vector<int>(all.begin(), all.end() - 1), "chunks")})
      add_sized_check(suite, "schedules",
                      {trace,
                       requirement,
                       sizes,
                       long_traces(convention, schedule, chunks),
                       convention,
                       part,
                       {},
                       {{trace, {{"schedule", {schedule}}}}}});
  };
  add_traces("SCHED-115@8bc1", "plumbline", "1F1B", "interleaved");
  add_traces("SCHED-032@f804", "megatron", "1F1B", "interleaved");
  add_traces("SCHED-031@5401", "colossalai", "PipelineSchedule", "InterleavedPipelineSchedule");
}

}  // namespace plumbline::conformance
