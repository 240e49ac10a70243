#include "harness/suite/mutant.hpp"

namespace plumbline::suite {

Door door_of(const Mutant& mutant) {
  if (std::holds_alternative<RewriteAnswer>(mutant.change) || std::holds_alternative<MakeRewrite>(mutant.change))
    return Door::adapter;
  return std::holds_alternative<ChangeRecord>(mutant.change) ? Door::job : Door::backend;
}

}  // namespace plumbline::suite
