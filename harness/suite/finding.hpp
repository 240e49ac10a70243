// harness/suite/finding.hpp: what a check found wrong, as fields that stay fields up to the record and its reports.
//
// Model   A check reports a failure through GoogleTest, which carries words alone. While a Reporting lives, the failed
//         assertions of its thread are about its finding: whoever collects them takes requirement, values and rank from
//         there.
#pragma once

#include <string>
#include <utility>

namespace plumbline::suite {

struct Finding {
  std::string text = {};         // all of it, in words: what people read
  std::string requirement = {};  // "TRAIN-006"; empty: any that the check verifies
  std::string expected = {};     // the values, of the element that is named; empty: it is not about values
  std::string got = {};
  std::string bound = {};  // of their difference: "1e-08", "0" where the bits must be equal; empty: none is stated
  int rank = -1;           // of the subject, where one rank judges several, as those of a job; -1: the one that reports
};

class Reporting {
 public:
  explicit Reporting(const Finding& finding) : outer_(std::exchange(current_, &finding)) {}
  ~Reporting() { current_ = outer_; }
  Reporting(const Reporting&) = delete;
  Reporting& operator=(const Reporting&) = delete;

  /// Of the calling thread; null where none is reported.
  [[nodiscard]] static const Finding* current() { return current_; }

 private:
  inline static thread_local const Finding* current_ = nullptr;
  const Finding* outer_;
};

}  // namespace plumbline::suite
