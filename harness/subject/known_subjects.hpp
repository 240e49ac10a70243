// harness/subject/known_subjects.hpp: the subjects that every build has: the reference, by each door.
#pragma once

#include <vector>

#include "harness/suite/coverage.hpp"

namespace plumbline::subject {

[[nodiscard]] std::vector<suite::KnownSubject> known_subjects();

}  // namespace plumbline::subject
