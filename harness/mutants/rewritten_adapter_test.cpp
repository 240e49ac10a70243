// Answers on their way to a check: results and errors, each as it is or as the other.
#include "harness/mutants/rewritten_adapter.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/suite/adapter_error.hpp"

namespace plumbline::mutants {
namespace {

using nlohmann::json;

// Answers a number by its double, and refuses others.
class Doubles final : public suite::Adapter {
 public:
  json ask(const std::string& op, const json& args) override {
    if (!args.is_number()) throw suite::AdapterError(op, "invalid_argument", "no number");
    return args.get<int>() * 2;
  }
  [[nodiscard]] const std::set<std::string>& operations() const override { return operations_; }

 private:
  std::set<std::string> operations_{"double"};
};

TEST(RewrittenAdapter, PassesOnWhatIsLeftAlone) {
  Doubles doubles;
  RewrittenAdapter adapter(doubles, [](const std::string&, const json&, json reply) { return reply; });
  EXPECT_EQ(adapter.ask("double", 4), 8);
  EXPECT_THAT(adapter.operations(), testing::ElementsAre("double"));
  try {
    (void)adapter.ask("double", "four");
    FAIL();
  } catch (const suite::AdapterError& error) {
    EXPECT_EQ(error.kind(), "invalid_argument");
    EXPECT_EQ(error.message(), "no number");
  }
}

TEST(RewrittenAdapter, MakesResultsOfErrorsAndErrorsOfResults) {
  Doubles doubles;
  RewrittenAdapter adapter(doubles, [](const std::string& op, const json& args, json reply) -> json {
    if (reply.contains("error")) return {{"result", op + " " + args.get<std::string>()}};
    return {{"error", {{"kind", "failed"}, {"message", reply["result"].dump()}}}};
  });
  EXPECT_EQ(adapter.ask("double", "four"), "double four");
  EXPECT_THROW((void)adapter.ask("double", 4), suite::AdapterError);
}

}  // namespace
}  // namespace plumbline::mutants
