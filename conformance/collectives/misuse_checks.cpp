// Members that disagree on a call, where the backend claims to notice. The group is a duplicate; the members meet on
// the world.
#include <array>
#include <regex>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conformance/collectives/collectives_checks.hpp"
#include "conformance/collectives/trials.hpp"
#include "conformance/support/words.hpp"
#include "harness/suite/skipped.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::conformance {

using comm::Call;
using comm::DType;
using comm::MismatchError;
using comm::Operation;
using suite::Context;

namespace {

// The member that differs, and how its call and the others' are told apart in words.
constexpr int kDeviant = 1;

struct Disagreement {
  Trial usual;
  Trial deviant;
  std::vector<std::string> words;  // the values of both
};

// Two dtypes that the backend claims, of the same size if it can be; one, and the members cannot disagree.
std::vector<DType> two_dtypes(const comm::Capabilities& capabilities) {
  return claimed(capabilities,
                 std::array{DType::f32, DType::i32, DType::f64, DType::i64, DType::f16, DType::bf16, DType::u8});
}

// Roots that are neither the deviant nor the first of the others; smaller groups have none.
constexpr int kUsualRoot = 3;
constexpr int kOtherRoot = 4;

Disagreement disagreement_of(const std::string& difference, const std::vector<DType>& dtypes, int ranks) {
  const Trial usual{.dtype = dtypes[0], .elements = 7};
  Disagreement one{usual, usual, {}};
  if (difference == "operation") {
    one.deviant.operation = Operation::all_to_all;
    one.words = {"all_reduce", "all_to_all"};
  } else if (difference == "count") {
    one.deviant.elements = 8;
    one.words = {"7", "8"};
  } else if (difference == "dtype") {
    one.deviant.dtype = dtypes[1];
    one.words = {std::string(name_of(dtypes[0])), std::string(name_of(dtypes[1]))};
  } else if (difference == "op") {
    one.deviant.op = comm::ReduceOp::max;
    one.words = {"sum", "max"};
  } else {  // root
    one.usual.operation = one.deviant.operation = Operation::broadcast;
    const bool has_others = ranks > kOtherRoot;
    one.usual.root = has_others ? kUsualRoot : 0;
    one.deviant.root = has_others ? kOtherRoot : 1;
    one.words = {"root"};
  }
  return one;
}

// Values, which the numbers of the ranks that have them do not stand for.
void expect_words(const std::string& message, const std::vector<std::string>& words) {
  EXPECT_EQ(missing_words(without_ranks(message), words), "") << "is not in: " << message;
}

// Numbers that are neither those of ranks, nor in a list of a group's members, nor those of calls and groups. A list
// after "roots" is kept.
void expect_roots(const std::string& message) {
  static const std::regex others(
      R"((\broots?[\s:=]*\[[\d\s,]*\])|\[[\d\s,]*\]|#\s*\d+|\b(?:call|group|operation|sequence)s?\s*(?:number|no\.?)?\s*\d+)",
      std::regex::icase);
  expect_words(std::regex_replace(message, others, "$1"), {std::to_string(kUsualRoot), std::to_string(kOtherRoot)});
}

// Ranks of both values. One of each will do: which others have come, a member that finds a difference may not know.
void expect_ranks_of_both(const std::string& message) {
  using testing::AllOf, testing::Contains, testing::Ne;
  EXPECT_THAT(ranks_named(message), AllOf(Contains(kDeviant), Contains(Ne(kDeviant)))) << message;
}

void require_two(const std::vector<DType>& dtypes) {
  if (dtypes.size() < 2) throw suite::Skipped{"needs two dtypes, which the subject does not claim"};
}

void detected(Context& context) {
  const std::string& difference = context.parameters().text("difference");
  const std::vector<DType> dtypes = two_dtypes(context.capabilities());
  if (difference == "dtype") require_two(dtypes);
  const auto victim = context.world().duplicate();
  const Disagreement one = disagreement_of(difference, dtypes, context.size());
  const Exercise exercise(*victim, context.rank() == kDeviant ? one.deviant : one.usual);
  const std::string message = words_of<MismatchError>([&] { exercise.run(*victim); }, "members that disagree");
  expect_words(message, one.words);
  if (difference == "root" && context.size() > kOtherRoot) expect_roots(message);
  expect_ranks_of_both(message);
  report(exercise.touched());
  expect_usable(context.world());
}

void messages(Context& context) {
  const bool by_count = context.parameters().text("difference") == "count";
  const std::vector<DType> dtypes = two_dtypes(context.capabilities());
  if (!by_count) require_two(dtypes);
  const auto victim = context.world().duplicate();
  if (context.rank() == 0) {
    const GuardedInput sent(dtypes[0], std::vector(5 * size_of(dtypes[0]), std::byte{3}));
    try {
      victim->send(sent.view(), 1, 4);
    } catch (const MismatchError&) {  // unless the message was already on its way
    }
  }
  if (context.rank() == 1) {
    GuardedOutput room(dtypes[by_count ? 0 : 1], by_count ? 6 : 5);
    const std::string message =
        words_of<MismatchError>([&] { victim->recv(room.view(), 0, 4); }, "a message of another shape");
    const std::vector<std::string> counts{"5", "6"};
    expect_words(message,
                 by_count ? counts : std::vector{std::string(name_of(dtypes[0])), std::string(name_of(dtypes[1]))});
    report(room.touched());
  }
  expect_usable(context.world());
}

}  // namespace

void add_misuse_checks(suite::Suite& suite) {
  suite.add({.id = "collectives.misuse.detected",
             .verifies = {"COLL-057@d679"},
             .axes = {{"difference", {"operation", "count", "dtype", "op", "root"}}, suite::worlds({2, 3, 5, 6})},
             .spoils_group = true,
             .body = detected});
  suite.add({.id = "collectives.misuse.messages",
             .verifies = {"COLL-058@593a"},
             .axes = {{"difference", {"count", "dtype"}}, suite::worlds({2, 3})},
             .spoils_group = true,
             .body = messages});
}

}  // namespace plumbline::conformance
