// Operations that copy: the right block from the right member, bit for bit.

#include "conformance/collectives/collectives_checks.hpp"
#include "conformance/collectives/trials.hpp"

namespace plumbline::conformance {

using comm::DType;
using comm::Operation;
using suite::Context;

namespace {

// Every claimed dtype at every usual length; each member is the root in turn.
void exact(Context& context, Operation operation) {
  int turn = 0;
  for (const DType dtype : claimed(context.capabilities()))
    for (const std::int64_t elements : usual_lengths(context.size()))
      expect_result(context.world(), {.operation = operation,
                                      .dtype = dtype,
                                      .root = turn++ % context.size(),
                                      .elements = elements,
                                      .seed = context.seed() + static_cast<std::uint64_t>(turn)});
}

void bits(Context& context) {
  for (const Operation operation : exercised_operations(context.world()))
    if (!is_reduction(operation))
      for (int root = 0; root < (is_rooted(operation) ? context.size() : 1); ++root)
        expect_result(context.world(), {.operation = operation,
                                        .dtype = context.parameters().dtype(),
                                        .root = root,
                                        .elements = 61,
                                        .special = true});
}

}  // namespace

void add_copy_checks(suite::Suite& suite) {
  const auto add = [&](const char* id, const char* citation, Operation operation) {
    suite.add({.id = id, .verifies = {citation}, .axes = {suite::worlds()}, .body = [operation](Context& context) {
                 exact(context, operation);
               }});
  };
  add("collectives.broadcast.exact", "COLL-016@57fe", Operation::broadcast);
  add("collectives.all_gather.exact", "COLL-017@4f09", Operation::all_gather);
  add("collectives.gather.exact", "COLL-018@5cd2", Operation::gather);
  add("collectives.scatter.exact", "COLL-019@86d4", Operation::scatter);
  add("collectives.all_to_all.exact", "COLL-020@689a", Operation::all_to_all);
  suite.add({.id = "collectives.copies.bits",
             .verifies = {"COLL-021@ec6b"},
             .axes = {suite::floating_dtypes(), suite::worlds()},
             .body = bits});
}

}  // namespace plumbline::conformance
