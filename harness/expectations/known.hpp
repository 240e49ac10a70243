// harness/expectations/known.hpp: all that is known of a case before it runs, from whoever knows it.
#pragma once

#include "harness/expectations/expectations.hpp"

namespace plumbline::expectations {

/// Looks in this order: the suite's issues, the owner's expectations, the suite's waivers.
class Known {
 public:
  /// `book` may be nullptr: a statement has no expectations. `run` are the facts of the run. Throws InvalidArgument
  /// where the book is another subject's. Keeps references to `suite` and `book`.
  Known(const suite::Suite& suite, const Expectations* book, suite::Identity subject, Facts run,
        std::chrono::sys_days today);

  /// Of a case's result, filled in or not. Throws InvalidArgument for entries that contradict each other.
  [[nodiscard]] std::optional<record::Expectation> of(const record::Result& one) const;

 private:
  [[nodiscard]] bool covers(const suite::Waiver& waiver, const record::Result& one,
                            const std::vector<std::string>& requirements) const;
  [[nodiscard]] const suite::Waiver* waiver_of(const record::Result& one,
                                               const std::vector<std::string>& requirements) const;
  [[nodiscard]] const suite::Waiver* waiver_of(const record::Result& one) const;

  const suite::Suite& suite_;
  const Expectations* book_;
  suite::Identity subject_;
  Facts run_;
  std::chrono::sys_days today_;
};

}  // namespace plumbline::expectations
