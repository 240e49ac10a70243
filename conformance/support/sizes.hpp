// conformance/support/sizes.hpp: checks that ask one operation at sizes from small ones to those of real use.
//
// Model   What is right of a world of 8 may be wrong of one of 8,000. A sized check asks its operation at several
//         sizes, which grow about as a geometric series, and judges each answer by what follows from the question, in
//         time about proportional to it. The table in largest_sizes_test.cpp says the largest size of each check.
#pragma once

#include <functional>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

#include "harness/suite/suite.hpp"

namespace plumbline::conformance {

/// What is wrong with the answers at a size; "" when nothing is.
using JudgeSize = std::function<std::string(suite::Adapter& adapter, int size)>;

/// Values of one of an operation's options, each asked in cases of its own: a subject is held to every one that it has.
struct Choice {
  const char* argument = "";
  std::vector<std::pair<std::string, JudgeSize>> values = {};
};

struct SizedCheck {
  const char* operation = "";  // "schedules.check"; the others that the judge asks stand after it
  const char* requirement = "";
  std::vector<int> sizes;
  JudgeSize problem;
  const char* convention = "plumbline";
  const char* part = "";  // of the name, where an operation has several checks
  std::vector<std::string> others = {};
  suite::OptionValues options = {};  // that every case asks for
  Choice choice = {};                // in place of `problem`
};
/// The check, which asks for these values of options of its operation, by argument.
[[nodiscard]] SizedCheck asking(suite::OptionValues::mapped_type values, SizedCheck one);

/// "<component>.sizes.<operation>", with the part and with the convention of another system.
[[nodiscard]] std::string id_of(const std::string& component, const SizedCheck& one);
/// At the place of the call.
void add_sized_check(suite::Suite& suite, const std::string& component, SizedCheck one,
                     const std::source_location& where = std::source_location::current());

}  // namespace plumbline::conformance
