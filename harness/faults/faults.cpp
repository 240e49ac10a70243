// A plumbline whose checks do what a harness must survive: they crash, hang, leave, fail and print, on one rank or on
// all. faults_test.py runs it and looks at the records.
#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness/cli/program.hpp"
#include "harness/mutants/faulty.hpp"
#include "harness/suite/skipped.hpp"
#include "harness/worker/worker.hpp"
#include "reference/comm/errors.hpp"

namespace {

using plumbline::comm::DType;
using plumbline::comm::ReduceOp;
using plumbline::suite::Axis;
using plumbline::suite::Context;
using plumbline::suite::Suite;
using namespace std::chrono_literals;

constexpr auto kLimit = 1s;  // of a check; what hangs is tried twice

constexpr const char* kRequirements = R"(
component = "faults"
[[requirement]]
id = "HARNESS-901"
level = "must"
since = "0.1"
text = "The subject does not misbehave."
[[requirement]]
id = "HARNESS-902"
level = "must"
since = "0.1"
text = "What a subject claims it does."
needs = ["groups"]
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

// ---- lies ----

// The descriptor of this process' connection with the driver.
int connection_with_driver() {
  const std::string endpoint = variable("PLUMBLINE_CONTROL");
  const int port = std::atoi(endpoint.substr(endpoint.rfind(':') + 1).c_str());
  for (int descriptor = 3; descriptor < 1024; ++descriptor) {
    sockaddr_in peer{};
    socklen_t length = sizeof peer;
    if (::getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &length) == 0 && peer.sin_family == AF_INET &&
        ntohs(peer.sin_port) == port)
      return descriptor;
  }
  throw std::runtime_error("no connection with the driver");
}

// Says in the worker's name that `rank` passed, in whichever run this is.
void report_a_pass(int rank) {
  std::string lines;
  for (int run = 1; run < 100; ++run)
    lines +=
        nlohmann::json{
            {"type", "rank"}, {"run", run}, {"result", {{"rank", rank}, {"verdict", "pass"}, {"seconds", 0}}}}
            .dump() +
        "\n";
  if (::send(connection_with_driver(), lines.data(), lines.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(lines.size()))
    throw std::runtime_error("the driver did not take it");
}

// ---- state ----

// What one case leaves behind for those that run after it in the same process.
std::atomic<bool>& left_behind() {
  static std::atomic<bool> flag = false;
  return flag;
}

using Misdeed = std::function<void(Context&)>;

// After its misdeed, if it lives, every rank meets the others in a barrier.
void add(Suite& suite, const std::string& name, Misdeed misdeed, bool spoils = false) {
  suite.add({.id = "faults." + name,
             .verifies = {suite.requirements.find("HARNESS-901")->citation()},
             .axes = {Axis{"where", {"one", "all"}}, plumbline::suite::worlds({1, 3})},
             .limit = kLimit,
             .spoils_group = spoils,
             .body = [misdeed = std::move(misdeed)](Context& context) {
               if (is_victim(context)) misdeed(context);
               context.world().barrier();
             }});
}

// Checks of one rank each: their verdict depends on what ran before them in the same process.
void add_checks_with_state(Suite& suite) {
  const auto add_one = [&](const std::string& name, std::function<void(Context&)> body) {
    suite.add({.id = "faults." + name,
               .verifies = {suite.requirements.find("HARNESS-901")->citation()},
               .axes = {plumbline::suite::worlds({1})},
               .limit = kLimit,
               .body = std::move(body)});
  };
  add_one("leaves_state", [](Context&) { left_behind() = true; });
  add_one("needs_state", [](Context&) { EXPECT_TRUE(left_behind()) << "nobody was here before"; });
  add_one("crashes_in_company", [](Context&) {
    if (left_behind()) ::raise(SIGSEGV);
  });
}

// Rank 0 enters group A then B, rank 1 B then A. Each is the root of what it enters first, which some backends let
// return at once.
void cross_groups(Context& context) {
  const std::vector<int> members{0, 1};
  const auto a = context.world().create_group(members), b = context.world().create_group(members);
  std::array<float, 1> value{};
  const auto from = [&](plumbline::comm::Communicator& group, int root) {
    group.broadcast({value.data(), 1, DType::f32}, root);
  };
  if (context.rank() == 0) from(*a, 0), from(*b, 1);
  if (context.rank() == 1) from(*b, 1), from(*a, 0);
}

void write_garbage(std::size_t bytes) {
  std::string all(256, '\0');
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<char>(i);
  for (std::size_t done = 0; done < bytes; done += all.size()) std::fwrite(all.data(), 1, all.size(), stdout);
  std::fflush(stdout);
}

// ---- faults of the machine ----

// What this process takes of the address space, in bytes.
rlim_t address_space() {
  unsigned long pages = 0;
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr || std::fscanf(file, "%lu", &pages) != 1) throw std::runtime_error("no /proc/self/statm");
  std::fclose(file);
  return pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE));
}

