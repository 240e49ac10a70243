#include "harness/cli/schedule_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"

namespace plumbline::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string rows_of_file(const std::string& text, const GivenPlacement& given = {}) {
  return to_csv(parse_schedule_file(text, given).schedule);
}
std::string refusal_of_file(const std::string& text) {
  try {
    (void)parse_schedule_file(text);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "accepted";
}

TEST(ScheduleFile, HasCellsWithQuotesOrWithout) {
  const std::string rows = "0F0,0B0\n1F0,1B0\n";
  EXPECT_EQ(rows_of_file(rows), rows);
  EXPECT_EQ(rows_of_file("\"0F0\",\"0B0\"\r\n\"1F0\", \"1B0\" \r\n"), rows);
  EXPECT_EQ(rows_of_file("\xEF\xBB\xBF" + rows), rows);
  EXPECT_EQ(rows_of_file("0F0,\"\",0B0\n\"1F0\",1B0\n"), "0F0,,0B0\n1F0,1B0\n");
}

TEST(ScheduleFile, IsReadInTheNotationThatItIsIn) {
  EXPECT_EQ(rows_of_file("0F0,0BW0\n1F0,1B0,1W0\n"), "0F0,0B0\n1F0,1I0,1W0\n");
  // B and W alone mean something in both: old only where it is said.
  const std::string both = "0F0,0B0,0W0\n1F0,1B0,1W0\n";
  EXPECT_EQ(rows_of_file(both), both);
  EXPECT_THAT(notation_hint(parse_schedule_file(both)), HasSubstr("--notation torch-old"));
  EXPECT_EQ(rows_of_file(both, {.notation = Notation::old}), "0F0,0I0,0W0\n1F0,1I0,1W0\n");
  EXPECT_EQ(notation_hint(parse_schedule_file(both, {.notation = Notation::present})), "");
  EXPECT_EQ(notation_hint(parse_schedule_file("0F0,0B0,0F1,0W1\n")), "") << "a W of no B is right in neither";
  EXPECT_THROW((void)parse_schedule_file("0F0,0I0,0W0\n", {.notation = Notation::old}), InvalidArgument);
  EXPECT_THROW((void)parse_schedule_file("0F0,0BW0\n", {.notation = Notation::present}), InvalidArgument);
  // Our own JSON is never guessed at.
  EXPECT_EQ(rows_of_file(R"({"ranks": ["0F0,0B0,0W0"]})"), "0F0,0B0,0W0\n");
  EXPECT_EQ(rows_of_file(R"({"ranks": ["0F0,0B0,0W0"]})", {.notation = Notation::old}), "0F0,0I0,0W0\n");
  EXPECT_THAT(refusal_of_file(R"({"ranks": ["0F0,0BW0"]})"), HasSubstr("'0BW0' is no cell"));
  EXPECT_EQ(rows_of_file("0F0,0RECV_B0,0BW0\n1F0,1B0,1SEND_B0,1W0\n"), "0F0,0RECV_B0,0B0\n1F0,1I0,1SEND_B0,1W0\n");
  EXPECT_EQ(rows_of_file("0F0,(0F1;0BW0)OVERLAP_F_B,0BW1\n"), "0F0,(0F1;0B0)OVERLAP_F_B,0B1\n");
  // A W of no B, or beside an I, is what it is now: for the check to report.
  EXPECT_EQ(rows_of_file("0F0,0B0,0F1,0W1\n"), "0F0,0B0,0F1,0W1\n");
  EXPECT_EQ(rows_of_file("0F0,0I0,0W0,0F1,0B1\n"), "0F0,0I0,0W0,0F1,0B1\n");
  EXPECT_EQ(notation_text(parse_schedule_file("0F0,0B0\n")), "");
  EXPECT_THAT(notation_text(parse_schedule_file("0F0,0BW0\n")), HasSubstr("old notation"));
}

TEST(ScheduleFile, IsJson) {
  const ScheduleFile file = parse_schedule_file(
      R"({"ranks": ["0F0,2F0,2B0,0B0", "1F0,1B0"], "stage_to_rank": [0, 1, 0], "num_stages": 3, "makespan": 9})");
  EXPECT_EQ(to_csv(file.schedule), "0F0,2F0,2B0,0B0\n1F0,1B0\n");
  EXPECT_EQ(file.schedule.stage_to_rank, (std::vector<int>{0, 1, 0}));
  EXPECT_EQ(rows_of_file("\xEF\xBB\xBF{\"ranks\": [\"0F0\"]}"), "0F0\n");
  EXPECT_EQ(parse_schedule_file(R"({"ranks": ["0F0"], "microbatches": 3})").schedule.micro_batches, 3);
}

TEST(ScheduleFile, HasThePlacementOfTheOptions) {
  const std::string json = R"({"ranks": ["0F0,0B0", ""], "stage_to_rank": [0], "microbatches": 3})";
  const ScheduleFile file = parse_schedule_file(json, {.stage_to_rank = {0, 1}, .micro_batches = 2});
  EXPECT_EQ(file.schedule.stages, 2);
  EXPECT_EQ(file.schedule.micro_batches, 2);
}

TEST(ScheduleFile, IsRefusedWithItsPlace) {
  EXPECT_THAT(refusal_of_file("0F0,0B0\n\"1F0,1B0\n"), HasSubstr("line 2, column 1: '\"1F0' is no cell"));
  EXPECT_THAT(refusal_of_file("0F0,0BW0,0F1,0I1\n"), HasSubstr("both BW"));
  EXPECT_THAT(refusal_of_file("{"), HasSubstr("schedule, line 1, column 2: this is not JSON"));
  EXPECT_THAT(refusal_of_file("{}"), HasSubstr("ranks: it is missing"));
  EXPECT_THAT(refusal_of_file(R"({"ranks": "0F0"})"), HasSubstr("ranks: must be a list"));
  EXPECT_THAT(refusal_of_file(R"({"ranks": [1]})"), HasSubstr("ranks: must be a list"));
  EXPECT_THAT(refusal_of_file(R"({"ranks": []})"), HasSubstr("no line has an action"));
  EXPECT_THAT(refusal_of_file(R"({"ranks": ["0F0"], "stage_to_rank": [1]})"),
              HasSubstr("schedule: stage_to_rank: rank 1"));
  EXPECT_THAT(refusal_of_file(R"({"ranks": ["0F0"], "stage_to_rank": [-1]})"), HasSubstr("must be a list of ranks"));
  EXPECT_THAT(refusal_of_file(R"({"ranks": ["0F0"], "stage_to_rank": [0], "num_stages": 2})"), HasSubstr("num_stages"));
  EXPECT_THAT(refusal_of_file(R"({"ranks": ["0F0"], "microbatches": 0})"), HasSubstr("microbatches: must be a whole"));
  EXPECT_THAT(refusal_of_file(R"({"ranks": ["0F0"], "stage_to_rnk": [0]})"),
              AllOf(HasSubstr("the schedule has no field 'stage_to_rnk'"), HasSubstr("did you mean stage_to_rank?")));
}

}  // namespace
}  // namespace plumbline::cli
