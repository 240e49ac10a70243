// Subjects that are hollow: what they answer, record or move has the form of the right thing, and nothing in it.
#include "harness/mutants/hollow.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <map>

#include <fmt/format.h>

#include "harness/modes/forwarding_window.hpp"
#include "harness/mutants/mutants.hpp"
#include "harness/mutants/record_rewriting.hpp"
#include "harness/suite/adapter_error.hpp"
#include "harness/suite/check.hpp"

namespace plumbline::mutants {

using nlohmann::json;

namespace {

std::atomic<std::uint64_t> deviations{0};

// ---- answers ----

json result_reply(json result) { return {{"result", std::move(result)}}; }

/// A MakeRewrite whose results are changed; what is refused stays refused.
MakeRewrite with_results(void (*change)(json& result)) {
  return [change](suite::Adapter&, std::uint64_t) -> RewriteAnswer {
    return [change](const std::string&, const json&, json reply) {
      if (reply.contains("result")) change(reply["result"]);
      return reply;
    };
  };
}

void make_null(json& result) { result = nullptr; }
void make_nothing(json& result) { result = json::object(); }

void zero_numbers(json& value) {
  if (value.is_number_float())
    value = 0.0;
  else if (value.is_number())
    value = 0;
  if (value.is_structured())
    for (json& inner : value) zero_numbers(inner);
}

// What reads them as integers without looking has the right ones.
template <class Change>
void change_integers(json& value, const Change& change) {
  if (value.is_number_integer()) value = change(value.get<std::int64_t>());
  if (value.is_structured())
    for (json& inner : value) change_integers(inner, change);
}
void add_halves(json& result) {
  change_integers(result, [](std::int64_t integer) { return static_cast<double>(integer) + 0.5; });
}
void add_wraps(json& result) {
  change_integers(result, [](std::int64_t integer) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(integer) + (std::uint64_t{1} << 32));
  });
}

void empty_lists(json& value) {
  if (value.is_array()) value.clear();
  if (value.is_object())
    for (json& inner : value) empty_lists(inner);
}

void keep_first_elements(json& value) {
  if (value.is_array() && value.size() > 1) value.erase(value.begin() + 1, value.end());
  if (value.is_structured())
    for (json& inner : value) keep_first_elements(inner);
}

// Lists of lists or objects keep their first row, and an object there says that something went wrong.
void end_early(json& value) {
  if (value.is_array() && !value.empty() && value.front().is_structured()) {
    value.erase(value.begin() + 1, value.end());
    json& row = value.front();
    if (row.is_object()) row["error"] = {{"kind", "state"}, {"message", "nothing follows"}};
    if (row.is_array()) end_early(row);
    return;
  }
  if (value.is_object())
    for (json& inner : value) end_early(inner);
}

RewriteAnswer refuse_all(suite::Adapter&, std::uint64_t) {
  return [](const std::string& op, const json& args, const json&) -> json {
    return {{"error", {{"kind", "invalid_argument"}, {"message", fmt::format("{}: bad {}", op, args.dump())}}}};
  };
}

// What is to be refused has the last result of its operation, or none. The question is kept: results are larger.
RewriteAnswer refuse_nothing(suite::Adapter& inner, std::uint64_t) {
  return [&inner, last = std::map<std::string, json>()](const std::string& op, const json& args, json reply) mutable {
    if (reply.contains("result")) {
      last[op] = args;
      return reply;
    }
    ++deviations;
    const auto found = last.find(op);
    return result_reply(found == last.end() ? json::object() : inner.ask(op, found->second));
  };
}

RewriteAnswer answer_before(suite::Adapter&, std::uint64_t) {
  return [before = result_reply(nullptr)](const std::string&, const json&, json reply) mutable {
    return std::exchange(before, std::move(reply));
  };
}

// ---- one place of an answer ----

// Numbers, and texts with a digit.
void collect_places(json& value, std::vector<json*>& places) {
  const auto is_digit = [](unsigned char character) { return std::isdigit(character) != 0; };
  if (value.is_number()) places.push_back(&value);
  if (value.is_string() && std::ranges::any_of(value.get_ref<const std::string&>(), is_digit)) places.push_back(&value);
  if (value.is_structured())
    for (json& inner : value) collect_places(inner, places);
}