// Takes memory, and touches it, until there is none.
void eat_memory() {
  constexpr std::size_t kBlock = 32 << 20, kBlocks = 128;
  std::vector<std::unique_ptr<char[]>> blocks;
  for (std::size_t i = 0; i < kBlocks; ++i) {
    blocks.push_back(std::make_unique_for_overwrite<char[]>(kBlock));
    for (std::size_t byte = 0; byte < kBlock; byte += 4096) blocks.back()[byte] = 1;
  }
  ADD_FAILURE() << "4 GiB, and no limit";
}

// The same with what is left of the address space cut to 256 MiB.
void eat_address_space() {
  const rlim_t most = address_space() + (rlim_t{256} << 20);
  const rlimit limit{most, most};
  if (::setrlimit(RLIMIT_AS, &limit) != 0) throw std::runtime_error("no limit of the address space");
  eat_memory();
}

// Rank 1 comes to each of some barriers after 1,000 times the time that one takes.
void slow_down(Context& context) {
  constexpr int kBefore = 200, kSlow = 10;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kBefore; ++i) context.world().barrier();
  const auto slowness = (std::chrono::steady_clock::now() - begin) / kBefore * 1000;
  for (int i = 0; i < kSlow; ++i) {
    if (context.rank() == 1) std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(slowness, 500ms));
    context.world().barrier();
  }
}

// Rank 1 is killed inside the barrier, where it waits for rank 0.
void die_inside(Context& context) {
  if (context.rank() == 0) std::this_thread::sleep_for(600ms);
  if (context.rank() == 1)
    std::thread([] {
      std::this_thread::sleep_for(200ms);
      ::kill(::getpid(), SIGKILL);
    }).detach();
  context.world().barrier();
}

void add_checks_of_the_machine(Suite& suite) {
  const auto add_one = [&](const std::string& name, std::function<void(Context&)> body, bool spoils = false) {
    suite.add({.id = "faults." + name,
               .verifies = {suite.requirements.find("HARNESS-901")->citation()},
               .axes = {plumbline::suite::worlds({2})},
               .limit = kLimit,
               .spoils_group = spoils,
               .body = std::move(body)});
  };
  add_one("killed_inside", die_inside);
  add_one("killed_after", [](Context& context) {
    context.world().barrier();
    if (context.rank() == 1) ::kill(::getpid(), SIGKILL);
  });
  add_one("slowed", slow_down);
  add_one("eats_memory", [](Context& context) {
    if (context.rank() == 1) eat_memory();
    context.world().barrier();
  });
  const auto eats_address_space = [](Context& context) {
    if (context.rank() == 1) eat_address_space();
    context.world().barrier();
  };
  add_one("eats_address_space", eats_address_space, true);
}

// What `ci/scale` runs in worlds of many ranks: each rank has all others' numbers in a sum.
void add_check_of_many_ranks(Suite& suite) {
  suite.add({.id = "faults.many_ranks",
             .verifies = {suite.requirements.find("HARNESS-901")->citation()},
             .axes = {plumbline::suite::worlds({8, 16, 32, 64, 128, 256})},
             .limit = 60s,
             .body = [](Context& context) {
               const std::int64_t mine = context.rank() + 1, n = context.size();
               std::int64_t sum = 0;
               context.world().all_reduce({&mine, 1, DType::i64}, {&sum, 1, DType::i64}, ReduceOp::sum);
               EXPECT_EQ(sum, n * (n + 1) / 2);
             }});
}

// Of what each run leaves a little, in a process that lives on.
void add_checks_that_leak(Suite& suite) {
  const auto add_one = [&](const std::string& name, std::function<void()> leak) {
    suite.add({.id = "faults.leaks_" + name,
               .verifies = {suite.requirements.find("HARNESS-901")->citation()},
               .axes = {plumbline::suite::worlds({2})},
               .limit = kLimit,
               .body = [leak = std::move(leak)](Context& context) {
                 if (context.rank() == 1) leak();
                 std::this_thread::sleep_for(5ms);
               }});
  };
  add_one("nothing", [] {});
  add_one("memory", [] {
    constexpr std::size_t kBytes = 128 << 10;
    static std::vector<void*> kept;
    kept.push_back(std::memset(std::malloc(kBytes), 1, kBytes));
  });
  add_one("descriptors", [] { static_cast<void>(::dup(STDIN_FILENO)); });
  add_one("threads", [] { std::thread(sleep_forever).detach(); });
}

