// conformance/schedules/mutated_operations.hpp: the operations about plans whose answers mutants change.
#pragma once

namespace plumbline::mutants {

inline constexpr const char* kGenerate = "schedules.generate";
inline constexpr const char* kLower = "schedules.lower";
inline constexpr const char* kCheck = "schedules.check";
inline constexpr const char* kSimulate = "schedules.simulate";

}  // namespace plumbline::mutants
