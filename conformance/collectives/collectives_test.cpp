// Every check at small world sizes on the local backend: the reference passes, and the checks can be passed.
#include <fstream>
#include <map>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conformance/components.hpp"
#include "conformance/support/component_tests.hpp"
#include "conformance/support/in_process.hpp"
#include "harness/subject/modules.hpp"
#include "harness/suite/adapter_error.hpp"
#include "reference/comm/errors.hpp"
#include "reference/comm/local.hpp"

namespace plumbline::conformance {

const suite::Suite& suite_under_test() {
  static const suite::Suite suite = suite_of(add_collectives);
  return suite;
}

namespace {

class EveryCheck : public testing::TestWithParam<int> {};

TEST_P(EveryCheck, PassesOnTheLocalBackend) {
  int cases = 0;
  for (const suite::Case& one : suite_under_test().cases()) {
    if (one.check->door != suite::Door::backend || one.check->on_device || one.world() != GetParam()) continue;
    if (one.parameters.has("gib")) continue;  // takes gigabytes
    ++cases;
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_THAT(run_in_process(one), testing::IsEmpty()) << one.id();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    if (seconds > std::chrono::milliseconds(300)) std::cout << one.id() << " took " << seconds.count() << " s\n";
  }
  EXPECT_GT(cases, 20);
}

INSTANTIATE_TEST_SUITE_P(WorldSizes, EveryCheck, testing::Values(1, 2, 3, 4),
                         [](const auto& info) { return std::to_string(info.param) + "Ranks"; });

TEST(AdapterChecks, PassOnTheReference) {
  for (const suite::Case& one : suite_under_test().cases())
    if (one.check->door == suite::Door::adapter && !is_largest(one)) {
      EXPECT_THAT(run_in_process(one, reference_adapter()), testing::IsEmpty()) << one.id();
    }
}

// ---- a backend with few dtypes ----

/// Claims one dtype, and refuses the others.
class OneDType final : public comm::CommunicatorDecorator {
 public:
  OneDType(std::unique_ptr<comm::Communicator> inner, comm::DType dtype)
      : CommunicatorDecorator(std::move(inner)), capabilities_(comm::local_capabilities()) {
    capabilities_.dtypes = {dtype};
  }
  [[nodiscard]] const comm::Capabilities& capabilities() const override { return capabilities_; }

