// What checks of adapters declare, what they ask, and the table of operations hold together: a subject that lacks
// something is not asked for it, one that claims it answers.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conformance/suite.hpp"
#include "conformance/support/component_tests.hpp"
#include "conformance/support/in_process.hpp"
#include "harness/subject/adapter/client.hpp"
#include "harness/subject/adapter/declared.hpp"
#include "harness/suite/eligibility.hpp"
#include "reference/adapter/protocol.hpp"
#include "reference/adapter/reference_service.hpp"
#include "reference/comm/errors.hpp"
#include "reference/comm/local.hpp"

namespace plumbline::conformance {
namespace {

using adapter::AdapterService;
using adapter::ArgumentRow;
using adapter::is_of_type;
using adapter::OperationRow;
using comm::Capability;
using comm::Communicator;
using nlohmann::json;
using testing::IsEmpty;
using Words = std::set<std::string>;

const suite::Suite& whole_suite() {
  static const std::unique_ptr<suite::Suite> suite = make_suite();
  return *suite;
}

std::vector<const suite::Case*> adapter_cases() {
  std::vector<const suite::Case*> cases;
  for (const suite::Case& one : whole_suite().cases())
    if (one.check->door == suite::Door::adapter && !is_large(one)) cases.push_back(&one);
  return cases;
}

// The first case of each check, where `holds`.
template <class Holds>
std::vector<const suite::Case*> first_cases(const Holds& holds) {
  std::set<const suite::Check*> seen;
  std::vector<const suite::Case*> cases;
  for (const suite::Case* one : adapter_cases())
    if (holds(*one) && seen.insert(one->check).second) cases.push_back(one);
  return cases;
}

const std::map<std::string, AdapterService::Entry>& table() { return subject::operation_table().operations(); }

// ---- the reference, watched ----

// What was seen of an operation's questions and answers.
struct Seen {
  Words read, answered;
  Words paths;                               // of all fields that were read, of objects inside too
  Words errors;                              // kinds
  suite::OptionValues::mapped_type options;  // that were answered
  std::vector<json> questions;               // the first that were answered
};

// The arguments that an operation reads itself. What only a reader that several operations share looks for is refused
// by the row.
Words arguments_of(const OperationRow& row) {
  Words names;
  for (const ArgumentRow& argument : row.arguments)
    if (argument.name.find('.') == std::string::npos) names.insert(argument.name);
  return names;
}
Words results_of(const OperationRow& row) {
  Words names;
  for (const adapter::ResultRow& result : row.results)
    if (result.name.find('.') == std::string::npos) names.insert(result.name);
  return names;
}

class Watched final : public suite::Adapter {
 public:
  Watched() : service_("watched", "1", {}) {
    for (const auto& [name, entry] : table())
      service_.add(entry.row, [this, &entry = entry](const adapter::Arguments& arguments) {
        Seen& seen = seen_[entry.row.name];
        const auto note = [&] {
          for (const std::string& field : arguments.asked()) seen.read.insert(field);
          seen.paths.merge(arguments.paths_asked());
        };
        try {
          json result = entry.operation(arguments);
          note();
          return result;
        } catch (...) {
          note();
          throw;
        }
      });
    local_ = std::make_unique<subject::LocalAdapter>(service_);
  }
  json ask(const std::string& op, const json& args) override {
    const OperationRow& row = service_.row(op);
    Seen& seen = seen_[op];
    json result;
    try {
      result = local_->ask(op, args);
    } catch (const suite::AdapterError& error) {
      seen.errors.emplace(error.kind());
      throw;
    }
    expect_of_row(row, args, result);
    for (const auto& [name, value] : result.items()) seen.answered.insert(name);
    for (auto& [argument, values] : row.options_asked(args)) seen.options[argument].merge(values);
    constexpr std::size_t kKept = 60;
    if (seen.questions.size() < kKept) seen.questions.push_back(args);
    return result;
  }
  [[nodiscard]] const Words& operations() const override { return local_->operations(); }
  [[nodiscard]] const std::map<std::string, Seen>& seen() const { return seen_; }
  // Whether a case may show more: an operation of it has not read or answered all of its row, or has not answered a
  // value that the case declares.
  [[nodiscard]] bool has_more_to_see(const suite::Case& one) {
    for (const std::string& operation : one.operations()) {
      const OperationRow& row = service_.row(operation);
      const Seen& seen = seen_[operation];
      if (!std::ranges::includes(seen.read, arguments_of(row)) ||
          !std::ranges::includes(seen.answered, results_of(row)))
        return true;
    }
    for (const auto& [operation, arguments] : one.options())
      for (const auto& [argument, values] : arguments)
        if (!std::ranges::includes(seen_[operation].options[argument], values)) return true;
    return false;
  }