void add_one(json& value) {
  if (value.is_number_integer())
    value = value.get<std::int64_t>() + 1;
  else if (value.is_number_float())
    value = value.get<double>() + 1;
  else if (value.is_string())
    for (char& character : value.get_ref<std::string&>())
      if (std::isdigit(static_cast<unsigned char>(character)) != 0) {
        character = character == '9' ? '0' : static_cast<char>(character + 1);
        return;
      }
}

// The place depends on the seed, the question, and how many were asked before it.
RewriteAnswer off_by_one(suite::Adapter&, std::uint64_t seed) {
  return [seed, asked = std::size_t{0}](const std::string& op, const json& args, json reply) mutable {
    ++asked;
    std::vector<json*> places;
    if (reply.contains("result")) collect_places(reply["result"], places);
    const std::string question = fmt::format("{} {} {} {}", seed, asked, op, args.dump());
    if (!places.empty()) add_one(*places[std::hash<std::string>()(question) % places.size()]);
    return reply;
  };
}

// ---- another convention ----

constexpr std::array kConventions{"plumbline",  "torch",  "megatron",  "deepspeed", "deepspeed-0.6",
                                  "colossalai", "paddle", "fairscale", "bluefog",   "gloo"};

// The first other convention that answers the question, and otherwise.
RewriteAnswer other_convention(suite::Adapter& inner, std::uint64_t) {
  return [&inner](const std::string& op, const json& args, json reply) {
    const std::string asked = args.value("convention", "plumbline");
    json other_args = args;
    for (const char* const other : kConventions) {
      if (other == asked || !reply.contains("result")) continue;
      other_args["convention"] = other;
      try {
        json result = inner.ask(op, other_args);
        if (result == reply["result"]) continue;
        ++deviations;
        return result_reply(std::move(result));
      } catch (const suite::AdapterError&) {
        // not its question
      }
    }
    return reply;
  };
}

// ---- calls ----

using IsSkipped = std::function<bool(comm::Operation)>;

// Takes no data, and waits for nothing.
class IdleWindow final : public comm::Window {
 public:
  explicit IdleWindow(std::vector<std::int64_t> bytes) : Window(std::move(bytes)) {}

 private:
  void do_put(comm::ConstBuffer, int, std::int64_t, int) override { ++deviations; }
  void do_signal(int, int) override { ++deviations; }
  void do_wait(int, std::int64_t, int, comm::Timeout) override { ++deviations; }
  void do_close(comm::Timeout) override { ++deviations; }
};

// Returns at once from the calls that are skipped; groups that are made from it do the same.
class IdleCommunicator final : public comm::CommunicatorDecorator {
 public:
  IdleCommunicator(std::unique_ptr<comm::Communicator> inner, IsSkipped is_skipped)
      : CommunicatorDecorator(std::move(inner)), is_skipped_(std::move(is_skipped)) {}

 private:
  void do_run(const comm::Call& call, comm::Timeout timeout) override {
    if (is_skipped_(call.operation))
      ++deviations;
    else
      CommunicatorDecorator::do_run(call, timeout);
  }
  void do_run_uneven(const comm::UnevenCall& call, comm::Timeout timeout) override {
    if (is_skipped_(call.operation))
      ++deviations;
    else
      CommunicatorDecorator::do_run_uneven(call, timeout);
  }
  void do_run_scaled(const comm::Call& call, double factor, comm::Timeout timeout) override {
    if (is_skipped_(call.operation))
      ++deviations;
    else
      CommunicatorDecorator::do_run_scaled(call, factor, timeout);
  }
  void do_run_strided(const comm::StridedCall& call, comm::Timeout timeout) override {
    if (is_skipped_(call.call.operation))
      ++deviations;
    else
      CommunicatorDecorator::do_run_strided(call, timeout);
  }
  // Puts and signals are messages that no receive is posted for.
  std::unique_ptr<comm::Window> do_create_window(comm::Buffer memory, comm::Timeout timeout) override {
    auto window = CommunicatorDecorator::do_create_window(memory, timeout);
    if (!is_skipped_(comm::Operation::send)) return window;
    auto lengths = modes::lengths_of(*window, size());
    window->close(timeout);
    return std::make_unique<IdleWindow>(std::move(lengths));
  }
  comm::Work do_start(std::span<const comm::Call> calls) override {
    std::vector<comm::Call> made;
    for (const comm::Call& call : calls)
      if (!is_skipped_(call.operation)) made.push_back(call);
    deviations += calls.size() - made.size();
    return made.empty() ? comm::Work() : CommunicatorDecorator::do_start(made);
  }
  std::unique_ptr<comm::Communicator> decorate(std::unique_ptr<comm::Communicator> group) override {
    return std::make_unique<IdleCommunicator>(std::move(group), is_skipped_);
  }
  IsSkipped is_skipped_;
};

