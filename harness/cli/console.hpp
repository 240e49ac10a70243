// harness/cli/console.hpp: what a person sees of a run: progress while it lasts, failures as they come, a short
// summary.
#pragma once

#include <chrono>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "harness/record/result.hpp"
#include "harness/run/judgement.hpp"
#include "harness/suite/suite.hpp"

namespace plumbline::cli {

class Console {
 public:
  /// Colours and a moving line only on a terminal. `groups`: the number of shapes under way at a time.
  Console(const suite::Suite& suite, std::size_t planned, bool terminal, int groups = 1);

  /// Something new of this kind begins; without a terminal one line per shape, or of several groups one each 5 seconds,
  /// is all the progress there is.
  void begin(const std::string& shape, const std::string& name);
  /// It has not ended yet. A terminal shows it anyway.
  void still(const std::string& name, std::chrono::duration<double> since);
  void result(const record::Result& result);
  void line(const std::string& text);
  /// Totals, requirements that did not pass, where the record is.
  void summary(const record::Run& run, const std::string& folder);

 private:
  [[nodiscard]] std::string coloured(const std::string& text, int colour) const;
  void erase_progress();
  void failure(const record::Result& result);
  [[nodiscard]] std::string details(const record::Result& result) const;
  void end_shape();

  const suite::Suite& suite_;
  const bool terminal_;
  const int groups_;
  std::size_t planned_;
  std::size_t done_ = 0;
  std::set<std::pair<run::Judgement, std::string>> shown_;  // requirements of the failures that were shown
  std::map<std::string, int> again_;                        // failures of a requirement after the first
  std::string shape_;
  std::size_t shape_done_ = 0;
  std::chrono::steady_clock::time_point shape_begun_;
  std::chrono::steady_clock::time_point drawn_{};
  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
};

}  // namespace plumbline::cli