 private:
  void refuse_others(const comm::Call& call) const {
    if (call.operation != comm::Operation::barrier && !capabilities_.supports(call.dtype()))
      throw Unsupported(fmt::format("no {} here", name_of(call.dtype())));
  }
  void do_run(const comm::Call& call, comm::Timeout timeout) override {
    refuse_others(call);
    CommunicatorDecorator::do_run(call, timeout);
  }
  comm::Work do_start(std::span<const comm::Call> calls) override {
    for (const comm::Call& call : calls) refuse_others(call);
    return CommunicatorDecorator::do_start(calls);
  }
  std::unique_ptr<comm::Communicator> decorate(std::unique_ptr<comm::Communicator> group) override {
    return std::make_unique<OneDType>(std::move(group), *capabilities_.dtypes.begin());
  }
  comm::Capabilities capabilities_;
};

class EveryDType : public testing::TestWithParam<comm::DType> {};

TEST_P(EveryDType, IsEnoughForABackend) {
  const auto wrap = [](std::unique_ptr<comm::Communicator> inner) -> std::unique_ptr<comm::Communicator> {
    return std::make_unique<OneDType>(std::move(inner), GetParam());
  };
  for (const suite::Case& one : suite_under_test().cases()) {
    if (one.check->door != suite::Door::backend || one.check->on_device || one.world() != 3) continue;
    if (one.parameters.has("gib")) continue;                                            // takes gigabytes
    if (one.parameters.has("dtype") && one.parameters.dtype() != GetParam()) continue;  // skipped by the harness
    EXPECT_THAT(run_in_process(one, wrap), testing::IsEmpty()) << one.id();
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, EveryDType, testing::ValuesIn(comm::kAllDTypes),
                         [](const auto& info) { return std::string(name_of(info.param)); });

// What cannot be judged is no pass.
TEST(OneDTypeAlone, IsTooLittleForChecksOfTwo) {
  const auto wrap = [](std::unique_ptr<comm::Communicator> inner) -> std::unique_ptr<comm::Communicator> {
    return std::make_unique<OneDType>(std::move(inner), comm::DType::f32);
  };
  const suite::Case& one = case_named(suite_under_test(), "collectives.misuse.detected[difference=dtype,world=2]");
  EXPECT_THAT(reason_to_skip(one, wrap), testing::HasSubstr("needs two dtypes"));
  EXPECT_EQ(reason_to_skip(one), "");
}

// ---- answers of adapters ----

/// Answers as recorded, but for the cases that a test makes wrong by their number.
class MadeUpAdapter final : public suite::Adapter {
 public:
  using Answer = std::function<nlohmann::json(nlohmann::json right)>;
  MadeUpAdapter(const suite::Case& one, std::map<std::size_t, Answer> wrong) : wrong_(std::move(wrong)) {
    EXPECT_EQ(one.check->id, "collectives.adapter.ring_sum");
    std::ifstream file(subject::data_folder() / "vectors" / "collectives" / "ring_sum.json");
    cases_ = nlohmann::json::parse(file).at("cases");
  }
  nlohmann::json ask(const std::string&, const nlohmann::json&) override {
    const std::size_t number = asked++;
    nlohmann::json right{{"output", cases_.at(number).at("output")}};
    return wrong_.contains(number) ? wrong_.at(number)(right) : right;
  }
  [[nodiscard]] const std::set<std::string>& operations() const override { return operations_; }
  [[nodiscard]] std::string name(std::size_t number) const { return cases_.at(number).at("name"); }
  [[nodiscard]] std::size_t recorded() const { return cases_.size(); }
  std::size_t asked = 0;

 private:
  std::map<std::size_t, Answer> wrong_;
  nlohmann::json cases_;
  std::set<std::string> operations_;
};

const suite::Case& ring_sum() {  // of the ranks with which the record begins
  return case_named(suite_under_test(), "collectives.adapter.ring_sum[ranks=2]");
}

auto says(const std::string& words) { return testing::Field(&Failure::text, testing::HasSubstr(words)); }

TEST(RingSum, NamesEachCaseThatIsAnsweredWrongly) {
  using nlohmann::json;
  MadeUpAdapter adapter(ring_sum(), {{1, [](const json&) { return json::array({1, 2}); }},
                                     {3, [](const json&) -> json { throw suite::AdapterError("op", "failed", "no"); }},
                                     {5, [](json right) {
                                        right["output"][0] = 1e30;
                                        return right;
                                      }}});
  EXPECT_THAT(
      run_in_process(ring_sum(), adapter),
      testing::ElementsAre(says(adapter.name(1) + R"(: expected an object with "output", got [1,2])"),
                           says(adapter.name(3) + ": op: failed: no"), says(adapter.name(5) + ": element 0 of ")));
  EXPECT_GT(adapter.asked, 30u);
}

TEST(RingSum, AsksEveryRecordedCase) {
  std::size_t asked = 0, recorded = 0;
  for (const suite::Case& one : suite_under_test().cases()) {
    if (one.check->id != "collectives.adapter.ring_sum") continue;
    MadeUpAdapter adapter(one, {});
    (void)run_in_process(one, adapter);
    asked += adapter.asked;
    recorded = adapter.recorded();
  }
  EXPECT_GT(recorded, 100u);
  EXPECT_EQ(asked, recorded);
}

TEST(RingSum, EndsWhenTheAdapterIsGone) {
  MadeUpAdapter adapter(ring_sum(), {{2, [](const auto&) -> nlohmann::json { throw RuntimeFailure("it is gone"); }}});
  EXPECT_THAT(run_in_process(ring_sum(), adapter),
              testing::ElementsAre(AllOf(says("it is gone"), testing::Field(&Failure::uncaught, true))));
}

}  // namespace
}  // namespace plumbline::conformance
