// A plumbline whose checks do what a harness must survive: they crash, hang, leave, fail and print, on one rank or on all.
// faults_test.py runs it and looks at the records.
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <thread>

#include <gtest/gtest.h>
#include <unistd.h>

#include "harness/cli/program.hpp"
#include "harness/worker/worker.hpp"
#include "reference/comm/errors.hpp"

namespace {

using plumbline::comm::DType;
using plumbline::comm::ReduceOp;
using plumbline::suite::Axis;
using plumbline::suite::Context;
using plumbline::suite::Suite;
using namespace std::chrono_literals;

constexpr const char* kRequirements = R"(
component = "faults"
[[requirement]]
id = "HARNESS-901"
level = "must"
since = "0.1"
text = "The subject does not misbehave."
)";

// The last rank, or all.
bool is_victim(Context& context) {
  return context.parameters().text("where") == "all" || context.rank() == context.size() - 1;
}

void sleep_forever() {
  for (;;) std::this_thread::sleep_for(1s);
}

int overflow(int depth) {
  volatile char room[4096];
  room[0] = static_cast<char>(depth);
  return depth < 0 ? room[0] : overflow(depth + 1) + room[0];
}

void fail_deep_inside() { ASSERT_EQ(1, 2) << "a failing assertion in a called function"; }

// Ends the process between its rank's report and its readiness for more.
class LeavesAfterwards final : public testing::EmptyTestEventListener {
  void OnTestEnd(const testing::TestInfo&) override { ::_exit(0); }
};

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

using Misdeed = std::function<void(Context&)>;

// After its misdeed, if it lives, every rank meets the others in a barrier.
void add(Suite& suite, const std::string& name, Misdeed misdeed, bool spoils = false) {
  suite.add({.id = "faults." + name,
             .verifies = {suite.requirements.find("HARNESS-901")->citation()},
             .axes = {Axis{"where", {"one", "all"}}, plumbline::suite::worlds({1, 3})},
             .limit = 2s,
             .spoils_group = spoils,
             .body = [misdeed = std::move(misdeed)](Context& context) {
               if (is_victim(context)) misdeed(context);
               context.world().barrier();
             }});
}

Suite make_suite() {
  Suite suite;
  suite.requirements.add_toml(kRequirements, "faults");
  suite.add(
      plumbline::suite::Profile{.name = "collectives", .version = "1", .title = "faults", .prefixes = {"HARNESS"}});
  add(suite, "a_pass", [](Context&) {});
  add(suite, "segfault", [](Context&) { ::raise(SIGSEGV); });
  add(suite, "abort", [](Context&) { std::abort(); });
  add(suite, "exit_zero", [](Context&) { ::_exit(0); });
  add(suite, "exit_seven", [](Context&) { std::exit(7); });
  add(suite, "kill", [](Context&) { ::kill(::getpid(), SIGKILL); });
  add(suite, "stop", [](Context&) { ::kill(::getpid(), SIGSTOP); });
  add(suite, "overflow", [](Context&) { std::printf("%d", overflow(0)); });
  add(suite, "throw", [](Context&) { throw std::runtime_error("thrown on purpose"); });
  add(suite, "long_message", [](Context&) { throw std::runtime_error(std::string(5 << 20, 'x')); });
  add(suite, "throw_odd", [](Context&) { throw 42; });
  add(suite, "assert", [](Context&) { fail_deep_inside(); });
  add(suite, "expect", [](Context&) { EXPECT_TRUE(false) << "a failing expectation"; });
  add(suite, "many_failures", [](Context&) {
    for (int i = 0; i < 1000; ++i) ADD_FAILURE() << std::string(5000, 'x');
  });
  add(suite, "refuse", [](Context&) { throw plumbline::Unsupported("refused on purpose"); });
  add(suite, "sleep", [](Context&) { sleep_forever(); });
  add(suite, "spin", [](Context&) {
    for (volatile bool forever = true; forever;) {
    }
  });
  add(suite, "missing_call", [](Context& context) {
    if (context.size() > 1) std::this_thread::sleep_for(60s);
  });
  add(suite, "stray", [](Context&) { std::thread([] { EXPECT_TRUE(false) << "on another thread"; }).join(); });
  add(suite, "leave_afterwards", [](Context&) {
    static std::once_flag once;  // of several ranks in one process
    std::call_once(once, [] { testing::UnitTest::GetInstance()->listeners().Append(new LeavesAfterwards); });
  });
  suite.add({.id = "faults.other_count",
             .verifies = {suite.requirements.find("HARNESS-901")->citation()},
             .axes = {Axis{"where", {"one"}}, plumbline::suite::worlds({3})},
             .limit = 2s,
             .body = [](Context& context) {
               std::array<float, 5> in{}, out{};
               const std::int64_t count = is_victim(context) ? 5 : 4;
               context.world().barrier();
               context.world().all_reduce({in.data(), count, DType::f32}, {out.data(), count, DType::f32},
                                          ReduceOp::sum);
               ADD_FAILURE() << "nobody noticed";
             }});
  add(suite, "surroundings", [](Context&) {
    EXPECT_EQ(variable("OMP_NUM_THREADS"), "1");
    EXPECT_EQ(variable("MKL_CBWR"), "AVX2");
  });
  add(suite, "noise", [](Context&) {
    for (int i = 0; i < 2000; ++i) std::printf("line %d of a lot of noise \xff\xfe\x01 <&>\n", i);
    std::fflush(stdout);
    EXPECT_TRUE(false) << "noise with bytes that are no text: \xff\xfe\x01 <&>";
  });
  add(suite, "slow_but_alive", [](Context& context) {
    for (int i = 0; i < 8; ++i) {
      std::this_thread::sleep_for(600ms);
      context.progress("still at it");
    }
  });
  add(suite, "spoils", [](Context&) {}, true);
  suite.add({.id = "faults.leaves_early",
             .verifies = {suite.requirements.find("HARNESS-901")->citation()},
             .axes = {plumbline::suite::worlds({3})},
             .limit = 2s,
             .body = [](Context& context) {
               if (context.rank() != 1) context.world().barrier();
             }});
  add(suite, "z_pass", [](Context&) {});
  return suite;
}

}  // namespace

int main(int argc, char** argv) {
  const Suite suite = make_suite();
  const plumbline::cli::Program program{
      .suite = [&]() -> const Suite& { return suite; },
      .worker = [&](int count, char** arguments) { return plumbline::worker::main(count, arguments, suite, {}); }};
  return plumbline::cli::run(argc, argv, program);
}
