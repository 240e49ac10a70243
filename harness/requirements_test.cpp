// requirements.toml and the tests know each other: every row names tests that are there and cite it, every citation is
// of a row's sentence as it is now, and every fault that a row names is planted by one of its tests.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/suite/requirement.hpp"

namespace plumbline {
namespace {

namespace fs = std::filesystem;
using suite::Requirement;
using suite::RequirementTable;
using testing::ElementsAre;
using testing::IsEmpty;

std::string text_of(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

std::vector<std::string> all_of(const std::string& text, const std::string& pattern) {
  const std::regex expression(pattern);
  std::vector<std::string> found;
  for (std::sregex_iterator match(text.begin(), text.end(), expression), end; match != end; ++match)
    found.push_back((*match)[1]);
  return found;
}

// ---- what there is ----

struct Tests {
  std::map<std::string, std::set<std::string>> citations;  // of a test, "record_test: Rules.A": "HARNESS-001@068b"
  std::map<std::string, std::string> files;                // of a file or executable: its text
  std::vector<std::string> problems;
};

// The tests of a file, with what the comment over each cites.
void add_tests(Tests& tests, const std::string& owner, const std::string& name, const std::string& text) {
  static const std::regex test(R"(TEST(?:_F|_P)?\((\w+), (\w+)\).*|\s+def (test_\w+)\(.*)");
  tests.files[owner] += text;
  std::istringstream lines(text);
  std::vector<std::string> cited;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t begin = line.find_first_not_of(' ');
    const bool comment = begin != std::string::npos && (line[begin] == '#' || line.compare(begin, 2, "//") == 0);
    const auto here = comment ? all_of(line, R"((HARNESS-\d{3}@\w{4}))") : std::vector<std::string>{};
    if (!here.empty()) cited = here;
    std::smatch match;
    if (std::regex_match(line, match, test)) {
      const std::string id = match[3].matched ? match[3].str() : fmt::format("{}.{}", match[1].str(), match[2].str());
      auto& list = tests.citations[fmt::format("{}: {}", owner, id)];
      list.insert(cited.begin(), cited.end());
    } else if (here.empty() && (cited.empty() || (begin != std::string::npos && line[begin] == '@'))) {
      continue;  // a decorator may stand between
    } else if (here.empty()) {
      tests.problems.push_back(fmt::format("{} cites {} over no test", name, cited.front()));
    }
    if (here.empty()) cited.clear();
  }
}

// Tests in Python by their file, those in C++ by the executable that CMakeLists.txt makes of them.
Tests tests_under(const std::vector<fs::path>& folders) {
  Tests tests;
  for (const fs::path& folder : folders)
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      const std::string name = entry.path().filename();
      if (name.ends_with("_test.py")) add_tests(tests, name, name, text_of(entry.path()));
      if (name != "CMakeLists.txt") continue;
      static const std::regex made(R"(plumbline_test\((\w+)\s([^)]*))");
      const std::string text = text_of(entry.path());
      for (std::sregex_iterator match(text.begin(), text.end(), made), end; match != end; ++match)
        for (const std::string& source : all_of((*match)[2], R"((\w+_test\.cpp))"))
          add_tests(tests, (*match)[1], source, text_of(entry.path().parent_path() / source));
    }
  return tests;
}

// ---- what does not fit ----

void look_at_row(const Requirement& row, const Tests& tests, std::vector<std::string>& problems) {
  if (row.checks.empty()) problems.push_back(fmt::format("{} names no test", row.id));
  for (const std::string& check : row.checks) {
    const auto test = tests.citations.find(check);
    if (test == tests.citations.end())
      problems.push_back(fmt::format("{} names '{}', which is no test", row.id, check));
    else if (std::ranges::none_of(test->second,
                                  [&](const std::string& one) { return suite::id_of_citation(one) == row.id; }))
      problems.push_back(fmt::format("{} names '{}', which does not cite it", row.id, check));
  }
  for (const std::string& mutant : row.mutants)
    if (std::ranges::none_of(row.checks, [&](const std::string& check) {
          const auto file = tests.files.find(check.substr(0, check.find(':')));
          return file != tests.files.end() && file->second.find(mutant) != std::string::npos;
        }))
      problems.push_back(fmt::format("{} names {}, which none of its tests plants", row.id, mutant));
}

std::vector<std::string> problems_of(const RequirementTable& table, const Tests& tests) {
  std::vector<std::string> problems = tests.problems;
  for (const auto& [id, row] : table.rows()) look_at_row(row, tests, problems);
  for (const auto& [test, citations] : tests.citations)
    for (const std::string& citation : citations) {
      const Requirement* row = table.find(suite::id_of_citation(citation));
      if (row == nullptr)
        problems.push_back(fmt::format("{} cites {}, which is no requirement", test, citation));
      else if (citation != row->citation())
        problems.push_back(fmt::format("{} cites {}, but the sentence is now {}: look whether it still holds", test,
                                       citation, row->citation()));
      else if (std::ranges::count(row->checks, test) == 0)
        problems.push_back(fmt::format("{} does not name {}, which cites it", row->id, test));
    }
  return problems;
}

RequirementTable table_of(const std::string& text) {
  RequirementTable table;
  table.add_toml(text, "requirements.toml");
  return table;
}

TEST(Requirements, OfTheHarnessAndItsTestsKnowEachOther) {
  const fs::path root = SOURCE_FOLDER;
  const RequirementTable table = table_of(text_of(root / "harness/requirements.toml"));
  const Tests tests = tests_under({root / "harness", root / "conformance"});
  EXPECT_GT(tests.citations.size(), 100u) << "the tests were not found";
  EXPECT_THAT(problems_of(table, tests), IsEmpty());
  for (const auto& [id, row] : table.rows()) {
    EXPECT_TRUE(id.starts_with("HARNESS-")) << id;
    EXPECT_FALSE(row.sources.empty() || row.tags.empty()) << id;
  }
}

// ---- that it would see what is wrong ----

class PlantedTest : public testing::Test {
 protected:
  static std::string row(const std::string& checks, const std::string& mutants = "") {
    return "component = \"harness\"\n[[requirement]]\nid = \"HARNESS-801\"\nlevel = \"must\"\nsince = \"0.1\"\n"
           "text = \"It holds.\"\nchecks = [" +
           checks + "]\nmutants = [" + mutants + "]\n";
  }
  // What is wrong with a row and a file of tests of launch_test.
  static std::vector<std::string> problems(const std::string& row, const std::string& file) {
    Tests tests;
    add_tests(tests, "launch_test", "some_test.cpp", file);
    return problems_of(table_of(row), tests);
  }
  static std::string citation() { return "// HARNESS-801@" + suite::sentence_hash("It holds.") + "\n"; }
  const std::string named_ = "\"launch_test: A.B\"";
};

TEST_F(PlantedTest, ARowThatNamesATestThatDoesNotExist) {
  EXPECT_THAT(problems(row(named_), citation() + "TEST(A, B) {\n"), IsEmpty());
  EXPECT_THAT(problems(row(named_), "TEST(A, C) {\n"),
              ElementsAre("HARNESS-801 names 'launch_test: A.B', which is no test"));
  EXPECT_THAT(problems(row(""), ""), ElementsAre("HARNESS-801 names no test"));
}

TEST_F(PlantedTest, ATestThatCitesWhatIsNoRequirement) {
  EXPECT_THAT(problems(row(named_), citation() + "TEST(A, B) {\n// HARNESS-" + "802@0000\nTEST_F(A, C) {\n"),
              ElementsAre("launch_test: A.C cites HARNESS-802@0000, which is no requirement"));
}

TEST_F(PlantedTest, AHashThatIsStale) {
  EXPECT_THAT(problems(row(named_), std::string("// HARNESS-") + "801@0000\nTEST(A, B) {\n"),
              ElementsAre(testing::HasSubstr("cites HARNESS-801@0000, but the sentence is now HARNESS-801@")));
}

TEST_F(PlantedTest, WhatOnlyOneSideKnows) {
  EXPECT_THAT(problems(row(named_), "TEST(A, B) {\n"),
              ElementsAre("HARNESS-801 names 'launch_test: A.B', which does not cite it"));
  EXPECT_THAT(problems(row(named_), citation() + "TEST(A, B) {\n" + citation() + "TEST(A, C) {\n"),
              ElementsAre("HARNESS-801 does not name launch_test: A.C, which cites it"));
  EXPECT_THAT(problems(row(named_), citation() + "TEST(A, B) {\n" + citation() + "int x;\nTEST(A, C) {\n"),
              ElementsAre(testing::HasSubstr("some_test.cpp cites HARNESS-801@")));
  EXPECT_THAT(problems(row(named_, "\"har.planted\""), citation() + "TEST(A, B) {\n"),
              ElementsAre("HARNESS-801 names har.planted, which none of its tests plants"));
}

}  // namespace
}  // namespace plumbline
