// What ends of ranks mean. Each rule stands beside a faulty variant of itself (har.…), which the same examples find.
#include "harness/subject/job/job_ends.hpp"

#include <csignal>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plumbline::subject {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

using Cause = std::function<std::size_t(const std::vector<ProcessEnd>&)>;

// har.lowest_rank_died: of ranks that failed the one with the lowest number is the cause.
std::size_t lowest_rank_died(const std::vector<ProcessEnd>&) { return 0; }

// HARNESS-044@ab73
TEST(CauseAmong, IsTheFirstOrOneThatASignalKilledAtTheSameTime) {
  const auto exit_at = [](int ms, int status) {
    return ProcessEnd{.number = status, .at = Clock::time_point(1h + std::chrono::milliseconds(ms))};
  };
  const auto killed_at = [&](int ms, int signal) {
    ProcessEnd end = exit_at(ms, signal);
    end.by_signal = true;
    return end;
  };
  const auto holds = [&](const Cause& cause) {
    return cause({exit_at(7, 1), exit_at(3, 1)}) == 1u && cause({exit_at(0, 1), killed_at(5, SIGSEGV)}) == 1u;
  };
  EXPECT_TRUE(holds(cause_among));
  EXPECT_FALSE(holds(lowest_rank_died)) << "har.lowest_rank_died is found";
  EXPECT_EQ(cause_among({exit_at(0, 1), killed_at(5, SIGSEGV), exit_at(9, 1)}), 1u) << "rank 0 suffered from it";
  EXPECT_EQ(cause_among({exit_at(0, 1), exit_at(5, 128 + SIGSEGV)}), 1u) << "as a shell reports it";
  EXPECT_EQ(cause_among({exit_at(0, 3), killed_at(500, SIGSEGV)}), 0u) << "long after it";
  EXPECT_EQ(cause_among({killed_at(5, SIGABRT), exit_at(3, 1)}), 1u) << "an abort may be for the death of a peer";
  EXPECT_EQ(cause_among({killed_at(5, SIGKILL), killed_at(3, SIGBUS)}), 1u);
  EXPECT_EQ(cause_among({exit_at(7, 1)}), 0u);
}

std::optional<ProcessEnd> exit_with(int status) { return ProcessEnd{.number = status}; }
using Rule = std::function<bool(const RankEnds&)>;

// har.any_rank_skips: one rank that does not support the run is enough.
bool any_is_unsupported(const RankEnds& ends) {
  return std::ranges::any_of(ends, [](const auto& end) { return end && end->by_exit(kUnsupportedStatus); });
}

// HARNESS-040@0d89
TEST(RankEnds, AreUnsupportedWhereAllThatEndedByThemselvesSaySo) {
  const auto holds = [](const Rule& are_unsupported) {
    return are_unsupported({exit_with(77), exit_with(77)}) && are_unsupported({std::nullopt, exit_with(77)}) &&
           !are_unsupported({exit_with(77), exit_with(1)}) && !are_unsupported({exit_with(0), exit_with(77)});
  };
  EXPECT_TRUE(holds(are_unsupported));
  EXPECT_FALSE(holds(any_is_unsupported)) << "har.any_rank_skips is found";
}

// har.absent_crashes: a program that is not there crashes as any other.
bool none_is_absent(const RankEnds&) { return false; }

// HARNESS-042@043b
TEST(RankEnds, AreAbsentWhereTheShellStartedNone) {
  const auto holds = [](const Rule& are_absent) {
    return are_absent({exit_with(127), exit_with(126)}) && !are_absent({exit_with(127), exit_with(3)}) &&
           !are_absent({exit_with(127), std::nullopt});
  };
  EXPECT_TRUE(holds(are_absent));
  EXPECT_FALSE(holds(none_is_absent)) << "har.absent_crashes is found";
}

TEST(RankEnds, AreErrorsWhereEachEndedByItselfWithOne) {
  EXPECT_TRUE(are_errors({exit_with(2), exit_with(1)}));
  for (const RankEnds& ends : {RankEnds{exit_with(2), exit_with(0)}, RankEnds{exit_with(2), exit_with(77)},
                               RankEnds{exit_with(2), exit_with(128 + SIGSEGV)}, RankEnds{exit_with(2), std::nullopt}})
    EXPECT_FALSE(are_errors(ends));
}

TEST(MissingScript, IsAFileThatACommandNamesHere) {
  EXPECT_EQ(missing_script("python3 -B nosuch.py --lr 0.1"), "there is no file 'nosuch.py'; ");
  EXPECT_EQ(missing_script("torchrun --nproc-per-node $WORLD_SIZE './no/such.py'"),
            "there is no file './no/such.py'; ");
  for (const char* command : {"python3 -m train", "cd /src && python3 nosuch.py", "ssh host python3 nosuch.py",
                              "python3 $HOME/nosuch.py", "python3 train --config=nosuch.py", "true"})
    EXPECT_EQ(missing_script(command), "") << command;
}

// har.cause_alone: no word of other ranks than the cause.
std::string cause_alone(const std::vector<EndedRank>&) { return {}; }

// HARNESS-045@b311
TEST(EndedRanks, AreAllNamedWithTheirEnds) {
  const auto holds = [](const std::function<std::string(const std::vector<EndedRank>&)>& words_of) {
    return words_of({{"rank 0", "exited with status 1"}, {"rank 1", "exited with status 2"}}) ==
           "; rank 0 exited with status 1; rank 1 exited with status 2";
  };
  EXPECT_TRUE(holds([](const auto& ranks) { return words_of(ranks); }));
  EXPECT_FALSE(holds(cause_alone)) << "har.cause_alone is found";
}

// har.first_rank_asked: of several hung ranks only the first is asked.
std::string first_rank_asked(const std::vector<HungRank>& ranks) {
  return words_of(std::vector<HungRank>(ranks.begin(), ranks.begin() + 1));
}

// HARNESS-041@b080
TEST(HungRanks, AreAllNamedWithTheirTensorsAndFunctions) {
  const auto holds = [](const std::function<std::string(const std::vector<HungRank>&)>& words_of) {
    return words_of({{"rank 0", "step0/loss", "wait (a.c:1)", "a"}, {"rank 2", "step1/loss", "sum (b.c:2)", ""}}) ==
           "; rank 0 last recorded step0/loss; rank 2 last recorded step1/loss"
           "; rank 0 stood in wait (a.c:1); rank 0 last wrote: a; rank 2 stood in sum (b.c:2); rank 2 wrote nothing";
  };
  EXPECT_TRUE(holds([](const auto& ranks) { return words_of(ranks); }));
  EXPECT_FALSE(holds(first_rank_asked)) << "har.first_rank_asked is found";
  EXPECT_EQ(words_of({{.name = "rank 0", .recorded = ""}, {.name = "the program", .frames = ""}}),
            "; rank 0 recorded nothing; the program gave no stack; the program wrote nothing");
}

}  // namespace
}  // namespace plumbline::subject
