// The rules by which a record is kept. Each is put to the test beside a faulty variant of itself (har.…), which
// the same examples must find: so it is known that the test can fail.
#include <fstream>
#include <functional>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/record/environment.hpp"
#include "harness/record/file.hpp"
#include "reference/support/temporary_folder.hpp"

namespace plumbline::record {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::IsEmpty;
using testing::Not;

using Wrong = std::vector<std::string>;  // the examples in which a rule does not hold

Result result_numbered(int number, Verdict verdict = Verdict::pass) {
  const std::string id = "a.case" + std::to_string(number);
  return {.check = id, .case_id = id, .requirements = {"TOY-001"}, .verdict = verdict};
}

Header header_of(int results) {
  Header header{.command = "check", .subject = "toy"};
  for (int number = 0; number < results; ++number)
    header.plan.push_back({.case_id = result_numbered(number).case_id, .requirements = {"TOY-001"}});
  return header;
}

// ---- a record is readable after a crash at any point ----

constexpr int kResults = 4;

/// Records kResults results in `folder`, and dies after `count` of them.
using Recorder = std::function<void(const fs::path& folder, int count)>;

void line_by_line(const fs::path& folder, int count) {
  Writer writer(folder, header_of(kResults));
  for (int number = 0; number < kResults; ++number) {
    writer.write(result_numbered(number));
    if (number + 1 == count) ::_exit(0);
  }
}

// har.truncated_json: the results become one document, which is written at the end.
void all_at_the_end(const fs::path& folder, int count) {
  json document{{"header", header_of(kResults)}, {"results", json::array()}};
  for (int number = 0; number < kResults; ++number) {
    document["results"].push_back(result_numbered(number));
    if (number + 1 == count && count < kResults) ::_exit(0);
  }
  write_file(folder / "run.jsonl", document.dump() + "\n");
  ::_exit(0);
}

void in_a_process_that_dies(const Recorder& recorder, const fs::path& folder, int count) {
  const pid_t child = ::fork();
  if (child == 0) recorder(folder, count);
  ASSERT_GT(child, 0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
}

std::size_t results_in(const fs::path& file) {
  try {
    return read(file).results.size();
  } catch (const std::exception&) {
    return 0;
  }
}

std::string text_of(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

Wrong lost_by(const Recorder& recorder) {
  Wrong wrong;
  const job::TemporaryFolder temporary;
  const fs::path file = temporary.path() / "run.jsonl";
  for (int count = 1; count <= kResults; ++count) {
    fs::remove(file);
    in_a_process_that_dies(recorder, temporary.path(), count);
    if (results_in(file) != static_cast<std::size_t>(count)) wrong.push_back("after result " + std::to_string(count));
  }
  // The last write may have come to the disk in part.
  const std::string whole = text_of(file);
  const std::size_t last = whole.rfind('\n', whole.size() - 2) + 1;
  for (std::size_t size = last; size < whole.size(); ++size) {
    std::ofstream(file, std::ios::binary) << whole.substr(0, size);
    if (results_in(file) != kResults - 1) wrong.push_back("after byte " + std::to_string(size));
  }
  return wrong;
}

// HARNESS-001@068b
TEST(Rules, ARecordIsReadableAfterACrashAtAnyPoint) {
  EXPECT_THAT(lost_by(line_by_line), IsEmpty());
  EXPECT_THAT(lost_by(all_at_the_end), Not(IsEmpty())) << "har.truncated_json is found";
}

// ---- hosts are told apart by more than their names ----

using Identity = std::function<std::string(const HostFacts&)>;

Wrong taken_for_one(const Identity& identity) {
  const HostFacts here{.name = "node", .machine = "m1", .boot = "b1", .processes = "pid:[1]"};
  HostFacts clone = here, restarted = here, container = here, renamed = here;
  clone.machine = "m2";
  restarted.boot = "b2";
  container.processes = "pid:[2]";
  renamed.name = "edon";
  Wrong wrong;
  for (const auto& [what, other] :
       {std::pair("another machine of the name", clone), std::pair("another boot", restarted),
        std::pair("a container", container), std::pair("another name", renamed)})
    if (identity(here) == identity(other)) wrong.emplace_back(what);
  if (identity(here) != identity(HostFacts(here))) wrong.emplace_back("itself");
  return wrong;
}

// HARNESS-002@3626
TEST(Rules, HostsAreToldApartByMoreThanTheirNames) {
  EXPECT_THAT(taken_for_one(host_identity), IsEmpty());
  EXPECT_THAT(taken_for_one([](const HostFacts& facts) { return facts.name; }), Not(IsEmpty()))
      << "har.hostname_collision is found";
  EXPECT_EQ(host_identity(host_facts()), capture_environment().at("host_identity"));
}

// ---- output of any bytes ----

using Line = std::function<std::string(const json&)>;

std::string line_of_writer(const json& line) {
  const job::TemporaryFolder temporary;
  {
    Writer writer(temporary.path(), header_of(0));
    writer.write(line.get<Result>());
  }
  const std::string text = text_of(temporary.path() / "run.jsonl");
  return text.substr(text.find('\n') + 1);
}

Wrong spoilt_by_bytes(const Line& line_of) {
  Wrong wrong;
  Result one = result_numbered(0, Verdict::fail);
  for (int byte = 0; byte < 256; ++byte) {
    one.output = std::string("a") + static_cast<char>(byte) + "b";
    try {
      const std::string line = line_of(one);
      if (std::ranges::count(line, '\n') != 1 || !json::accept(line)) wrong.push_back(std::to_string(byte));
    } catch (const std::exception&) {
      wrong.push_back(std::to_string(byte));
    }
  }
  return wrong;
}

// HARNESS-014@abd8
TEST(Rules, OutputOfAnyBytesIsALineOfText) {
  EXPECT_THAT(spoilt_by_bytes(line_of_writer), IsEmpty());
  EXPECT_THAT(spoilt_by_bytes([](const json& line) { return line.dump() + "\n"; }), Not(IsEmpty()))
      << "har.raw_bytes is found";
}

}  // namespace
}  // namespace plumbline::record