// Of worlds that the run of everything at once leaves out.
void add_checks_of_two(Suite& suite) {
  const auto add_one = [&](const std::string& name, const std::string& requirement, std::vector<Axis> axes,
                           std::function<void(Context&)> body) {
    axes.push_back(plumbline::suite::worlds({2}));
    suite.add({.id = "faults." + name,
               .verifies = {suite.requirements.find(requirement)->citation()},
               .axes = std::move(axes),
               .limit = kLimit,
               .body = std::move(body)});
  };
  add_one("crossed_order", "HARNESS-901", {}, cross_groups);
  add_one("sums", "HARNESS-902", {Axis{"dtype", {"f32", "bf16"}}}, [](Context& context) {
    std::array<std::uint32_t, 4> in{}, out{};
    const DType dtype = context.parameters().dtype();
    context.world().all_reduce({in.data(), 4, dtype}, {out.data(), 4, dtype}, ReduceOp::sum);
  });
  add_one("slow_but_calls", "HARNESS-901", {}, [](Context& context) {
    for (int i = 0; i < 8; ++i) {
      std::this_thread::sleep_for(250ms);
      context.world().barrier();
    }
  });
  add_one("endless_progress", "HARNESS-901", {}, [](Context& context) {
    for (;;) {
      std::this_thread::sleep_for(50ms);
      context.progress("as ever");
    }
  });
  add_one("reports_twice", "HARNESS-901", {}, [](Context& context) {
    if (context.rank() == 1) report_a_pass(1);
    context.world().barrier();
  });
  add_one("reports_another", "HARNESS-901", {}, [](Context& context) {
    if (context.rank() == 1) report_a_pass(7);
    context.world().barrier();
  });
  add_one("dies_at_exit", "HARNESS-901", {}, [](Context&) { std::atexit([] { ::raise(SIGSEGV); }); });
  add_one("garbage", "HARNESS-901", {}, [](Context&) {
    write_garbage(1 << 20);
    ADD_FAILURE() << "after a megabyte of garbage";
  });
}

// A backend that claims bf16, and refuses it in reductions.
plumbline::suite::Mutant claims_bf16() {
  using plumbline::mutants::After;
  using plumbline::mutants::Place;
  return {.name = "faults.claims_bf16",
          .violates = "HARNESS-901",
          .change = plumbline::mutants::with_fault([](plumbline::comm::Call& call, const Place&) -> After {
            if (is_reduction(call.operation) && call.dtype() == DType::bf16)
              throw plumbline::Unsupported("bf16 is not implemented");
            return {};
          })};
}

void add_all(Suite& suite) {
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
  add(suite, "expect_and_throw", [](Context&) {
    EXPECT_TRUE(false) << "a failing expectation";
    throw std::runtime_error("thrown on purpose");
  });
  add(suite, "many_failures", [](Context&) {
    for (int i = 0; i < 1000; ++i) ADD_FAILURE() << std::string(5000, 'x');
  });
  add(suite, "refuse", [](Context&) { throw plumbline::Unsupported("refused on purpose"); });
  add(suite, "judges_nothing", [](Context&) { throw plumbline::suite::Skipped{"nothing to judge here"}; });
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
             .limit = kLimit,
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
    for (int i = 0; i < 5; ++i) {
      std::this_thread::sleep_for(600ms);
      context.progress("still at it");
    }
  });
  // In a process that has had the case before it fails.
  add(
      suite, "spoils",
      [](Context& context) {
        static std::mutex mutex;
        static std::set<std::pair<std::string, int>> had;
        const std::lock_guard hold(mutex);
        EXPECT_TRUE(had.emplace(context.parameters().text("where"), context.rank()).second) << "HARNESS-901: once more";
      },
      true);
  suite.add({.id = "faults.leaves_early",
             .verifies = {suite.requirements.find("HARNESS-901")->citation()},
             .axes = {plumbline::suite::worlds({3})},
             .limit = kLimit,
             .body = [](Context& context) {
               if (context.rank() != 1) context.world().barrier();
             }});
  suite.add({.id = "faults.cause_and_consequence",
             .verifies = {suite.requirements.find("HARNESS-901")->citation()},
             .axes = {plumbline::suite::worlds({2})},
             .limit = kLimit,
             .body = [](Context& context) {
               if (context.rank() == 0) throw std::runtime_error("what follows from it");
               ADD_FAILURE() << "the cause";
             }});
  add(suite, "z_pass", [](Context&) {});
  add_checks_with_state(suite);
  add_checks_of_two(suite);
  add_checks_of_the_machine(suite);
  add_checks_that_leak(suite);
  add_check_of_many_ranks(suite);
  suite.add([] { return std::vector{claims_bf16()}; });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "worker" && variable("FAULTS_AT_START") == "abort") std::abort();
  Suite suite;
  add_all(suite);
  const plumbline::cli::Program program{
      .suite = [&]() -> const Suite& { return suite; },
      .worker = [&](int count, char** arguments) { return plumbline::worker::main(count, arguments, suite, {}); }};
  return plumbline::cli::run(argc, argv, program);
}