// The same, counted.
MakeRewrite counted(const MakeRewrite& make) {
  return [make](suite::Adapter& inner, std::uint64_t seed) -> RewriteAnswer {
    return [rewrite = make(inner, seed)](const std::string& op, const json& args, const json& reply) {
      json other = rewrite(op, args, reply);
      if (other != reply) ++deviations;
      return other;
    };
  };
}
ChangeRecord counted(const ChangeRecord& change) {
  return [change](const job::RunSpec& spec, const std::filesystem::path& folder) {
    ++deviations;
    change(spec, folder);
  };
}
Wrap counted(const Wrap& wrap) { return wrap; }  // counts for itself
// So does this, which leaves most answers as they are: they need not be kept and compared.
struct CountsForItself {
  MakeRewrite make;
};
MakeRewrite counted(const CountsForItself& change) { return change.make; }

template <class Change>
Mutant hollow(std::string name, std::string what, const Change& change) {
  return {.name = "hollow." + name,
          .violates = {},
          .what = std::move(what),
          .source = {},
          .shows = {},
          .hides = {},
          .why_hides = {},
          .change = counted(change)};
}

Mutant idle(const std::string& name, const std::string& what, const IsSkipped& is_skipped) {
  return hollow(
      name, what, Wrap([is_skipped](std::unique_ptr<comm::Communicator> inner) {
        return std::unique_ptr<comm::Communicator>(std::make_unique<IdleCommunicator>(std::move(inner), is_skipped));
      }));
}

// A send and its receive are one message: half of it would only hang.
std::vector<Mutant> idle_communicators() {
  std::vector<Mutant> made{idle("no_calls", "every call returns at once", [](comm::Operation) { return true; }),
                           idle("no_messages", "sends and receives return at once", comm::is_point_to_point)};
  for (int number = 0; number < comm::kOperationCount; ++number) {
    const auto operation = static_cast<comm::Operation>(number);
    if (comm::is_point_to_point(operation)) continue;
    const std::string name(name_of(operation));
    made.push_back(idle("no_" + name, name + " returns at once",
                        [operation](comm::Operation asked) { return asked == operation; }));
  }
  return made;
}

}  // namespace

const std::vector<Mutant>& hollow_subjects() {
  static const std::vector<Mutant> all = [] {
    std::vector<Mutant> made = idle_communicators();
    for (Mutant& one : std::vector<Mutant>{
             hollow("null", "every result is null", with_results(make_null)),
             hollow("nothing", "every result is {}", with_results(make_nothing)),
             hollow("zero", "every number is 0", with_results(zero_numbers)),
             hollow("fractions", "every integer is larger by a half", with_results(add_halves)),
             hollow("wrapped", "every integer is larger by 2^32", with_results(add_wraps)),
             hollow("empty_lists", "every list is empty", with_results(empty_lists)),
             hollow("first_elements", "every list has its first element alone", with_results(keep_first_elements)),
             hollow("early_end", "every list of rows ends at the first one, with an error", with_results(end_early)),
             hollow("refuses_all", "every question is refused as invalid_argument", MakeRewrite(refuse_all)),
             hollow("refuses_nothing", "what must be refused has the operation's last result",
                    CountsForItself{refuse_nothing}),
             hollow("answer_before", "every answer is that of the question before", MakeRewrite(answer_before)),
             hollow("off_by_one", "one number of each result, drawn by the seed, is larger by 1",
                    MakeRewrite(off_by_one)),
             hollow("other_convention", "questions are answered by another convention where one answers otherwise",
                    CountsForItself{other_convention}),
             hollow("initial_record", "a record has the initial values alone", with_tensors(keep_initial_values)),
             hollow("copied_record", "every rank's record is that of rank 0", ChangeRecord(copy_from_rank_0)),
             hollow("skipped_record", "no step changes a parameter", ChangeRecord(keep_initial_parameters))})
      made.push_back(std::move(one));
    return made;
  }();
  return all;
}

std::uint64_t hollow_draws(const Mutant& subject) { return subject.name == "hollow.off_by_one" ? 200 : 1; }

std::uint64_t hollow_deviations() { return deviations; }

}  // namespace plumbline::mutants
