// Of any test program whose checks ask an adapter: none passes on a subject of which it is not true.
#include <gtest/gtest.h>

#include "conformance/support/component_tests.hpp"
#include "conformance/support/hollow.hpp"

namespace plumbline::conformance {
namespace {

TEST(HollowAdapters, PassOnlyWhatIsTrueOfThem) { expect_hollow_adapters_fail(suite_under_test()); }
TEST(PartialAdapters, SkipWhatNamesTheOperationThatTheyLackAndPassTheRest) {
  expect_partial_adapters_pass(suite_under_test());
}

}  // namespace
}  // namespace plumbline::conformance
