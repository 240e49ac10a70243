#include "harness/worker/collector.hpp"

#include <cstdlib>
#include <mutex>
#include <regex>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "harness/run/findings.hpp"
#include "harness/suite/library_words.hpp"

namespace plumbline::worker {
namespace {

constexpr std::size_t kMostFailures = 20;  // of a rank in a case; a wrong array needs no thousand lines

thread_local RankCollector* collector = nullptr;

// "TRAIN-006" of "Failed\nTRAIN-006: step 0, …"; nothing where no line begins so. Of assertions that report no finding.
std::string named_in(const std::string& message) {
  static const std::regex pattern("(^|\n)([A-Z]+-[0-9]{3}): ");
  std::smatch match;
  return std::regex_search(message, match, pattern) ? match[2].str() : std::string();
}

// The last listener, for it throws.
class Listener final : public testing::EmptyTestEventListener {
 public:
  std::vector<record::Failure> strays() {
    const std::lock_guard hold(mutex_);
    return std::exchange(strays_, {});
  }
  int started = 0;

 private:
  void OnTestStart(const testing::TestInfo&) override { ++started; }
  void OnTestPartResult(const testing::TestPartResult& part) override {
    if (!part.failed()) return;
    if (collector != nullptr) {
      collector->add(failure_of(part));
      if (part.fatally_failed()) throw testing::AssertionException(part);
      return;
    }
    const std::lock_guard hold(mutex_);
    strays_.push_back(failure_of(part));
  }
  std::mutex mutex_;
  std::vector<record::Failure> strays_;
};

Listener& listener() {
  static Listener& only = *[] {
    // Variables of GoogleTest in the user's environment must not shard, shuffle or filter our cases.
    for (const char* name :
         {"GTEST_TOTAL_SHARDS", "GTEST_SHARD_INDEX", "GTEST_SHARD_STATUS_FILE", "GTEST_FILTER", "GTEST_SHUFFLE",
          "GTEST_REPEAT", "GTEST_OUTPUT", "GTEST_THROW_ON_FAILURE", "GTEST_BREAK_ON_FAILURE", "GTEST_FAIL_FAST"})
      ::unsetenv(name);
    int count = 1;
    char name[] = "plumbline";
    char* arguments[] = {name, nullptr};
    testing::InitGoogleTest(&count, arguments);
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    auto* own = new Listener;  // GoogleTest deletes it
    listeners.Append(own);
    return own;
  }();
  return only;
}

class CaseTest final : public testing::Test {
 public:
  explicit CaseTest(const std::function<void()>& body) : body_(body) {}
  void TestBody() override { body_(); }

 private:
  const std::function<void()>& body_;
};

}  // namespace

record::Failure failure_of(const testing::TestPartResult& part) {
  std::string file = part.file_name() == nullptr ? "" : part.file_name();
  file.erase(0, file.rfind('/') + 1);
  const suite::Finding* const reported = suite::Reporting::current();
  suite::Finding finding = reported != nullptr ? *reported : suite::Finding{.requirement = named_in(part.message())};
  finding.text = part.message();
  return run::failure_of(finding, fmt::format("{}:{}", file, part.line_number()));
}

record::Failure failure(std::string where, std::string message) {
  return run::failure_of({.text = std::move(message)}, std::move(where));
}

record::Failure uncaught(const std::optional<std::string>& what) {
  record::Failure out = failure("", what ? "uncaught exception: " + suite::words_without_library(*what)
                                         : "uncaught exception of an unknown type");
  out.uncaught = true;
  return out;
}

RankCollector::RankCollector(std::function<void(record::Failure&)> note)
    : note_(std::move(note)), outer_(std::exchange(collector, this)) {}
RankCollector::~RankCollector() { collector = outer_; }

std::vector<std::string> RankCollector::violated() const {
  if (one_names_none_) return {};
  return {named_.begin(), named_.end()};
}

void RankCollector::add(record::Failure failure) {
  if (failure.requirement.empty())
    one_names_none_ = true;
  else
    named_.insert(failure.requirement);
  if (note_) note_(failure);
  // An exception is the last of a body, and says how it ended: it stays.
  if (failures_.size() < kMostFailures || failure.uncaught) return failures_.push_back(std::move(failure));
  // The line names what the failure in whose place it is named, and no more.
  failures_.back() = {"", fmt::format("and {} more failures", ++dropped_ + 1), failures_.back().requirement};
}

CaseRunner::CaseRunner() {
  listener();
  // One for all cases: GoogleTest walks over all that are registered whenever it runs.
  testing::RegisterTest("plumbline", "a_case", nullptr, nullptr, __FILE__, __LINE__,
                        [this]() -> testing::Test* { return new CaseTest(body_); });
}

std::vector<record::Failure> CaseRunner::run(const std::function<void()>& body) {
  body_ = body;
  listener().started = 0;
  [[maybe_unused]] const int of_the_process = RUN_ALL_TESTS();
  body_ = nullptr;
  std::vector<record::Failure> strays = listener().strays();
  if (listener().started != 1)
    strays.push_back({"", fmt::format("GoogleTest ran {} tests instead of one", listener().started)});
  return strays;
}

}  // namespace plumbline::worker