 private:
  std::map<std::string, Seen> seen_;
  AdapterService service_;
  std::unique_ptr<subject::LocalAdapter> local_;
};

// An adapter, without what `lacks` says of a question: that is refused as unsupported.
class Partial final : public suite::Adapter {
 public:
  using Lacks = std::function<bool(const std::string& op, const json& args)>;
  Partial(suite::Adapter& inner, Lacks lacks) : inner_(inner), lacks_(std::move(lacks)) {}
  json ask(const std::string& op, const json& args) override {
    if (!lacks_(op, args)) return inner_.ask(op, args);
    refused_.push_back(op);
    throw suite::AdapterError(op, "unsupported", "not here");
  }
  [[nodiscard]] const std::vector<std::string>& refused() const { return refused_; }
  [[nodiscard]] const Words& operations() const override { return inner_.operations(); }

 private:
  suite::Adapter& inner_;
  Lacks lacks_;
  std::vector<std::string> refused_;
};

// Whether a question asks for a value of an option that `options` does not have.
bool asks_beyond(const suite::OptionValues& options, const std::string& op, const json& args) {
  const auto of_operation = options.find(op);
  for (const auto& [argument, values] : table().at(op).row.options_asked(args))
    for (const std::string& value : values)
      if (of_operation == options.end() || !of_operation->second.contains(argument) ||
          !of_operation->second.at(argument).contains(value))
        return true;
  return false;
}

// What failed, what an adapter without it was asked for, and what was seen.
struct WholeRun {
  Watched reference;
  std::vector<std::string> failures;
  std::vector<std::string> refused;
};

// A case on the reference, of which it has these operations, for what the case declares, and no more.
void run_partially(const suite::Case& one, const std::vector<std::string>& operations, WholeRun& run) {
  Partial adapter(run.reference, [&, options = one.options()](const std::string& op, const json& args) {
    return std::ranges::count(operations, op) == 0 || asks_beyond(options, op, args) ||
           adapter::convention_asked(args) != one.check->convention;
  });
  for (const Failure& failure : run_in_process(one, adapter)) run.failures.push_back(one.id() + ": " + failure.text);
  for (const std::string& operation : adapter.refused()) run.refused.push_back(one.id() + " asks " + operation);
}

// The first case of each check has been run, and others until all that is declared was seen. The tests of the
// components run all cases on an adapter that is held to the same rows (reference_adapter()).
const WholeRun& whole_run() {
  static const WholeRun run = [] {
    WholeRun all;
    const auto first = first_cases([](const suite::Case&) { return true; });
    for (const suite::Case* one : first) run_partially(*one, one->operations(), all);
    const std::set<const suite::Case*> done(first.begin(), first.end());
    for (const suite::Case* one : adapter_cases())
      if (!done.contains(one) && all.reference.has_more_to_see(*one)) run_partially(*one, one->operations(), all);
    return all;
  }();
  return run;
}

// Each question is to an operation, in the convention and for values of options that the check declares, and all that
// it declares is asked: else run_in_process() fails.
// HARNESS-051@283b
TEST(Checks, AskWhatTheyDeclare) { EXPECT_THAT(whole_run().failures, IsEmpty()); }

// All that a case does not declare may be missing: no question comes to the adapter that lacks it.
// HARNESS-050@87f8
TEST(AnHonestPartialAdapter, IsAskedOnlyForWhatACaseDeclares) { EXPECT_THAT(whole_run().refused, IsEmpty()); }

// A question to an operation that is not declared, which the adapter lacks, is seen.
TEST(AnHonestPartialAdapter, ShowsAQuestionToWhatIsNotDeclared) {
  const auto cases = adapter_cases();
  ASSERT_FALSE(cases.empty());
  WholeRun run;
  run_partially(*cases.front(), {}, run);
  ASSERT_FALSE(run.refused.empty());
  EXPECT_THAT(run.refused.front(), testing::StartsWith(cases.front()->id() + " asks "));
}

TEST(Checks, HaveTheConventionsOfTheirOperations) {
  for (const suite::Case* one : first_cases([](const suite::Case&) { return true; }))
    for (const std::string& operation : one->check->operations) {
      ASSERT_TRUE(table().contains(operation)) << one->check->id << " asks " << operation;
      EXPECT_THAT(table().at(operation).row.conventions, testing::Contains(one->check->convention)) << one->check->id;
    }
}

// ---- the table ----

TEST(Operations, HaveARowThatIsWhole) {
  subject::LocalAdapter reference(adapter::reference_service());
  const auto conventions = reference.conventions().value();
  for (const auto& [name, entry] : table()) {
    const OperationRow& row = entry.row;
    EXPECT_FALSE(row.what.empty() || row.conventions.empty() || row.arguments.empty() || row.results.empty()) << name;
    for (const adapter::RefusalRow& one : row.refusals)
      EXPECT_TRUE(std::ranges::count(adapter::kErrorKinds, one.kind) == 1 && !one.when.empty())
          << name << ": " << one.kind;
    for (const std::string& convention : row.conventions) EXPECT_TRUE(conventions.contains(convention)) << name;
    Words names;
    for (const ArgumentRow& argument : row.arguments) {
      const std::string words = name + ": " + argument.name;
      EXPECT_TRUE(names.insert(argument.name).second) << words << " twice";
      EXPECT_FALSE(argument.what.empty()) << words;
      for (const std::string& convention : argument.conventions)
        EXPECT_THAT(row.conventions, testing::Contains(convention)) << words;
      const bool is_optional = argument.otherwise != adapter::kRequired;
      const json otherwise = is_optional ? json::parse(argument.otherwise) : json();
      EXPECT_TRUE(otherwise.is_null() || is_of_type(otherwise, argument.type)) << words << " = " << argument.otherwise;
      EXPECT_NO_THROW((void)is_of_type(json(), argument.type)) << words;
    }
    for (const adapter::ResultRow& result : row.results)
      EXPECT_FALSE(result.what.empty()) << name << ": " << result.name;
    const json example = json::parse(row.example);
    EXPECT_NO_THROW(expect_of_row(row, example, reference.ask(name, example))) << name;
    for (const adapter::FormRow& form : row.forms)
      EXPECT_TRUE(form.field.empty() || row.find(form.field) != nullptr) << name << ": " << form.field;
  }
}

TEST(Operations, ReadAndAnswerWhatTheirRowsName) {
  for (const auto& [name, entry] : table()) {
    ASSERT_TRUE(whole_run().reference.seen().contains(name)) << "no check asks " << name;
    const Seen& seen = whole_run().reference.seen().at(name);
    for (const std::string& argument : arguments_of(entry.row))
      EXPECT_TRUE(seen.read.contains(argument)) << name << " does not read " << argument;
    EXPECT_EQ(seen.answered, results_of(entry.row)) << name;
  }
}

TEST(Operations, HaveARowForEachFieldThatTheyRead) {
  for (const auto& [name, seen] : whole_run().reference.seen())
    for (const std::string& path : seen.paths)
      EXPECT_TRUE(path == "convention" || table().at(name).row.find(path) != nullptr) << name << " reads " << path;
}

TEST(Operations, NameTheErrorsThatTheyRejectQuestionsWith) {
  for (const auto& [name, seen] : whole_run().reference.seen()) {
    Words kinds;
    for (const auto* rows : {&adapter::common_refusals(), &table().at(name).row.refusals})
      for (const adapter::RefusalRow& one : *rows) kinds.insert(one.kind);
    for (const std::string& kind : seen.errors) EXPECT_TRUE(kinds.contains(kind)) << name << " answers " << kind;
  }
}

// The question with another value of an option; nothing where it does not stand in the question itself.
std::optional<json> with_value(json args, const std::string& argument, const std::string& value) {
  if (argument == "fields") return args.contains(value) ? std::optional(args) : std::nullopt;
  std::string path = "/" + argument;
  std::ranges::replace(path, '.', '/');
  const json::json_pointer place(path);
  if (!args.contains(place.parent_pointer()) || !args[place.parent_pointer()].is_object()) return std::nullopt;
  json& field = args[place];
  if (field.is_array())
    for (json& each : field) each = value;
  else
    field = value;
  return args;
}

// Questions for values that no case of a check asks for, and that do not fit into the first questions of others.
std::vector<json> further_questions(const std::string& operation) {
  static const std::map<std::string, json> questions{
      {"gossip.topology", json::parse(R"({"topology": "ring", "args": {"size": 4, "peers": 1, "mixing": "uniform"}})")},
      {"scaler.unscale", json::parse(R"({"grads": [[1, 2]], "inverse": 0.5, "elements": [2]})")},
      {"schedules.partition_costs",
       json::parse(R"({"schedule": "1f1b", "pp": 2, "microbatches": 8, "stages_per_rank": 2,
        "layers": [{"forward": 1, "backward": 2, "weight_gradient": 1}, {"forward": 1, "backward": 2, "weight_gradient": 1},
                   {"forward": 1, "backward": 2, "weight_gradient": 1}, {"forward": 1, "backward": 2, "weight_gradient": 1}]})")},
      {"slowmo.trace", json::parse(R"({"world_size": 1, "nprocs_per_node": 1, "base": "localsgd",
        "optimizer": {"name": "sgd", "lr": 0.125}, "ranks": [{"init_params": [1.0, 2.0]}],
        "steps": [[{"grads": [0.5, 0.5]}]]})")}};
  const auto found = questions.find(operation);
  return found == questions.end() ? std::vector<json>() : std::vector<json>(1, found->second);
}

// What no answer has: parameters of 16 bits without masters are refused by every base.
bool is_only_refused(const std::string& operation, const std::string& argument, const std::string& value) {
  return operation == "slowmo.trace" && argument == "fp16" && value == "none";
}

TEST(Operations, AnswerEveryValueOfTheirOptions) {
  subject::LocalAdapter reference(adapter::reference_service());
  for (const auto& [name, entry] : table())
    for (const auto& [argument, values] : entry.row.options())
      for (const std::string& value : values) {
        const Seen& seen = whole_run().reference.seen().at(name);
        if (const auto asked = seen.options.find(argument);
            asked != seen.options.end() && asked->second.contains(value))
          continue;
        if (is_only_refused(name, argument, value)) continue;
        const auto answers = [&, &name = name, &argument = argument](const json& args) {
          const auto other = with_value(args, argument, value);
          if (!other) return false;
          try {
            (void)reference.ask(name, *other);
            return true;
          } catch (const suite::AdapterError&) {
            return false;
          }
        };
        EXPECT_TRUE(std::ranges::any_of(seen.questions, answers) ||
                    std::ranges::any_of(further_questions(name), answers))
            << name << ": " << argument << " " << value;
      }
}

// ---- subjects that have a part ----

bool has_options(const suite::Case& one) { return !one.options().empty(); }

// Whichever declared value of an option is left out, the case is skipped and says so.
// HARNESS-050@87f8
TEST(AnHonestPartialAdapter, IsNotAskedForWhatItLeavesOut) {
  const json whole = subject::LocalAdapter(adapter::reference_service()).claims();
  for (const suite::Case* one : first_cases(has_options)) {
    EXPECT_FALSE(suite::lacking(whole_suite(), {}, *one, whole)) << one->id();
    for (const auto& [operation, arguments] : one->options()) {
      const auto of_reference = table().at(operation).row.options();
      for (const auto& [argument, values] : arguments)
        for (const std::string& value : values) {
          json claims = whole;
          json& left = claims["options"][operation][argument];
          ASSERT_FALSE(left.empty()) << one->id() << " declares " << argument << " of " << operation;
          left = json::array();
          for (const std::string& each : of_reference.at(argument))
            if (!suite::claims_value({each}, value)) left.push_back(each);
          const auto lack = suite::lacking(whole_suite(), {}, *one, claims);
          ASSERT_TRUE(lack) << one->id() << " without " << value;
          EXPECT_EQ(lack->what, argument + " " + value + " of " + operation);
        }
    }
  }
}

TEST(AnAdapterThatClaimsAnOptionAndRefusesIt, Fails) {
  for (const suite::Case* one : first_cases(has_options)) {
    Partial adapter(reference_adapter(), [&, options = one->options()](const std::string& op, const json& args) {
      return options.contains(op) && !asks_beyond(options, op, args) && !table().at(op).row.options_asked(args).empty();
    });
    EXPECT_THAT(run_in_process(*one, adapter), testing::Not(IsEmpty())) << one->id();
    EXPECT_THAT(adapter.refused(), testing::Not(IsEmpty())) << one->id();
  }
}

// Who says nothing of options lacks what it answers `unsupported` to; its other errors are answers.
TEST(AnAdapterThatSaysNothingOfOptions, IsSkippedWhereItLacksOne) {
  class Silent final : public suite::Adapter {
   public:
    explicit Silent(bool names_options) : names_options_(names_options) {}
    json ask(const std::string& op, const json& args) override {
      throw suite::AdapterError(op, args.at("style") == "v" ? "unsupported" : "invalid_argument", "not here");
    }
    [[nodiscard]] const Words& operations() const override { return operations_; }
    [[nodiscard]] json claims() const override {
      return {{"operations", operations_}, {"names_options", names_options_}};
    }

   private:
    bool names_options_;
    Words operations_{"schedules.stage_to_rank"};
  };
  const suite::Check check{.id = "toys.styles",
                           .door = suite::Door::adapter,
                           .operations = {"schedules.stage_to_rank"},
                           .options =
                               [](const suite::Parameters&) {
                                 return suite::OptionValues{{"schedules.stage_to_rank", {{"style", {"loop", "v"}}}}};
                               },
                           .body = [](suite::Context&) {}};
  const suite::Case one{.check = &check, .parameters = {}};
  const auto ask = [&](bool names_options, const char* style) {
    Silent silent(names_options);
    (void)subject::DeclaredAdapter(silent, one)
        .ask("schedules.stage_to_rank", {{"pp", 2}, {"num_stages", 4}, {"style", style}});
  };
  EXPECT_THROW(ask(false, "v"), suite::UnclaimedQuestion);
  EXPECT_THROW(ask(false, "loop"), suite::AdapterError);
  EXPECT_THROW(ask(true, "v"), suite::AdapterError);
}

// The guard itself: a check that asks what it does not declare, or not what it declares.
std::vector<Failure> failures_of(suite::Check check) {
  check.door = suite::Door::adapter;
  check.id = "toys.asks";
  const suite::Case one{.check = &check, .parameters = {}};
  subject::LocalAdapter reference(adapter::reference_service());
  return run_in_process(one, reference);
}
void asks_for_factors(suite::Context& context) { (void)context.adapter().ask("topology.prime_factors", {{"n", 12}}); }
void asks_for_a_style(suite::Context& context) {
  (void)context.adapter().ask("schedules.stage_to_rank", {{"pp", 2}, {"num_stages", 4}, {"style", "v"}});
}

auto says(const char* words) { return testing::ElementsAre(testing::Field(&Failure::text, testing::HasSubstr(words))); }

// har.asks_undeclared: checks that ask another operation, convention or value than they declare.
// HARNESS-051@283b
TEST(ACheck, FailsThatAsksWhatItDoesNotDeclare) {
  EXPECT_THAT(failures_of({.operations = {"topology.prime_factors"}, .body = asks_for_factors}), IsEmpty());
  EXPECT_THAT(failures_of({.operations = {"topology.grid"}, .body = asks_for_factors}),
              says("asks operation topology.prime_factors, which check toys.asks does not declare"));
  EXPECT_THAT(
      failures_of({.operations = {"topology.prime_factors"}, .convention = "deepspeed", .body = asks_for_factors}),
      says("topology.prime_factors in convention plumbline"));
  EXPECT_THAT(failures_of({.operations = {"schedules.stage_to_rank"}, .body = asks_for_a_style}),
              says("asks style v of schedules.stage_to_rank"));
}

// har.silence_passes: a check that declares more than it asks, and finds nothing wrong.
// HARNESS-052@a6ac
TEST(ACheck, IsMissingThatDoesNotAskWhatItDeclares) {
  const auto both = [](const suite::Parameters&) {
    return suite::OptionValues{{"schedules.stage_to_rank", {{"style", {"loop", "v"}}}}};
  };
  EXPECT_THAT(failures_of({.operations = {"schedules.stage_to_rank"}, .options = both, .body = asks_for_a_style}),
              says("ended without having asked style loop of schedules.stage_to_rank"));
  EXPECT_THAT(failures_of({.operations = {"topology.prime_factors"}, .body = [](suite::Context&) {}}),
              says("ended without having asked operation topology.prime_factors"));
}

// ---- backends that have a part ----

// The local backend without some capabilities and dtypes: it claims them not, and refuses what needs them.
class Without final : public comm::CommunicatorDecorator {
 public:
  Without(std::unique_ptr<Communicator> inner, std::set<Capability> lacks, bool only_f32)
      : CommunicatorDecorator(std::move(inner)), lacks_(std::move(lacks)), only_f32_(only_f32) {
    capabilities_ = CommunicatorDecorator::capabilities();
    for (const Capability one : lacks_) capabilities_.claims.erase(one);
    if (only_f32_) capabilities_.dtypes = {comm::DType::f32};
  }
  [[nodiscard]] const comm::Capabilities& capabilities() const override { return capabilities_; }

 protected:
  void do_run(const comm::Call& call, comm::Timeout timeout) override {
    require_claimed(call);
    CommunicatorDecorator::do_run(call, timeout);
  }
  comm::Work do_start(std::span<const comm::Call> calls) override {
    require(Capability::nonblocking);
    if (calls.size() > 1) require(Capability::coalescing);
    for (const comm::Call& call : calls) require_claimed(call);
    return CommunicatorDecorator::do_start(calls);
  }
  std::unique_ptr<Communicator> do_create_group(std::span<const int> ranks) override {
    require(Capability::groups);
    return CommunicatorDecorator::do_create_group(ranks);
  }
  std::unique_ptr<Communicator> decorate(std::unique_ptr<Communicator> group) override {
    return std::make_unique<Without>(std::move(group), lacks_, only_f32_);
  }

 private:
  void require(Capability capability) const {
    if (lacks_.contains(capability)) throw Unsupported(fmt::format("{} is not here", name_of(capability)));
  }
  void require_claimed(const comm::Call& call) const {
    if (call.operation == comm::Operation::send || call.operation == comm::Operation::recv)
      require(Capability::point_to_point);
    for (const comm::DType dtype : {call.in.dtype, call.out.dtype})
      if (only_f32_ && dtype != comm::DType::f32 && call.operation != comm::Operation::barrier)
        throw Unsupported(fmt::format("{} is not here", name_of(dtype)));
  }

  std::set<Capability> lacks_;
  bool only_f32_;
  comm::Capabilities capabilities_;
};

// Whatever a backend lacks and says so, no case of the collectives that is run on it needs it. Cases of components do:
// their profiles demand it all.
TEST(AnHonestPartialBackend, IsAskedOnlyForWhatItClaims) {
  using enum Capability;
  const std::vector<std::pair<std::set<Capability>, bool>> parts{{{coalescing}, false},
                                                                 {{nonblocking, coalescing}, false},
                                                                 {{groups}, false},
                                                                 {{point_to_point}, false},
                                                                 {{}, true}};
  int asked = 0;
  for (const auto& [lacks, only_f32] : parts) {
    const Wrap wrap = [&](std::unique_ptr<Communicator> world) {
      return std::make_unique<Without>(std::move(world), lacks, only_f32);
    };
    json description;
    {
      comm::LocalWorld world(1);
      description = suite::description_of(wrap(world.communicator(0))->capabilities());
    }
    for (const suite::Case& one : whole_suite().cases()) {
      if (!one.id().starts_with("collectives.") || one.check->door != suite::Door::backend) continue;
      // Devices have no backend here that lacks something.
      if (one.check->on_device || one.world() > 3 || one.world() == 2 || is_large(one)) continue;
      if (one.id().starts_with("collectives.memory.")) continue;  // as others, for minutes
      if (suite::lacking(whole_suite(), {}, one, {{"capabilities", description}})) continue;
      EXPECT_THAT(run_in_process(one, wrap), IsEmpty())
          << one.id() << " without " << (lacks.empty() ? "all dtypes but f32" : name_of(*lacks.begin()));
      ++asked;
    }
  }
  EXPECT_GT(asked, 500);
}

}  // namespace
}  // namespace plumbline::conformance
